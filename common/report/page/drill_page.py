"""The page of a drill: the matrix, and a timeline for each server under each fault."""

from collections.abc import Iterator
from functools import partial

from common.model.fault import FAULTS
from common.model.record import Incident, Result
from common.report.charts.drill import drill_chart
from common.report.figures.drills import drilled
from common.report.judging.drill import cells_of
from common.report.page.explained import Explained
from common.report.page.picture import Picture, Section
from common.report.page.template import rendered
from common.report.words.drill import HEADINGS, LEGEND, conclusion, marked, table_of
from common.report.words.naming import in_plain_words

MOST_TIMELINES = 30  # servers; of more only so many are drawn


def drill_as_html(result: Result) -> str:
    """One page that holds everything."""
    cells = cells_of(result)
    faults, rows = table_of(cells)
    return rendered(
        "drill.html",
        explained=Explained(),
        heading="Who survives when things go wrong?",
        began_at=result.began_at.replace("T", " ").replace("+00:00", " UTC"),
        answer=list(conclusion(cells, result.left_out)),
        headings=[HEADINGS[fault] for fault in faults],
        rows=[
            (plain, name, [(marked(one), one.mark) if one else None for one in of_server])
            for plain, name, of_server in rows
        ],
        legend=LEGEND,
        sections=[Section("What happened when", list(drill_pictures(result)))],
        command=" ".join(result.command),
        machine=result.environment,
    )


def drill_pictures(result: Result) -> Iterator[Picture]:
    """One for each fault, with the first round of each server."""
    for fault in FAULTS:
        drawn = [one for one in map(_first, (cell for cell in drilled(result.incidents) if cell.fault == fault)) if one]
        if drawn:
            names = ", ".join(in_plain_words(one.server, one.title) for one in drawn)
            yield Picture(
                f"drill-{fault}",
                HEADINGS[fault][0],
                f"{FAULTS[fault].what[:1].upper()}{FAULTS[fault].what[1:]}. The area is how many right answers came, "
                "each lane by its own scale; the posts are pings, as tall as they had to wait, a whole lane for 1 s.",
                partial(drill_chart, drawn[:MOST_TIMELINES]),
                f"{HEADINGS[fault][0]}: answers and pings over time for {names}",
            )


def _first(cell: object) -> Incident | None:
    """Of the rounds of a cell the first that happened and has anything to draw."""
    found = [one for one in getattr(cell, "incidents", ()) if not one.failure and not one.without]
    return next((one for one in found if one.requests.ended_s), None)
