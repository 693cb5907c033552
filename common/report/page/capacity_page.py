"""The HTML page of a capacity search: the table and its curves."""

from collections.abc import Iterator, Sequence
from functools import partial

from common.model.record import Result
from common.report.charts.capacity import capacity_chart
from common.report.judging.capacity import Capacity, capacities
from common.report.page.explained import Explained
from common.report.page.picture import Picture, Section
from common.report.page.template import rendered
from common.report.words.capacity import (
    COLUMNS,
    cells,
    conclusion,
    footnote,
    headline,
    in_one_sentence,
    names_of,
    plain_names_of,
)
from common.report.words.naming import in_words

MOST_PICTURES = 6  # one for each task


def capacity_as_html(result: Result) -> str:
    """Return a page without external files."""
    found = capacities(result)
    return rendered(
        "capacity.html",
        explained=Explained(),
        heading="Capacity",
        began_at=result.began_at.replace("T", " ").replace("+00:00", " UTC"),
        answer=list(conclusion(found, result.left_out)),
        headings=COLUMNS,
        rows=[
            (plain, name, cells(one), one.verdict)
            for plain, name, one in zip(plain_names_of(found), names_of(found), found, strict=True)
        ],
        notes=footnote(result, found).splitlines(),
        sections=[Section("Latency and goodput by rate", list(capacity_pictures(found)))],
        command=" ".join(result.command),
        machine=result.environment,
    )


def capacity_pictures(found: Sequence[Capacity]) -> Iterator[Picture]:
    """Yield one picture for each task."""
    groups: dict[object, list[Capacity]] = {}
    for one in found:
        if one.steps:
            groups.setdefault(one.case.job, []).append(one)
    for group in list(groups.values())[:MOST_PICTURES]:
        case = group[0].case
        yield Picture(
            "capacity",
            in_words(case, [name for name, _ in case.job]) if len(groups) > 1 else "",
            "Each point is one step: Poisson arrivals at that rate. The knee is where a line bends upwards; the dashed "
            "lines are the goals. Pale points belong to steps that ended before everything was answered, because too "
            "many requests had missed a goal. Below: goodput, the answers per second that arrived in time, "
            "which shows how a server behaves beyond its knee.",
            partial(capacity_chart, group),
            "Latency by arrival rate. " + " ".join(map(in_one_sentence, group)),
            headline=headline(group),
            conditions=in_words(case, [name for name, _ in case.job]),
        )
