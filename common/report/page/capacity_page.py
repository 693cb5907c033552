"""The page of a capacity: the table, and the curves that it was read from."""

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
    """One page that holds everything."""
    found = capacities(result)
    return rendered(
        "capacity.html",
        explained=Explained(),
        heading="How much can it take?",
        began_at=result.began_at.replace("T", " ").replace("+00:00", " UTC"),
        answer=list(conclusion(found, result.left_out)),
        headings=COLUMNS,
        rows=[
            (plain, name, cells(one), one.verdict)
            for plain, name, one in zip(plain_names_of(found), names_of(found), found, strict=True)
        ],
        notes=footnote(result, found).splitlines(),
        sections=[Section("How it was found", list(capacity_pictures(found)))],
        command=" ".join(result.command),
        machine=result.environment,
    )


def capacity_pictures(found: Sequence[Capacity]) -> Iterator[Picture]:
    """One for each thing that is asked for."""
    groups: dict[object, list[Capacity]] = {}
    for one in found:
        if one.steps:
            groups.setdefault(one.case.job, []).append(one)
    for group in list(groups.values())[:MOST_PICTURES]:
        case = group[0].case
        yield Picture(
            "capacity",
            in_words(case, [name for name, _ in case.job]) if len(groups) > 1 else "",
            "Each point is a step: requests that come at that rate, whatever became of the earlier ones. Where a line "
            "bends upwards is the knee; the dashed lines are the goals. Pale points are of steps that ended early, "
            "because too much had missed a goal. Below: how many answers a second came in time, "
            "which says what becomes of a server beyond its knee.",
            partial(capacity_chart, group),
            "Times over the rate of arrivals. " + " ".join(map(in_one_sentence, group)),
            headline=headline(group),
            conditions=in_words(case, [name for name, _ in case.job]),
        )
