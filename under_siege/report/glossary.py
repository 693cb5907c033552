"""Explanations of technical terms, shown on the page."""

import re
from collections.abc import Iterator

GLOSSARY = {
    "primes": "A CPU-bound task: it counts prime numbers in pure Python and holds the GIL while it runs.",
    "digest": "A CPU-bound task that runs inside hashlib, which releases the GIL.",
    "sign_up": "An I/O-bound task: it waits 20, 60 and 200 ms, as for a database, a mail server and another service, "
    "and uses almost no CPU time.",
    "trans/s": "Transactions per second (siege's transaction rate): correct answers per second, as measured. The text "
    "on this page calls it requests or answers per second.",
    "speed-adjusted": "The transaction rate the case would have reached if the CPUs had always run at their mean speed "
    "over this run. A speed probe measures the speed of every CPU 50 times a second while the load is on. CPU time "
    "lost to noisy neighbours and other programs is adjusted for, too. Ranks, stars, ± and the share of the ceiling "
    "use this figure.",
    "ceiling": "The rate that the same load reaches without a server: only the task, on every core. No honest server "
    "can exceed it, so a case that is significantly above it is flagged.",
    "bare": "No server: the same users call the task directly, on every core. Its rate is the ceiling.",
    "workers": "How many tasks the server can have in progress at the same time: threads, processes, or one. That is "
    "not how many it computes at the same moment: threads of one Python process take turns.",
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
    "availability": "The share of all requests that got a correct answer.",
    "CPU per trans": "CPU time of the server and all its processes for each correct answer, as measured. On faster "
    "CPUs it is lower.",
    "memory": "Peak memory of the server and all its processes. PSS (proportional set size) counts pages that "
    "processes share only once.",
    "speed": "CPU speed while this case was measured, compared with its mean over this run.",
    "event loop": "One thread that serves all connections in turn, with a short piece of work for each. While it "
    "computes a task, no other request is served.",
    "slices": "The task is cut into short pieces. It yields after each piece, so that other requests can run.",
    "sub-interpreter": "Another Python interpreter in the same process, with its own modules and its own GIL, so that "
    "several can compute at the same moment.",
    "greenlet": "A lightweight thread. All greenlets share one system thread, and each runs until it waits or yields.",
    "cluster": "A scheduler and its workers, each a separate process. They could also run on other machines.",
    "job queue": "The server puts tasks into a queue in Redis. Workers, which are separate processes, take them out.",
    "GIL": "The global interpreter lock of a Python process. Only the thread that holds it can run Python code, so "
    "threads take turns to compute. The event loop is a thread, too, and has to wait for the lock like all others. "
    "Each process has its own lock.",
}
IN_TEXTS = (
    *("primes", "digest", "sign_up", "prefork", "slices", "sub-interpreter", "greenlet", "cluster", "job queue"),
    *("ceiling", "p50", "p99", "ping", "event loop", "GIL"),
)
_OTHER_FORMS = {
    "ping": ("pings", "Pings", "Ping", "health checks", "Health checks"),
    "sub-interpreter": ("sub-interpreters",),
}
_OF_HEADINGS = {
    "ping p50": "p50",
    "response p50": "p50",
    "ping p99": "p99",
    "response p99": "p99",
    "of ceiling": "ceiling",
}


def term_in(text: str, terms: set[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first occurrence of each term in a text, from left to right: start, end, and the term."""
    found = []
    for term in terms:
        forms = "|".join(map(re.escape, (term, *_OTHER_FORMS.get(term, ()))))
        if (match := re.search(rf"(?<![\w/])(?:{forms})(?![\w/])", text)) is not None:
            found.append((match.start(), match.end(), term))
    last = 0
    for start, end, term in sorted(found):
        if start >= last:
            yield start, end, term
            last = end


def term_of(heading: str) -> str:
    """Return the term that explains a column heading; empty if the heading needs no explanation."""
    return heading if heading in GLOSSARY else _OF_HEADINGS.get(heading, "")
