"""Terms that explain themselves when they are touched: buttons that open a note, without any script."""

import re

from markupsafe import Markup, escape

from common.report.numbers import unbroken
from common.report.words.glossary import GLOSSARY, IN_TEXTS, term_in, term_of

_WHOLE = Markup('<span class="whole">{}</span>')
_MARKS = re.compile(r"[).,;:!?]+")  # behind a button a line may end, but not before these
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


class Explained:
    """What of the glossary is explained on a page."""

    def __init__(self) -> None:
        self._left, self._used = set(IN_TEXTS), set[str]()

    def text(self, text: str) -> Markup:
        """With a button for each term that stands here for the first time on the page."""
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
        """Whether there is anything to say about a column."""
        return bool(term_of(name))

    def heading(self, name: str, shown: str) -> Markup:
        """Of a column of the table."""
        term = term_of(name)
        return self._button(term, shown) if term else escape(shown)

    def notes(self) -> list[tuple[str, str, str]]:
        """For all terms that have a button: their places, themselves, and what they mean."""
        return [(_place(term), term, meaning) for term, meaning in GLOSSARY.items() if term in self._used]

    def _button(self, term: str, shown: str) -> Markup:
        self._used.add(term)
        button = Markup('<button type="button" class="term" popovertarget="{}">{}</button>')
        return button.format(_place(term), shown)


def _place(term: str) -> str:
    return f"term-{list(GLOSSARY).index(term)}"


def _unbroken(text: str) -> Markup:
    """Escaped, and no line ends within an option of the command, or between a number and its unit."""
    parts = _OPTION.split(unbroken(text))
    return Markup().join(_WHOLE.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))
