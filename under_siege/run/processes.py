"""Show the processes of each server: a table, a chart with a band for each process, and what they explain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from under_siege import formatting
from under_siege.judge.ranking import Comparison
from under_siege.judge.round_statistics import Round
from under_siege.judge.server_processes import (
    PARENT,
    WORKER,
    ProcessSummary,
    Watched,
    crowding,
    watched,
    workers_replaced,
)
from under_siege.show.case_names import CaseNames
from under_siege.show.charts import Chart, Rows, kind, layer, quantity
from under_siege.show.columns import noun
from under_siege.show.conditions import began_at, facts, identity, of_siege
from under_siege.show.process_notes import sentences_on
from under_siege.show.view import Cell, Column, CsvValue, Figure, Note, Paragraph, Row, Table, View

MOST_ON_PAGE = 6  # charts
MOST_BANDS = 30  # of a chart
LETTERS = 40  # of a command in a terminal
LEAST_HEIGHT = 0.05  # CPUs
BUSY = 0.01  # smallest share of the CPU time with which a process counts as busy
NOTHING = "No processes were recorded: expected a result of run, whose servers the bench has started."
HOW = (
    "A band for each process: it is as wide as the CPU time that the process used. A triangle marks the start of a "
    "process under load, a cross its end. Workers accept connections, a parent starts workers, and a helper does "
    "neither. The chart shows one round."
)
_ORDER = {PARENT: 0, WORKER: 1}
_FIGURES = ("CPU", "memory at start", "at end", "connections", "began", "ended")
# What the long command lines of Python's helpers do.
_KNOWN = {
    "resource_tracker": "resource tracker",
    "forkserver": "forkserver",
    "spawn_main": "spawned by multiprocessing",
}


def view(comparison: Comparison) -> View:
    """Return the processes of all cases, for `report --processes`."""
    names = CaseNames(comparison.cases)
    pairs = list(zip(comparison.cases, comparison.rounds, strict=True))
    one_of = ["one round of each case; JSON and CSV have all"] if any(len(rounds) > 1 for _, rounds in pairs) else []
    table = _table(comparison)
    data = [{"case": names.full(case.case), "server": case.server, "processes": case.processes} for case, _ in pairs]
    return View(
        title="Which process did what?",
        headline=() if table.rows else [Paragraph(NOTHING)],
        tables=[table],
        notes=[Note("note", names.full(case.case), text) for case, rounds in pairs for text in sentences_on(rounds)],
        footnotes=[*one_of, "began, ended: seconds since the load began · CPU: share of the CPU time of the server"],
        figures=list(figures(comparison)),
        data={**identity(comparison.result), "cases": data},
        csv=_csv([(names.full(case.case), each) for case, _ in pairs for each in case.processes]),
        facts=list(facts(comparison.result)),
        made_at=began_at(comparison.result),
    )


def _csv(found: Sequence[tuple[str, ProcessSummary]]) -> tuple[list[str], list[list[CsvValue]]]:
    """Return a row for each process and round; the headings match the names in JSON."""
    headings = ["case", "round", "name", "role", "pid", "parent", "command", "cpu_share", "began_s", "ended_s"]
    nested = {"memory_bytes": ("start", "end"), "connections": ("least", "most")}
    rows = [
        [case]
        + [getattr(each, heading) for heading in headings[1:]]
        + [getattr(getattr(each, name), edge, None) for name, edges in nested.items() for edge in edges]
        for case, each in found
    ]
    return [*headings, *(f"{name}_{edge}" for name, edges in nested.items() for edge in edges)], rows


def telling(rounds: Sequence[Round]) -> Round:
    """Return the round whose processes explain most: with replaced or crowded workers, or else the first full one."""

    def weight(run: Round) -> tuple[int, int, bool]:
        crowd = crowding(run)
        return len(workers_replaced(run)), crowd.users[-1] if crowd else 0, not run.record.is_screening

    return max(rounds, key=weight)


def _table(comparison: Comparison) -> Table:
    names, rows = CaseNames(comparison.cases), []
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        run = telling(rounds)
        for index, each in enumerate(_sorted(watched(run))):
            one = each.summary
            ended = "" if one.ended_s is None else f"{one.ended_s:.1f} s"
            texts = [names.full(case.case) if not index else "", one.name, formatting.share(one.cpu_share)]
            texts += [*_memory(one), _connections(one), f"{one.began_s:.1f} s", ended]
            words = short_command(one.command)
            cut = words if len(words) <= LETTERS else f"{words[: LETTERS - 1]}…"
            rows.append(Row([*map(Cell, texts), Cell(words, in_terminal=cut)]))
    text_columns = [Column(name, is_text=True) for name in (noun(comparison.result), "process")]
    command = Column("command", is_text=True, is_wide=True)
    return Table("processes", "The processes", [*text_columns, *map(Column, _FIGURES), command], rows, header=1)


def _sorted(found: Sequence[Watched]) -> list[Watched]:
    return sorted(found, key=lambda each: (_ORDER.get(each.role, 2), each.process.began_s))


def _memory(one: ProcessSummary) -> list[str]:
    sizes = one.memory_bytes
    return [formatting.megabytes(sizes.start), formatting.megabytes(sizes.end)] if sizes else ["", ""]


def _connections(one: ProcessSummary) -> str:
    if one.connections is None:
        return ""
    return formatting.span([one.connections.least, one.connections.most], "{:.0f}".format)


def short_command(command: str) -> str:
    """Return the command without the directories of its programs, or what a helper of Python is."""
    known = next((what for word, what in _KNOWN.items() if word in command), "")
    return known or re.sub(r"^python[\d.]*t? (?:-m )?", "", re.sub(r"(^| )(?:/[^ /]+)+/", r"\1", command))


def figures(comparison: Comparison) -> Iterator[Figure]:
    """Yield a chart for each case with several busy processes; a page shows those that explain figures first."""
    pairs = list(zip(comparison.cases, comparison.rounds, strict=True))
    drawn = []
    for case, rounds in pairs:
        text, run = next(sentences_on(rounds), ""), telling(rounds)
        busy = [each for each in watched(run) if each.summary.cpu_share >= BUSY]
        if text or len(busy) > 1:
            drawn.append((case, text, run))
    drawn.sort(key=lambda each: not each[1])
    names = CaseNames(comparison.cases)
    for number, (case, text, run) in enumerate(drawn):
        shown = _shown(run)
        yield Figure(
            "processes",
            f"The processes of {names.full(case.case)}",
            HOW if number == 0 else "",
            partial(bands, run),
            "CPU time: " + ", ".join(f"{each.summary.name} {_facts(each.summary)}" for each in shown),
            on_page=number < MOST_ON_PAGE,
            headline=formatting.capitalized(text),
            conditions=" · ".join(
                [case.case.server, of_siege(comparison.result, [case]), f"round {run.record.round}", _height(run)]
            ),
            section="Processes",
        )


def _shown(run: Round) -> list[Watched]:
    """Return the processes that a chart shows: if there are too many, those that used most CPU time."""
    found = watched(run)
    most = sorted(found, key=lambda each: (_ORDER.get(each.role, 2), -each.summary.cpu_share))[:MOST_BANDS]
    return _sorted([each for each in found if each in most])


def _facts(one: ProcessSummary) -> str:
    connections = _connections(one) if one.role == WORKER else ""  # others have none
    held = f"{connections} {'connection' if connections == '1' else 'connections'}" if connections else ""
    memory = " → ".join(dict.fromkeys(filter(None, _memory(one))))
    return ", ".join(filter(None, [f"{formatting.share(one.cpu_share)} of the CPU time", held, memory]))


def _cpus(each: Watched) -> list[tuple[float, float]]:
    """Return the time of each sample but the last, and how many CPUs the process used until the next sample."""
    points = zip(each.process.samples.at_s, each.process.samples.cpu_s, strict=True)
    return [
        (at_s, max(0.0, after_s - before_s) / max(1e-3, next_s - at_s))
        for (at_s, before_s), (next_s, after_s) in pairwise(points)
    ]


def _most_cpus(run: Round) -> float:
    return max([LEAST_HEIGHT, *(cpus for each in _shown(run) for _, cpus in _cpus(each))])


def _height(run: Round) -> str:
    return f"full height: {formatting.significant(_most_cpus(run), 2)} cores"


def bands(run: Round) -> Chart:
    """Chart the CPU usage of each process over time as a band, with marks at its start and its end."""
    rows: Rows = []
    names, half = [], _most_cpus(run) / 2
    for each in _shown(run):
        one, samples = each.summary, each.process.samples
        name = f"{one.name}\n{_facts(one)}"
        names.append(name)
        end_s = run.load_s if one.ended_s is None else min(one.ended_s, run.load_s)
        rows.append({"row": name, "from_s": max(0.0, one.began_s), "to_s": end_s})
        if one.began_s > 0:
            rows.append({"row": name, "mark_s": one.began_s, "what": "start"})
        if one.ended_s is not None:
            rows.append({"row": name, "mark_s": one.ended_s, "what": "end"})
        for at_s, cpus in [*_cpus(each), (samples.at_s[-1], 0.0)]:
            rows.append({"row": name, "at_s": at_s, "low": round(-cpus / 2, 4), "high": round(cpus / 2, 4)})
    x_scale = {"domain": [0, run.load_s], "nice": False, "clamp": True}
    x = quantity("at_s", title="seconds since the siege began", scale=x_scale)
    scale = {"domain": [-half, half], "nice": False}
    y = quantity("low", axis=None, scale=scale)
    middle = {"datum": 0, "type": "quantitative", "axis": None, "scale": scale}
    shape = kind("what", scale={"domain": ["start", "end"], "range": ["triangle-right", "cross"]}, legend=None)
    marks = {"x": {**x, "field": "mark_s"}, "y": middle, "shape": shape}
    layers = [
        _of("from_s", layer("rule", "quiet", {"x": {**x, "field": "from_s"}, "x2": {"field": "to_s"}, "y": middle})),
        _of("at_s", layer("area", "work", {"x": x, "y": y, "y2": {"field": "high"}}, interpolate="step-after")),
        _of("mark_s", layer("point", "ping", marks, filled=True, size=90, opacity=1, clip=False)),
    ]
    return {
        "data": {"values": rows},
        "facet": kind("row", sort=names),
        "columns": 1,
        "spec": {"width": "container", "height": 34, "layer": layers},
    }


def _of(field: str, layered: Chart) -> Chart:
    """Return a layer that draws only the rows with this field."""
    return {"transform": [{"filter": f"isValid(datum.{field})"}], **layered}
