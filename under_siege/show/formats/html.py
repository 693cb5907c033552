"""Render a view as a self-contained HTML page, without scripts."""

from dataclasses import replace
from itertools import groupby

from under_siege.show import html_page
from under_siege.show.view import Medium, View

MOST_ROWS = 400  # maximum number of rows of a table; with more, the page would be slow


def rendered(view: View) -> str:
    """Return the page. The caption of its first table includes the footnotes."""
    tables = view.tables_in(Medium.PAGE)
    if tables:
        tables[0] = replace(tables[0], caption=[*tables[0].caption, *view.footnotes])
    sections = groupby((figure for figure in view.figures if figure.on_page), key=lambda figure: figure.section)
    return html_page.rendered(
        "page.html",
        view=view,
        explained=html_page.Explained(),
        tables=tables,
        most_rows=MOST_ROWS,
        sections=[(title, list(map(html_page.drawn, figures))) for title, figures in sections],
    )
