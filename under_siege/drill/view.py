"""Show a drill: the conclusion, a table with a cell for each server and fault, and timelines."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from under_siege.drill.faults import CONTROL, DEAD, FAULTS, HIDDEN, HURT, NO_FIGURE, OK
from under_siege.drill.incident_metrics import answered_at_s
from under_siege.drill.injection import NO_RELOAD, UNDECIDED
from under_siege.drill.outcome_summary import FaultOutcome, exit_code_of, fault_outcomes
from under_siege.formatting import capitalized, listed
from under_siege.record.record import Incident
from under_siege.record.requests import CORRECT, LOAD, PING
from under_siege.record.result import Result, SkippedServer
from under_siege.show.case_names import CaseNames, in_brief, in_plain_words, with_capital
from under_siege.show.charts import Chart, Rows, kind, layer, quantity
from under_siege.show.conditions import began_at, cores, facts, identity, interruption
from under_siege.show.view import Cell, Column, CsvValue, Figure, Paragraph, Row, Table, Tone, View

MARKS = {OK: "", HURT: "~", DEAD: "✗", HIDDEN: "✗!"}
LEGEND = f"~ degraded · ✗ dead · ✗! pings answered, tasks not · {NO_FIGURE} not applicable"
TONES = {HURT: Tone.WARNING, DEAD: Tone.BAD, HIDDEN: Tone.WORST}
WIDEST_NAME = 23  # in columns of a terminal; longer names are wrapped, because rows have several lines anyway
_BIN_S = 0.1  # width of a bar in seconds
_TALLEST_PING_S = 1.0  # pings that take at least this long are drawn as tall as their row
MOST_TIMELINES = 30  # maximum number of servers in one chart
MOST_ON_SLIDE = 12


def view(result: Result) -> View:
    """Return the view of a drill."""
    outcomes = fault_outcomes(result.incidents)
    sentences = filter(None, [interruption(result), *conclusion(outcomes, result.left_out)])
    return View(
        title="Which servers survive faults?",
        headline=[Paragraph(sentence, is_main=not index) for index, sentence in enumerate(sentences)],
        tables=[_table(outcomes)],
        footnotes=list(_footnotes(result)),
        figures=list(figures(outcomes)),
        data={**identity(result), "cases": [], "cells": list(map(_as_data, outcomes))},
        csv=(("server", "fault", "figure", "value", "mark"), list(_csv_rows(outcomes))),
        facts=list(facts(result)),
        made_at=began_at(result),
        exit_code=exit_code_of(outcomes),
    )


def _table(outcomes: Sequence[FaultOutcome]) -> Table:
    """Return a row for each server, and a column for each fault that applies to at least one server."""
    applied = {outcome.fault for outcome in outcomes if outcome.figures or outcome.failure or outcome.is_undecided}
    faults = [fault for name, fault in FAULTS.items() if name in (applied or {each.fault for each in outcomes})]
    names, rows = CaseNames(outcomes, with_load=True), dict[tuple[str, str], dict[str, FaultOutcome]]()
    for outcome in outcomes:
        rows.setdefault((names.plain(outcome), names.name(outcome.case)), {})[outcome.fault] = outcome
    columns = [Column("server", is_text=True)]
    for fault in faults:
        lines = [line for line, _ in fault.columns]
        columns.append(Column(f"{fault.heading}: {', '.join(lines)}", "\n".join([fault.heading, *lines])))
    body = [
        Row([_server_cell(*names), *(cell(cells.get(fault.name)) for fault in faults)]) for names, cells in rows.items()
    ]
    return Table("drill", "The drill", columns, body, gap=2, is_spaced=True)


def _server_cell(plain_name: str, name: str) -> Cell:
    names = dict.fromkeys([*textwrap.wrap(plain_name, max(WIDEST_NAME, len(name))), name])
    return Cell(name, in_terminal="\n".join(names), title=plain_name if plain_name != name else "")


def cell(outcome: FaultOutcome | None) -> Cell:
    """Return the figures with the mark, or why there are none: a dash means that the fault does not apply."""
    if outcome is None:
        return Cell()
    if not outcome.figures:
        if outcome.failure:
            return Cell("failed")
        return Cell("unknown" if outcome.is_undecided else NO_FIGURE)
    first, *below = (text_of(outcome.figures) for _, text_of in FAULTS[outcome.fault].columns)
    text = f"{first} {MARKS.get(outcome.mark, '')}".rstrip()
    return Cell(
        text, TONES.get(outcome.mark, Tone.PLAIN), below="; ".join(below), in_terminal="\n".join([text, *below])
    )


def _footnotes(result: Result) -> Iterator[str]:
    rounds = max((incident.round for incident in result.incidents), default=1)
    yield f"{LEGEND} · medians of {rounds} rounds" if rounds > 1 else LEGEND
    yield f"{cores(result)} · Python {', '.join(result.environment.pythons)} · seed {result.seed}"


def _csv_rows(outcomes: Sequence[FaultOutcome]) -> Iterator[list[CsvValue]]:
    """Yield a row for each figure of each cell; the value is empty for a time that was never reached."""
    names = CaseNames(outcomes, with_load=True)
    for outcome in outcomes:
        for name, value in outcome.figures.items():
            yield [names.name(outcome.case), outcome.fault, name, value, outcome.mark]


def _as_data(outcome: FaultOutcome) -> dict[str, object]:
    """Return the JSON object of a server and fault. Programs read its keys."""
    return {
        "server": outcome.case.server,
        "parameters": dict(outcome.case.values),
        "fault": outcome.fault,
        "figures": outcome.figures,
        "mark": outcome.mark or None,
        "why_not": outcome.failure or outcome.without or None,
    }


def figures(outcomes: Sequence[FaultOutcome]) -> Iterator[Figure]:
    """Yield a chart for each fault, with the timeline of the first round of each server."""
    names = CaseNames(outcomes, with_load=True)
    for fault in FAULTS.values():
        of_fault = [(each, first) for each in outcomes if each.fault == fault.name and (first := _first(each))]
        if of_fault:
            plain_names = ", ".join(
                in_plain_words(outcome.case.server, outcome.title)
                + names.distinct(outcome.case).removeprefix(outcome.case.server)
                for outcome, _ in of_fault
            )
            drawn = [(names.brief(outcome), incident) for outcome, incident in of_fault]
            yield Figure(
                f"drill-{fault.name}",
                fault.heading,
                f"{capitalized(fault.description)}. The area is the rate of correct responses; each lane has its own "
                "scale. Vertical lines are pings: the taller, the slower (full height: 1 s or more, or failed).",
                partial(drill_chart, drawn[:MOST_TIMELINES]),
                f"{fault.heading}: responses and pings over time for {plain_names}",
                on_slide=partial(drill_chart, drawn[:MOST_ON_SLIDE], columns=2),
                section="Timelines",
            )


def _first(outcome: FaultOutcome) -> Incident | None:
    """Return the first round in which the fault was injected and at least one request has an outcome, or None."""
    injected = (incident for incident in outcome.incidents if not incident.failure and not incident.without)
    return next((incident for incident in injected if LOAD in incident.requests.sender), None)


def conclusion(outcomes: Sequence[FaultOutcome], left_out: Sequence[SkippedServer] = ()) -> Iterator[str]:
    """Yield sentences about the servers that survived the faults, are dead, or could not be judged."""
    names = CaseNames(outcomes, with_load=True)

    def with_faults(several: Iterable[FaultOutcome]) -> str:
        return listed([names.brief(outcome, FAULTS[outcome.fault].heading) for outcome in several])

    yield _survivors(outcomes, names)
    pinged = {each.case for each in outcomes if any(PING in incident.requests.sender for incident in each.incidents)}
    for mark, is_pinged, sentence in (
        (HIDDEN, True, "A health check would keep these broken servers in service: {}."),
        (DEAD, True, "Dead, but a health check would detect it: {}."),
        (DEAD, False, "Dead: {}."),
    ):
        if dead := [each for each in outcomes if each.mark == mark and (each.case in pinged) == is_pinged]:
            yield sentence.format(with_faults(dead))
    if replaced := [each for each in outcomes if any(one.left_whole is False for one in each.incidents)]:
        yield f"Not recovered in time, and replaced before the next fault: {with_faults(replaced)}."
    for name, reason in {names.brief(outcome): outcome.unusable for outcome in outcomes if outcome.unusable}.items():
        yield f"Not judged: {name}: {reason}."
    if failed := [outcome for outcome in outcomes if outcome.failure and not outcome.unusable]:
        yield f"Could not be measured: {'; '.join(f'{with_faults([each])}: {each.failure}' for each in failed)}."
    for reason in (*UNDECIDED, NO_RELOAD):
        if undecided := [outcome for outcome in outcomes if outcome.without == reason]:
            yield f"Could not be injected: {with_faults(undecided)}: {reason}."
    for skipped in left_out:
        yield f"Not tested: {in_brief(skipped.server, skipped.title)}: {skipped.reason}."


def _survivors(outcomes: Sequence[FaultOutcome], names: CaseNames) -> str:
    briefs = {outcome.case: names.brief(outcome) for outcome in outcomes}
    faults = {outcome.fault for outcome in outcomes if outcome.figures or outcome.failure} - {CONTROL}
    hurt = {outcome.case for outcome in outcomes if outcome.mark in (HURT, DEAD, HIDDEN)}
    unknown = {outcome.case for outcome in outcomes if outcome.failure or outcome.is_undecided}
    known = {outcome.case for outcome in outcomes if outcome.mark}
    unhurt = [case for case in briefs if case in known - unknown - hurt]
    if len(faults) == 1 and (unhurt or hurt):  # such as `worker killed: shop is not degraded; blog is degraded.`
        degraded = {outcome.case: None for outcome in outcomes if outcome.mark == HURT}
        clauses = [
            f"{listed([briefs[case] for case in cases])} {'is' if len(cases) == 1 else 'are'} {state}"
            for state, cases in (("not degraded", unhurt), ("degraded", list(degraded)))
            if cases
        ]
        return f"{FAULTS[faults.pop()].heading}: {'; '.join(clauses) or 'every tested server is dead'}."
    if unhurt:
        text = with_capital(listed([briefs[case] for case in unhurt]), unhurt[0].server)
        return f"{text} {'survives' if len(unhurt) == 1 else 'survive'} every fault."
    if hurt.issuperset(briefs):
        return "No server survives every fault."
    return "No server is known to survive every fault."


def drill_chart(drawn: Sequence[tuple[str, Incident]], columns: int = 1) -> Chart:
    """Chart the responses and pings of each incident over time, and the time of the fault as a vertical line.

    Args:
        drawn: the name and the incident of each lane.
    """
    every = [{"row": name, "at_s": 0.0} for name, _ in drawn]  # even one without responses and pings
    marks = [(name, mark) for name, incident in drawn for mark in (*_responses(incident), *_pings(incident))]
    rows = [*every, *({"row": name, **mark} for name, mark in marks)]
    x = quantity("at_s", title="seconds since the fault", axis={"grid": False}, scale={"nice": False})
    y = quantity("share", title=None, axis=None, scale={"domain": [0, 1]})
    bar = {"x": x, "x2": {"field": "to_s"}, "y": y, "y2": {"datum": 0}}
    ping = {"x": x, "y": {**y, "field": "height"}, "y2": {"datum": 0}}
    layers = [
        {"transform": [{"filter": "isValid(datum.share)"}], **layer("rect", "wait", bar)},
        {"transform": [{"filter": "isValid(datum.height)"}], **layer("rule", "ping", ping)},
        {"data": {"values": [{"at_s": 0}]}, **layer("rule", "limit", {"x": x})},
    ]
    return {
        "data": {"values": rows},
        "facet": kind("row", sort=list(dict.fromkeys(name for name, _ in drawn))),
        "columns": columns,
        "spacing": {"row": 4, "column": 20},
        "spec": {"width": "container", "height": 36, "layer": layers},
    }


def _responses(incident: Incident) -> Rows:
    """Return the rate of correct responses, as a share of its maximum."""
    bins = Counter(int(ended_s / _BIN_S) for ended_s in answered_at_s(incident))
    starts_s = {number: number * _BIN_S - (incident.fault_at_s or 0.0) for number in bins}
    return [
        {"at_s": starts_s[number], "to_s": starts_s[number] + _BIN_S, "share": count / max(bins.values())}
        for number, count in bins.items()
    ]


def _pings(incident: Incident) -> Rows:
    pings = incident.requests.only(PING)
    return [
        {"at_s": due_s - (incident.fault_at_s or 0.0)}
        | {"height": min(1.0, max(0.03, (ended_s - due_s) / _TALLEST_PING_S)) if outcome == CORRECT else 1.0}
        for due_s, ended_s, outcome in zip(pings.due_s, pings.ended_s, pings.outcome, strict=True)
    ]
