"""Format the result of a drill as a table, Markdown, CSV, JSON data, or an HTML page with timelines."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege.drill.fault import CONTROL, DEAD, HIDDEN, HURT, NOT_POSSIBLE, OK
from under_siege.drill.fault_outcomes import FAULTS, FaultOutcome, fault_outcomes
from under_siege.drill.incident_metrics import answered_at_s
from under_siege.formatting import capitalized, listed
from under_siege.judge.case_names import in_brief, in_plain_words, name_of, short, with_capital, with_name
from under_siege.record.record import Incident, Result, SkippedServer
from under_siege.show.canvas import Drawing, Sheet, Theme
from under_siege.show.html_page import Picture, Section, page
from under_siege.show.notes import cores
from under_siege.show.text_tables import Grid, Heading, TableCell, plain, rows_as_csv, small_print

MARKS = {OK: "", HURT: "~", DEAD: "✗", HIDDEN: "✗!"}
LEGEND = f"~ degraded · ✗ dead · ✗! pings answered, tasks not · {NOT_POSSIBLE} not applicable"
_WIDE = 23  # in columns; longer server names are wrapped, because rows have several lines anyway
_STYLES = {HURT: "yellow", DEAD: "red", HIDDEN: "bold red"}
Rows = list[tuple[str, str, list[FaultOutcome | None]]]


def heading_lines(fault: str) -> tuple[str, str, str]:
    """Return the three lines of a fault's column heading."""
    return FAULTS[fault].heading, *FAULTS[fault].columns


def cell_lines(outcome: FaultOutcome) -> tuple[str, str]:
    """Return the two lines of a cell, with `failed` if the drill failed, or a dash if the fault does not apply."""
    if not outcome.figures:
        return ("failed" if outcome.failure else NOT_POSSIBLE), ""
    first, second = FAULTS[outcome.fault].texts(outcome.figures)
    return f"{first} {MARKS.get(outcome.mark, '')}".rstrip(), second


def matrix_of(outcomes: Sequence[FaultOutcome]) -> tuple[list[str], Rows]:
    """Return the columns (faults that apply to at least one server) and the rows (names and outcomes of servers)."""
    applied = {outcome.fault for outcome in outcomes if outcome.figures or outcome.failure}
    columns = applied or {outcome.fault for outcome in outcomes}
    faults = [name for name in FAULTS if name in columns]
    cases = [outcome.case for outcome in outcomes]
    rows: dict[tuple[str, str], dict[str, FaultOutcome]] = {}
    for outcome in outcomes:
        name, server = name_of(outcome.case, cases), outcome.case.server
        plain_name = f"{in_plain_words(server, outcome.title)}{name.removeprefix(server)}"
        rows.setdefault((plain_name, name), {})[outcome.fault] = outcome
    return faults, [(*names, [cells.get(fault) for fault in faults]) for names, cells in rows.items()]


def conclusion(outcomes: Sequence[FaultOutcome], left_out: Sequence[SkippedServer] = ()) -> Iterator[str]:
    """Yield sentences about the servers that survived the faults, are dead, or could not be judged."""
    yield _survivors(outcomes)
    yield from _dead_servers(outcomes)
    replaced = [_name_and_fault(outcome) for outcome in outcomes if _was_replaced(outcome)]
    if replaced:
        yield f"Not recovered in time, and replaced before the next fault: {listed(replaced)}."
    for name, reason in {_name(outcome): outcome.unusable for outcome in outcomes if outcome.unusable}.items():
        yield f"Not judged: {name}: {reason}."
    failed = [outcome for outcome in outcomes if outcome.failure and not outcome.unusable]
    if failed:
        reasons = "; ".join(f"{_name_and_fault(outcome)}: {outcome.failure}" for outcome in failed)
        yield f"Could not be measured: {reasons}."
    for skipped in left_out:
        name = in_brief(skipped.server, skipped.server, skipped.title)
        yield f"Not tested: {name}: {skipped.reason}."


def _survivors(outcomes: Sequence[FaultOutcome]) -> str:
    servers = {outcome.case.server: _name(outcome) for outcome in outcomes}
    faults = {outcome.fault for outcome in outcomes if outcome.figures or outcome.failure} - {CONTROL}
    hurt = {outcome.case.server for outcome in outcomes if outcome.mark in (HURT, DEAD, HIDDEN)}
    unknown = {outcome.case.server for outcome in outcomes if outcome.failure}
    known = {outcome.case.server for outcome in outcomes if outcome.mark}
    unhurt = [name for name in servers if name in known - unknown - hurt]
    if len(faults) == 1 and (unhurt or hurt):
        return _after_one_fault(FAULTS[faults.pop()].heading, unhurt, outcomes)
    if unhurt:
        names = with_capital(listed([servers[name] for name in unhurt]), unhurt[0])
        return f"{names} {'survives' if len(unhurt) == 1 else 'survive'} every fault."
    if hurt.issuperset(servers):
        return "No server survives every fault."
    return "No server is known to survive every fault."


