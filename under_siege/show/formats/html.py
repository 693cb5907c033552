"""Render a view as a self-contained HTML page, without scripts."""

from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from under_siege.show import html_page
from under_siege.show.view import Medium, Table, View

MOST_ROWS = 400  # maximum number of rows of a table; with more, the page would be slow


def rendered(view: View) -> str:
    """Return the page, without charts if the package that draws them is missing."""
    explained, has_charts = html_page.Explained(), not view.why_undrawn()
    part = _part(view, has_charts=has_charts)
    return html_page.rendered(
        "page.html", view=view, page=part, has_charts=has_charts, explained=explained, most_rows=MOST_ROWS
    )


class DrawnView(NamedTuple):
    """A view with its charts drawn. The caption of its first table includes the footnotes."""

    view: View
    tables: list[Table]
    sections: list[tuple[str, list[html_page.PageFigure]]]
    parts: "list[DrawnView]"


def _part(view: View, *, has_charts: bool) -> DrawnView:
    tables = view.tables_in(Medium.PAGE)
    if tables:
        tables[0] = replace(tables[0], caption=[*tables[0].caption, *view.footnotes])
    shown = (figure for figure in view.figures if figure.on_page and has_charts)
    drawn = [
        (title, list(map(html_page.drawn, figures))) for title, figures in groupby(shown, key=lambda each: each.section)
    ]
    return DrawnView(view, tables, drawn, [_part(part, has_charts=has_charts) for part in view.parts])
