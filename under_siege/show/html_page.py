"""Render HTML pages from templates, with charts and with buttons that open glossary entries without a script."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from under_siege.formatting import unbroken
from under_siege.show.charts import PAGE, PHONE, for_page
from under_siege.show.glossary import GLOSSARY, IN_TEXTS, term_in, term_of
from under_siege.show.view import Figure

HERE = Path(__file__).parent


def rendered(name: str, *folders: Path, style: str = "", **values: Any) -> str:
    """Render a template.

    Args:
        folders: additional template folders.
        style: CSS to append to the common style sheet.
        values: variables of the template.
    """
    sheet = (HERE / "style.css").read_text(encoding="utf-8")
    return _template(name, folders).render(style=Markup(sheet + style), **values)  # noqa: S704 (our own CSS)


@cache
def _template(name: str, folders: tuple[Path, ...]) -> Template:
    environment = Environment(
        loader=FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


_WHOLE = Markup('<span class="whole">{}</span>')
_MARKS = re.compile(r"[).,;:!?]+")  # a line may break after a button, but not before these characters
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
_VERBATIM = re.compile(r"(`[^`]+`|\bdocs/[\w/-]+\.md\b)")  # code, or the name of a page in docs/


class Explained:
    """The glossary terms of one page, each of which gets a button where it first occurs."""

    def __init__(self) -> None:
        self._left, self._used = set(IN_TEXTS), set[str]()

    def text(self, text: str) -> Markup:
        """Return the text as HTML, with buttons for glossary terms outside code and names of pages in docs/."""
        parts = _VERBATIM.split(text)
        return Markup().join(_verbatim(part) if place % 2 else self._terms(part) for place, part in enumerate(parts))

    def _terms(self, text: str) -> Markup:
        """Return the text with a button for each term that occurs for the first time on the page."""
        marked, last = Markup(), 0
        for start, end, term in term_in(text, self._left):
            mark = _MARKS.match(text, end)
            after = mark[0] if mark else ""
            marked += _unbroken(text[last:start]) + _WHOLE.format(self._button(term, text[start:end]) + escape(after))
            self._left.discard(term)
            last = end + len(after)
        return marked + _unbroken(text[last:])

    @staticmethod
    def is_explained(name: str) -> bool:
        return bool(term_of(name))

    def heading(self, name: str, shown: str) -> Markup:
        """Return a column heading, as a button if the glossary explains it."""
        term = term_of(name)
        return self._button(term, shown) if term else escape(shown)

    def notes(self) -> list[tuple[str, str, str]]:
        """Return (id, term, explanation) for each term that has a button on the page."""
        return [(_place(term), term, meaning) for term, meaning in GLOSSARY.items() if term in self._used]

    def _button(self, term: str, shown: str) -> Markup:
        self._used.add(term)
        button = Markup('<button type="button" class="term" popovertarget="{}">{}</button>')
        return button.format(_place(term), shown)


def _verbatim(part: str) -> Markup:
    return Markup("<code>{}</code>").format(part[1:-1]) if part.startswith("`") else escape(part)


def _place(term: str) -> str:
    return f"term-{list(GLOSSARY).index(term)}"


def _unbroken(text: str) -> Markup:
    """Escape the text, and prevent line breaks inside command-line options and between numbers and units."""
    parts = _OPTION.split(unbroken(text))
    return Markup().join(_WHOLE.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A chart on a page, drawn once for wide and once for narrow screens."""

    title: str
    headline: str
    names: str
    how: str
    conditions: str
    alternative: str
    wide: Markup
    narrow: Markup


def drawn(picture: Figure) -> PageFigure:
    """Draw the chart for a page."""
    chart = picture.chart()
    wide, narrow = (Markup(for_page(chart, size)) for size in (PAGE, PHONE))  # noqa: S704 (Vega escapes texts)
    headline, _, names = unbroken(picture.headline).partition("\n")
    return PageFigure(
        title=picture.title,
        headline=headline,
        names=names,
        how=picture.how,
        conditions=picture.conditions,
        alternative=picture.alternative,
        wide=wide,
        narrow=narrow,
    )
