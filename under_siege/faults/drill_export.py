"""A drill in words, as a table for a terminal, as Markdown, as CSV and as data."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.faults.fault import CONTROL
from under_siege.faults.fault_metrics import Figures
from under_siege.faults.survival_marks import DEAD, HIDDEN, HURT, OK, Cell, cells_of
from under_siege.model.record import LeftOut, Result
from under_siege.report import grid
from under_siege.report.grid import Grid, Heading, TableCell, plain, small_print
from under_siege.report.labels import in_brief, in_plain_words, name_of, with_capital, with_name

MARKS = {OK: "", HURT: "~", DEAD: "✗", HIDDEN: "✗!"}
NOT_POSSIBLE = "–"  # noqa: RUF001 (as a table has it)
LEGEND = f"~ hurt · ✗ dead · ✗! ping fine, work dead · {NOT_POSSIBLE} can't happen to it"
SOON_S = 0.001  # less than that nobody can tell
_OF_JOBS = ("never answered", "last answer after")
# Of each fault: what it is, and what the two lines of its cells say.
HEADINGS = {
    CONTROL: ("no fault", "trans/s", "ping p99"),
    "worker": ("worker killed", "lost", "recovery time"),
    "stop": ("SIGTERM", "begun lost", "exit"),
    "stop_long": ("SIGTERM, long tasks", "begun lost", "exit"),
    "leave": ("25 leave", "CPU for nobody", "next one waits"),
    "overload": ("10 times the users", "right/refused/lost", "quick after"),
    "endless": ("endless task", "one: left, ping p99", "all: left, ping p99"),
    "slow": ("50 half requests", "left", "ping p99"),
    "malformed": ("10,000 malformed", "alive", "printed, smuggled"),
    "jobs_worker": ("jobs, worker killed", *_OF_JOBS),
    "jobs_server": ("jobs, server killed", *_OF_JOBS),
    "jobs_server_apart": ("jobs, server killed, broker apart", *_OF_JOBS),
    "jobs_broker": ("jobs, broker killed", *_OF_JOBS),
    "jobs_broker_disk": ("jobs, broker with disk killed", *_OF_JOBS),
}
_WIDE = 23  # letters of a plain name in a line; cells have two lines, too
_STYLES = {HURT: "yellow", DEAD: "red", HIDDEN: "bold red"}


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, and a row for each server with a column for each fault."""
    cells = cells_of(result)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(cells, result.left_out))
    return Group(*sentences, _grid(cells), Text(f"\n{_footnote(result)}", style="dim"))


def as_markdown(result: Result) -> str:
    cells = cells_of(result)
    sentences = map(plain, conclusion(cells, result.left_out))
    return "\n\n".join([*sentences, _grid(cells).as_markdown(), small_print(_footnote(result).splitlines())])


def _grid(cells: Sequence[Cell]) -> Grid:
    faults, rows = table_of(cells)
    headings = (HEADINGS[fault] for fault in faults)
    return Grid(
        ["server"],
        [Heading(f"{what}: {first}, {second}", f"{what}\n{first}\n{second}") for what, first, second in headings],
        [[_server(plain_name, name), *map(_cell, found)] for plain_name, name, found in rows],
        gap=2,
        is_spaced=True,
    )


def _server(plain_name: str, name: str) -> TableCell:
    names = dict.fromkeys([*textwrap.wrap(plain_name, max(_WIDE, len(name))), name])
    return TableCell(with_name(plain_name, name), in_terminal="\n".join(names))


def _cell(cell: Cell | None) -> TableCell:
    lines = list(filter(None, marked(cell))) if cell else []
    return TableCell("; ".join(lines), _STYLES.get(cell.mark, "") if cell else "", in_terminal="\n".join(lines))


def _footnote(result: Result) -> str:
    rounds = max((one.round for one in result.incidents), default=1)
    machine = result.environment
    medians = f" · medians of {rounds} rounds" if rounds > 1 else ""
    return f"{LEGEND}{medians}\n{machine.usable_cpus} CPUs · Python {', '.join(machine.pythons)} · seed {result.seed}"


def as_csv(result: Result) -> str:
    """Return a line for each figure of each cell; what was never reached is empty."""
    rows = (
        [cell.drilled.case.server, cell.drilled.fault, name, value, cell.mark]
        for cell in cells_of(result)
        for name, value in cell.drilled.figures.items()
    )
    return grid.as_csv(["server", "fault", "figure", "value", "mark"], rows)


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return an object for each cell; the keys are a contract."""
    return [
        {
            "server": one.drilled.case.server,
            "parameters": dict(one.drilled.case.values),
            "fault": one.drilled.fault,
            "figures": one.drilled.figures,
            "mark": one.mark or None,
            "why_not": one.drilled.failure or one.drilled.without or None,
        }
        for one in cells_of(result)
    ]


def marked(cell: Cell) -> tuple[str, str]:
    """Return its figures in two lines, with its mark behind the first; a dash if the fault can't happen to it."""
    one = cell.drilled
    if one.has_figures:
        first, second = _TEXTS[one.fault](one.figures)
    else:
        first, second = "failed" if one.failure else NOT_POSSIBLE, ""
    return f"{first} {MARKS.get(cell.mark, '')}".rstrip(), second


def table_of(cells: Sequence[Cell]) -> tuple[list[str], list[tuple[str, str, list[Cell | None]]]]:
    """The faults that happened to any; for each server its plain name, its name, and a cell for each, or none."""
    happened = {one.drilled.fault for one in cells if one.drilled.has_figures or one.drilled.failure}
    known = happened or {one.drilled.fault for one in cells}
    faults = [name for name in HEADINGS if name in known]
    cases = [one.drilled.case for one in cells]
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for one in cells:
        name, server = name_of(one.drilled.case, cases), one.drilled.case.server
        plain = f"{in_plain_words(server, one.drilled.title)}{name.removeprefix(server)}"
        rows.setdefault((plain, name), {})[one.drilled.fault] = one
    return faults, [(*names, [found.get(fault) for fault in faults]) for names, found in rows.items()]