def _after_one_fault(heading: str, unhurt: Sequence[str], outcomes: Sequence[FaultOutcome]) -> str:
    """Describe the outcome of a single fault, such as `worker killed: shop is not degraded; blog is degraded.`"""
    groups = {
        "not degraded": {_name(outcome): None for outcome in outcomes if outcome.case.server in unhurt},
        "degraded": {_name(outcome): None for outcome in outcomes if outcome.mark == HURT},
    }
    clauses = [
        f"{listed(list(names))} {'is' if len(names) == 1 else 'are'} {state}"
        for state, names in groups.items()
        if names
    ]
    return f"{heading}: {'; '.join(clauses) or 'every tested server is dead'}."


def _dead_servers(outcomes: Sequence[FaultOutcome]) -> Iterator[str]:
    pinged = {each.case.server for each in outcomes if any(incident.pings.due_s for incident in each.incidents)}
    for mark, is_pinged, sentence in (
        (HIDDEN, True, "A health check would keep these broken servers in service: {}."),
        (DEAD, True, "Dead, but a health check would detect it: {}."),
        (DEAD, False, "Dead: {}."),
    ):
        dead = [outcome for outcome in outcomes if outcome.mark == mark]
        names = [_name_and_fault(outcome) for outcome in dead if (outcome.case.server in pinged) == is_pinged]
        if names:
            yield sentence.format(listed(names))


def _was_replaced(outcome: FaultOutcome) -> bool:
    return any(incident.left_whole is False for incident in outcome.incidents)


def _name(outcome: FaultOutcome, *details: str) -> str:
    return in_brief(outcome.case.server, outcome.case.server, outcome.title, *details)


def _name_and_fault(outcome: FaultOutcome) -> str:
    return _name(outcome, FAULTS[outcome.fault].heading)


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, and a table with a row for each server and a column for each fault."""
    outcomes = fault_outcomes(result.incidents)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(outcomes, result.left_out))
    return Group(*sentences, _grid(outcomes), Text(f"\n{_footnote(result)}", style="dim"))


def _footnote(result: Result) -> str:
    rounds = max((incident.round for incident in result.incidents), default=1)
    legend = f"{LEGEND} · medians of {rounds} rounds" if rounds > 1 else LEGEND
    return f"{legend}\n{cores(result)} · Python {', '.join(result.environment.pythons)} · seed {result.seed}"


def _grid(outcomes: Sequence[FaultOutcome]) -> Grid:
    faults, rows = matrix_of(outcomes)
    headings = map(heading_lines, faults)
    return Grid(
        ["server"],
        [Heading(f"{fault}: {first}, {second}", f"{fault}\n{first}\n{second}") for fault, first, second in headings],
        [[_server_cell(plain_name, name), *map(_cell, cells)] for plain_name, name, cells in rows],
        gap=2,
        is_spaced=True,
    )


def _server_cell(plain_name: str, name: str) -> TableCell:
    names = dict.fromkeys([*textwrap.wrap(plain_name, max(_WIDE, len(name))), name])
    return TableCell(with_name(plain_name, name), in_terminal="\n".join(names))


def _cell(outcome: FaultOutcome | None) -> TableCell:
    lines = list(filter(None, cell_lines(outcome))) if outcome else []
    return TableCell("; ".join(lines), _STYLES.get(outcome.mark, "") if outcome else "", in_terminal="\n".join(lines))


def as_markdown(result: Result) -> str:
    """Return the conclusion and the table as Markdown."""
    outcomes = fault_outcomes(result.incidents)
    sentences = map(plain, conclusion(outcomes, result.left_out))
    return "\n\n".join([*sentences, _grid(outcomes).as_markdown(), small_print(_footnote(result).splitlines())])


def as_csv(result: Result) -> str:
    """Return a CSV line for each figure of each cell; the value is empty for a time that was never reached."""
    rows = (
        [outcome.case.server, outcome.fault, name, value, outcome.mark]
        for outcome in fault_outcomes(result.incidents)
        for name, value in outcome.figures.items()
    )
    return rows_as_csv(["server", "fault", "figure", "value", "mark"], rows)


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return a JSON object for each server and fault. Don't rename the keys, because programs read them."""
    return [
        {
            "server": outcome.case.server,
            "parameters": {**dict(outcome.case.values)},
            "fault": outcome.fault,
            "figures": outcome.figures,
            "mark": outcome.mark or None,
            "why_not": outcome.failure or outcome.without or None,
        }
        for outcome in fault_outcomes(result.incidents)
    ]


