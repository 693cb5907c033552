"""Explain terms, and find them in texts."""

import re
from collections.abc import Iterator

from under_siege.judge.metrics import METRICS

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
