"""Terms with an explanation: buttons that open a note, without any script."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from under_siege.charts.chart_file import Frame
from under_siege.charts.theme import NARROW, WIDE, Drawing, Look, for_page
from under_siege.formatting import unbroken
from under_siege.report.glossary import GLOSSARY, IN_TEXTS, term_in, term_of

HERE = Path(__file__).parent


def rendered(name: str, *folders: Path, style: str = "", **told: Any) -> str:
    """The template of that name with what is told in it.

    Args:
        folders: where templates are, too, besides here.
        style: comes behind the sheet that all pages have.
    """
    sheet = (HERE / "style.css").read_text(encoding="utf-8")
    return _template(name, folders).render(style=Markup(sheet + style), **told)  # noqa: S704 (ours)


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
_MARKS = re.compile(r"[).,;:!?]+")  # a line may break after a button, but not before these
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


class Explained:
    """The terms of the glossary that a page uses."""

    def __init__(self) -> None:
        self._left, self._used = set(IN_TEXTS), set[str]()

    def text(self, text: str) -> Markup:
        """Return the text with a button for each term that occurs for the first time on the page."""
        told, last = Markup(), 0
        for start, end, term in term_in(text, self._left):
            mark = _MARKS.match(text, end)
            after = mark[0] if mark else ""
            told += _unbroken(text[last:start]) + _WHOLE.format(self._button(term, text[start:end]) + escape(after))
            self._left.discard(term)
            last = end + len(after)
        return told + _unbroken(text[last:])

    @staticmethod
    def is_explained(name: str) -> bool:
        """Return whether the glossary explains a column."""
        return bool(term_of(name))

    def heading(self, name: str, shown: str) -> Markup:
        """Return a column heading, as a button if the glossary explains it."""
        term = term_of(name)
        return self._button(term, shown) if term else escape(shown)

    def notes(self) -> list[tuple[str, str, str]]:
        """Return id, term and explanation of all terms that have a button."""
        return [(_place(term), term, meaning) for term, meaning in GLOSSARY.items() if term in self._used]

    def _button(self, term: str, shown: str) -> Markup:
        self._used.add(term)
        button = Markup('<button type="button" class="term" popovertarget="{}">{}</button>')
        return button.format(_place(term), shown)


def _place(term: str) -> str:
    return f"term-{list(GLOSSARY).index(term)}"


def _unbroken(text: str) -> Markup:
    """Escape the text, and prevent line breaks inside command-line options and between numbers and units."""
    parts = _OPTION.split(unbroken(text))
    return Markup().join(_WHOLE.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that can be drawn in any look."""

    name: str  # of the file that it would be saved as
    title: str  # of its place on the page
    how: str  # to read it
    draw: Callable[[Look], Drawing]
    alternative: str  # in words, for those who can't see it
    on_page: bool = True  # or only in a file of its own
    headline: str = ""  # what is to be seen, computed from what was measured; names may stand in a second line
    conditions: str = ""  # under which that was so

    def alone(self, aspect: str | None = None) -> str:
        """As SVG with its headline and its conditions: for a README, or for a slide of that aspect."""
        title, _, under = (self.headline or self.title).partition("\n")
        frame = Frame(title, self.conditions, aspect, under)
        return frame.around(self.draw(frame.look))


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as it stands on the page, for a desk and for a phone."""

    title: str
    headline: str
    names: str
    how: str
    conditions: str
    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Section:
    """Some pictures under one heading."""

    title: str
    pictures: list[Picture]

    @property
    def figures(self) -> list[Figure]:
        """Drawn for the page."""
        return [_figure(picture) for picture in self.pictures if picture.on_page]


def _figure(picture: Picture) -> Figure:
    wide, narrow = (
        Markup(for_page(picture.draw(look), look, picture.alternative))  # noqa: S704 (escaped there)
        for look in (WIDE, NARROW)
    )
    headline, _, names = unbroken(picture.headline).partition("\n")
    return Figure(picture.title, headline, names, picture.how, picture.conditions, wide, narrow)
