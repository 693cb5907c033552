"""Render a view as a self-contained HTML page, without scripts."""

from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from under_siege.formatting import unbroken
from under_siege.show.canvas import NARROW, WIDE, for_page
from under_siege.show.html_page import Explained
from under_siege.show.html_page import rendered as from_template
from under_siege.show.view import Figure, View


def rendered(view: View) -> str:
    """Return the page."""
    sections = groupby((figure for figure in view.figures if figure.on_page), key=lambda figure: figure.section)
    return from_template(
        "page.html",
        view=view,
        explained=Explained(),
        tables=[table for table in view.tables if table.rows],
        sections=[(title, list(map(_drawn, figures))) for title, figures in sections],
    )


class PageFigure(NamedTuple):
    """A chart on a page, drawn once for wide and once for narrow screens."""

    figure: Figure
    headline: str
    names: str
    wide: Markup
    narrow: Markup


def _drawn(figure: Figure) -> PageFigure:
    wide, narrow = (
        Markup(for_page(figure.draw(theme), theme, figure.alternative))  # noqa: S704 (escaped there)
        for theme in (WIDE, NARROW)
    )
    headline, _, names = unbroken(figure.headline).partition("\n")
    return PageFigure(figure, headline, names, wide, narrow)