_LANE, _GAP, _BIN_S = 34, 12, 0.1  # height of a lane and of a gap in pixels, and width of a bar in seconds
_TALLEST_PING_S = 1.0  # pings that take at least this long are drawn as tall as their lane
MOST_TIMELINES = 30  # maximum number of servers in one picture


def drill_chart(incidents: Sequence[Incident], theme: Theme) -> Drawing:
    """Draw a lane for each incident, and a vertical line at the time of the fault."""
    names = 40 if theme.is_narrow else 250
    width = theme.width - names - 10
    from_s = -max((incident.fault_at_s or 0.0 for incident in incidents), default=0.0)
    to_s = max((incident.ended_s - (incident.fault_at_s or 0.0) for incident in incidents), default=1.0)
    height = len(incidents) * (_LANE + _GAP)
    axis = {"title": "seconds since the fault", "tickCount": width // 90}
    sheet = Sheet(width, height, {"domain": [from_s, to_s], "nice": False}, axis)
    work, pings, labels = [], [], []
    for index, incident in enumerate(incidents):
        floor, fault_at_s = index * (_LANE + _GAP) + _LANE, incident.fault_at_s or 0.0
        bins = Counter(int(ended_s / _BIN_S) for ended_s in answered_at_s(incident))
        for number, count in bins.items():
            at_s = number * _BIN_S - fault_at_s
            top = floor - _LANE * count / max(bins.values())
            work.append({"x": at_s, "x2": at_s + _BIN_S, "y": top, "y2": floor})
        columns = incident.pings
        for due_s, waited_s, problem in zip(columns.due_s, columns.waited_s, columns.problem, strict=True):
            tall = min(1.0, (_TALLEST_PING_S if problem else waited_s) / _TALLEST_PING_S)
            pings.append({"x": due_s - fault_at_s, "y": floor, "y2": floor - max(1.0, _LANE * tall)})
        server = incident.server
        name = short(server) if theme.is_narrow else in_brief(server, server, incident.title)
        labels.append({"y": floor - _LANE / 2, "text": name})
    return sheet.drawn(
        sheet.bars("work", work, color=theme.wait),
        sheet.posts("pings", pings, color=theme.ping),
        sheet.posts("fault", [{"x": 0, "y": 0, "y2": height}], color=theme.limit, strokeDash=[5, 3]),
        sheet.text("names", labels, -8, align="right", baseline="middle", fontSize=12, color=theme.ink),
    )


def as_html(result: Result) -> str:
    """Return a self-contained HTML page with the conclusion, the table and the timelines."""
    outcomes = fault_outcomes(result.incidents)
    faults, rows = matrix_of(outcomes)
    return page(
        "drill.html",
        result,
        heading="Which servers survive faults?",
        answer=list(conclusion(outcomes, result.left_out)),
        headings=[heading_lines(fault) for fault in faults],
        rows=[
            (plain, name, [(cell_lines(cell), cell.mark) if cell else None for cell in cells])
            for plain, name, cells in rows
        ],
        legend=LEGEND,
        sections=[Section("Timelines", list(drill_pictures(result)))],
    )


def drill_pictures(result: Result) -> Iterator[Picture]:
    """For each fault, yield a picture that shows the first round of each server."""
    outcomes = fault_outcomes(result.incidents)
    for fault in FAULTS.values():
        drawn = [incident for outcome in outcomes if outcome.fault == fault.name and (incident := _first(outcome))]
        if drawn:
            names = ", ".join(in_plain_words(incident.server, incident.title) for incident in drawn)
            yield Picture(
                f"drill-{fault.name}",
                fault.heading,
                f"{capitalized(fault.description)}. The area is the rate of correct responses; each lane has its own "
                "scale. Vertical lines are pings: the taller, the slower (full height: 1 s or more, or failed).",
                partial(drill_chart, drawn[:MOST_TIMELINES]),
                f"{fault.heading}: responses and pings over time for {names}",
            )


def _first(outcome: FaultOutcome) -> Incident | None:
    """Return the first round in which the fault was injected and at least one request has an outcome, or None."""
    injected = (incident for incident in outcome.incidents if not incident.failure and not incident.without)
    return next((incident for incident in injected if incident.requests.ended_s), None)
