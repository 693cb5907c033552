"""Terms that explain themselves when they are touched: buttons that open a note, without any script."""

from markupsafe import Markup, escape

from common.report.words.glossary import GLOSSARY, IN_TEXTS, term_in, term_of


class Explained:
    """What of the glossary was already explained on a page."""

    def __init__(self) -> None:
        self._left = set(IN_TEXTS)

    def text(self, text: str) -> Markup:
        """With a button for each term that stands here for the first time on the page."""
        told, last = Markup(), 0
        for start, end, term in term_in(text, self._left):
            told += escape(text[last:start]) + _button(term, text[start:end])
            self._left.discard(term)
            last = end
        return told + escape(text[last:])

    @staticmethod
    def is_explained(name: str) -> bool:
        """Whether there is anything to say about a column."""
        return bool(term_of(name))

    @staticmethod
    def heading(name: str, shown: str) -> Markup:
        """Of a column of the table."""
        term = term_of(name)
        return _button(term, shown) if term else escape(shown)

    @staticmethod
    def notes() -> list[tuple[str, str, str]]:
        """For all terms: their places, themselves, and what they mean."""
        return [(_place(term), term, meaning) for term, meaning in GLOSSARY.items()]


def _button(term: str, shown: str) -> Markup:
    return Markup('<button type="button" class="term" popovertarget="{}">{}</button>').format(_place(term), shown)


def _place(term: str) -> str:
    return f"term-{list(GLOSSARY).index(term)}"