def _seconds(value: float | None) -> str:
    return "never" if value is None else formatting.seconds(value)


def _after(value: float | None) -> str:
    return "at once" if value is not None and value < SOON_S else _seconds(value)


def _ping(figures: Figures, name: str = "ping_p99_s") -> str:
    if name not in figures:
        return NOT_POSSIBLE
    value = figures[name]
    return "no answer" if value is None else formatting.seconds(value)


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _control(figures: Figures) -> tuple[str, str]:
    return formatting.rate(figures["before_per_s"] or 0.0), _ping(figures)


def _worker(figures: Figures) -> tuple[str, str]:
    return _count(figures["lost"]), _after(figures["whole_s"])


def _stop(figures: Figures) -> tuple[str, str]:
    status = figures.get("exit")
    ended = "never" if status is None else f"{status:.0f} in {_seconds(figures['exit_s'])}"
    return f"{_count(figures['begun_lost'])} of {_count(figures['begun'])}", ended


def _leave(figures: Figures) -> tuple[str, str]:
    asked_s = figures["asked_cpu_s"] or 0.0
    share = f" ({formatting.share((figures['cpu_s'] or 0.0) / asked_s)})" if asked_s else ""
    return f"{_seconds(figures['cpu_s'] or 0.0)}{share}", _seconds(figures["next_s"])


def _overload(figures: Figures) -> tuple[str, str]:
    lost = sum(figures[name] or 0 for name in ("lost", "wrong", "late"))
    counts = f"{_count(figures['answered'])}/{_count(figures['refused'])}/{_count(lost)}"
    return counts, _after(figures["quick_s"])


def _endless(figures: Figures) -> tuple[str, str]:
    def of(name: str) -> str:
        return f"{formatting.share(figures.get(f'{name}_left') or 0.0)}, {_ping(figures, f'{name}_ping_p99_s')}"

    return of("one"), of("all")


def _slow(figures: Figures) -> tuple[str, str]:
    return formatting.share(figures["left"] or 0.0), _ping(figures)


def _malformed(figures: Figures) -> tuple[str, str]:
    alive = "alive" if figures["alive"] else "dead"
    return alive, f"{_count(figures['lines'])}, {_count(figures['smuggled'])}"


def _jobs(figures: Figures) -> tuple[str, str]:
    return f"{_count(figures['lost'])} of {_count(figures['accepted'])}", _seconds(figures["last_s"])


_TEXTS = {
    CONTROL: _control,
    "worker": _worker,
    "stop": _stop,
    "stop_long": _stop,
    "leave": _leave,
    "overload": _overload,
    "endless": _endless,
    "slow": _slow,
    "malformed": _malformed,
    **dict.fromkeys((name for name in HEADINGS if name.startswith("jobs_")), _jobs),
}


def conclusion(cells: Sequence[Cell], left_out: Sequence[LeftOut] = ()) -> Iterator[str]:
    """Who survives everything; who seems to live and does not work; and what could not be told."""
    servers = {one.drilled.case.server: _called(one) for one in cells}
    hurt = {one.drilled.case.server for one in cells if one.mark in (HURT, DEAD, HIDDEN)}
    unknown = {one.drilled.case.server for one in cells if one.drilled.failure}
    known = {one.drilled.case.server for one in cells if one.mark}
    well = [name for name in servers if name in known - unknown - hurt]
    if well:
        who = with_capital(formatting.listed([servers[name] for name in well]), well[0])
        yield f"{who} {'survives' if len(well) == 1 else 'survive'} all of it."
    else:
        yield "None survives everything unhurt." if hurt.issuperset(servers) else "None is known to survive all of it."
    pinged = {one.drilled.case.server for one in cells if any(found.pings.due_s for found in one.drilled.incidents)}
    for mark, is_pinged, words in (
        (HIDDEN, True, "A health check would keep a broken server in service: {}."),
        (DEAD, True, "Dead, and a health check would notice: {}."),
        (DEAD, False, "Dead: {}."),
    ):
        of_these = [one for one in cells if one.mark == mark and (one.drilled.case.server in pinged) == is_pinged]
        if of_these:
            yield words.format(formatting.listed(list(map(_at_fault, of_these))))
    replaced = [_at_fault(one) for one in cells if any(each.left_whole is False for each in one.drilled.incidents)]
    if replaced:
        yield f"Did not recover in time and was replaced before the next fault: {formatting.listed(replaced)}."
    unusable = {_called(one): one.drilled.unusable for one in cells if one.drilled.unusable}
    for name, why in unusable.items():
        yield f"Unusable: {name}: {why}, so no fault can be judged."
    untold = [
        f"{_at_fault(one)}: {one.drilled.failure}" for one in cells if one.drilled.failure and not one.drilled.unusable
    ]
    if untold:
        yield f"Could not be told: {'; '.join(untold)}."
    for lacking in left_out:
        name = in_brief(lacking.server, lacking.server, lacking.title)
        yield f"Not drilled: {name}, because it {lacking.reason}."


def _called(cell: Cell, *more: str) -> str:
    server = cell.drilled.case.server
    return in_brief(server, server, cell.drilled.title, *more)


def _at_fault(cell: Cell) -> str:
    return _called(cell, HEADINGS[cell.drilled.fault][0])
