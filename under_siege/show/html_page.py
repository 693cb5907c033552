"""Render HTML pages from templates, with charts and with buttons that open glossary entries without a script."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from under_siege.formatting import unbroken
from under_siege.judge.metrics import METRICS
from under_siege.show.charts import PAGE, PHONE, for_page
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


GLOSSARY = {
    "primes": "A CPU-bound task: it counts prime numbers in pure Python and holds the GIL while it runs.",
    "digest": "A CPU-bound task that runs inside hashlib, which releases the GIL.",
    "sign_up": "An I/O-bound task: it waits 20, 60 and 200 ms, as if for a database, a mail server and another "
    "service, and uses almost no CPU time.",
    "ceiling": "The rate that the same load reaches without a server: only the task, on every core. No honest server "
    "can exceed it, so a case that is significantly above it is flagged.",
    "prefork": "Several processes start before the first request arrives, as with gunicorn. Each of them handles one "
    "request at a time.",
    "p50": "The median: half of all requests took no longer than this.",
    "p99": "The 99th percentile: 99 of 100 requests took no longer than this.",
    "ping": "A health check: a trivial request, sent 20 times a second to the same server while it is under load. It "
    "shows how long other requests have to wait.",
    "±": "The half-width of the 95 % confidence interval of the rate.",
    "rank": "1 plus the number of cases that are significantly faster. Cases with rank 1 are not significantly slower "
    "than the fastest one. That does not make them equal: more rounds may separate them. After three cases with rank "
    "1 comes rank 4.",
    "event loop": "One thread that serves all connections in turn, with a short piece of work for each. While it "
    "computes a task, no other request is served.",
    "slices": "The task is cut into short pieces. It yields after each piece, so that other requests can run.",
    "sub-interpreter": "Another Python interpreter in the same process, with its own modules and its own GIL, so that "
    "several interpreters can compute at the same moment.",
    "greenlet": "A lightweight thread. All greenlets share one system thread, and each runs until it waits or yields.",
    "cluster": "A scheduler and its workers, each a separate process. They could also run on other machines.",
    "job queue": "The server puts tasks into a queue in Redis, from which separate worker processes take them.",
    "GIL": "The global interpreter lock of a Python process. Only the thread that holds it can run Python code, so "
    "threads take turns to compute. The event loop is a thread, too, and has to wait for the lock like all others. "
    "Each process has its own lock.",
    **{metric.column: metric.meaning for metric in METRICS.values() if metric.column},
}
IN_TEXTS = (
    *("primes", "digest", "sign_up", "prefork", "slices", "sub-interpreter", "greenlet", "cluster", "job queue"),
    *("ceiling", "p50", "p99", "ping", "event loop", "GIL"),
)
_OTHER_FORMS = {
    "ping": ("pings", "Pings", "Ping", "health checks", "Health checks"),
    "sub-interpreter": ("sub-interpreters",),
}


def term_in(text: str, terms: set[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, term) for the first occurrence of each term in the text, from left to right."""
    matches = []
    for term in terms:
        forms = "|".join(map(re.escape, (term, *_OTHER_FORMS.get(term, ()))))
        if (match := re.search(rf"(?<![\w/])(?:{forms})(?![\w/])", text)) is not None:
            matches.append((match.start(), match.end(), term))
    last = 0
    for start, end, term in sorted(matches):
        if start >= last:
            yield start, end, term
            last = end


def term_of(heading: str) -> str:
    """Return the glossary term that explains a column heading, or an empty string if there is none."""
    return heading if heading in GLOSSARY else ""
