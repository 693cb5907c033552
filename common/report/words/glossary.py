"""The words of the field, explained for those who meet them here for the first time."""

import re
from collections.abc import Iterator

GLOSSARY = {
    "trans/s": "Transactions per second, as siege calls them: how many right answers came in each second. The word in "
    "the rest of this page is answers.",
    "ceiling": "The rate that the same users reach with nothing in the way: no server at all, only the task on every "
    "core. No server can honestly do more, so whatever is above it is flagged.",
    "p50": "The median: half of all requests took no longer than this.",
    "p99": "The 99th percentile: 99 of 100 requests took no longer than this, one of 100 did.",
    "ping": "A trivial request that needs no work at all, sent 20 times a second to the same server while it is busy. "
    "How long it takes is what everybody else on that server feels.",
    "±": "The 95 % confidence interval: how far the figure may be off, as so many rounds can tell. Two figures whose "
    "intervals overlap may well be the same.",
    "rank": "Who is fastest. Those that the rounds can't tell apart share a rank.",
    "availability": "The share of all requests that got a right answer.",
    "CPU per trans": "The CPU time of the server and all its processes for each right answer.",
    "memory": "The most that the server and all its processes took; what they share counts once.",
    "speed": "How fast this machine was meanwhile, as a share of its usual speed: machines heat up, and share their "
    "hosts with others.",
    "GIL": "The lock of a Python process that only one thread can hold at a time: so threads take turns in computing, "
    "and do not compute at the same moment.",
}
IN_TEXTS = ("ceiling", "p50", "p99", "ping", "GIL")  # the others are explained at their columns
_OTHERS = {"p99": ("ping p99", "response p99"), "ping": ("pings", "Pings", "Ping"), "ceiling": ("of ceiling",)}


def term_in(text: str, terms: set[str]) -> Iterator[tuple[int, int, str]]:
    """Where each of these terms stands in a text for the first time: from, to, and the term; from left to right."""
    found = []
    for term in terms:
        forms = "|".join(re.escape(form) for form in (term, *_OTHERS.get(term, ())) if " " not in form)
        if (match := re.search(rf"(?<![\w/])(?:{forms})(?![\w/])", text)) is not None:
            found.append((match.start(), match.end(), term))
    last = 0
    for start, end, term in sorted(found):
        if start >= last:
            yield start, end, term
            last = end


def term_of(heading: str) -> str:
    """The term that a heading of the table is to be explained by; empty where it says everything itself."""
    if heading in GLOSSARY:
        return heading
    return next((term for term in GLOSSARY if heading in _OTHERS.get(term, ())), "")
