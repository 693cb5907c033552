"""Terms that explain themselves when they are touched: buttons that open a note, without any script."""

from markupsafe import Markup, escape

from common.report.words.glossary import GLOSSARY, IN_TEXTS, term_in, term_of


class Explained:
    """What of the glossary is explained on a page."""

    def __init__(self) -> None:
        self._left, self._used = set(IN_TEXTS), set[str]()

    def text(self, text: str) -> Markup:
        """With a button for each term that stands here for the first time on the page."""
        told, last = Markup(), 0
        for start, end, term in term_in(text, self._left):
            told += escape(text[last:start]) + self._button(term, text[start:end])
            self._left.discard(term)
            last = end
        return told + escape(text[last:])

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
