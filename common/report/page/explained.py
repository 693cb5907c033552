"""Terms with an explanation: buttons that open a note, without any script."""

import re

from markupsafe import Markup, escape

from common.report.numbers import unbroken
from common.report.words.glossary import GLOSSARY, IN_TEXTS, term_in, term_of

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
