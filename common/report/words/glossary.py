"""The words of the field, explained for those who meet them here for the first time."""

import re
from collections.abc import Iterator

GLOSSARY = {
    "primes": "A task that computes: it counts prime numbers in pure Python, and so holds the GIL as long as it runs.",
    "digest": "A task that computes inside of hashlib, which lets go of the GIL meanwhile.",
    "sign_up": "A task that waits, 20, 60 and 200 ms, as for a database, a mail server and another service: it hardly "
    "computes.",
    "trans/s": "Transactions per second, as siege calls them: how many right answers came in each second, as it was "
    "measured. The word in the rest of this page is answers.",
    "at usual speed": "What trans/s would have been, had the machine been as fast all the time as it was on average "
    "over this run. Beside every siege the same small work was done on every core 20 times a second, which tells how "
    "fast the machine was. Ranks, stars, ± and the share of the ceiling are of this figure.",
    "ceiling": "The rate that the same users reach with nothing in the way: no server at all, only the task on every "
    "core. No server can honestly do more, so whatever is above it by more than noise is flagged.",
    "bare": "No server at all: the same users call the task themselves, on every core. Its rate is the ceiling.",
    "workers": "How many tasks the server may have begun at the same time: threads, processes, or one. How many it "
    "computes at the same moment is something else: threads of one Python take turns.",
    "prefork": "Several processes are started before anybody asks, as gunicorn does it; each has one request at a "
    "time, from its first byte to its last.",
    "p50": "The median: half of all requests took no longer than this.",
    "p99": "The 99th percentile: 99 of 100 requests took no longer than this, one of 100 did.",
    "ping": "A trivial request that needs no work at all, sent 20 times a second to the same server while it is busy, "
    "as a health check does. How long it takes is what everybody else on that server feels.",
    "±": "The 95 % confidence interval: how far the figure may be off, as so many rounds can tell.",
    "rank": "Who is fastest. Those that the rounds can't tell from the best among them share a rank, and the next one "
    "counts all before it: after five with rank 1 comes rank 6. That is not to say that the five are equal. All pairs "
    "are compared at once, so more is asked of a difference than that two intervals don't meet: with few rounds some "
    "are far from each other by chance.",
    "availability": "The share of all requests that got a right answer.",
    "CPU per trans": "The CPU time of the server and all its processes for each right answer, as measured: when the "
    "machine was faster, it is less.",
    "memory": "The most that the server and all its processes took. Where it is PSS (proportional set size), pages "
    "that processes share count once.",
    "speed": "How fast this machine was meanwhile, as a share of its usual speed, the mean over this run: machines "
    "heat up, and share their hosts with others.",
    "event loop": "One thread that serves all connections by turns, a short piece of work for each. While it computes "
    "a task, nobody else is served.",
    "slices": "The task is cut into short pieces, and gives way after each of them, so that others get a turn between.",
    "sub-interpreter": "Another Python within the same process, with modules and a GIL of its own, so that several "
    "compute at the same moment.",
    "greenlet": "Like a thread, but all of them share one, and each gives way only where it waits or says so.",
    "cluster": "A scheduler and its workers, each a process of its own; they might as well be on other machines.",
    "job queue": "The server puts a task into a queue in Redis; workers, each a process of its own, take it out.",
    "GIL": "The global interpreter lock of a Python process. Only the thread that holds it can run Python code, so "
    "threads take turns in computing and do not compute at the same moment; the event loop is a thread, too, and "
    "waits for it like the others. Each process has a lock of its own.",
}
IN_TEXTS = (
    *("primes", "digest", "sign_up", "prefork", "slices", "sub-interpreter", "greenlet", "cluster", "job queue"),
    *("ceiling", "p50", "p99", "ping", "event loop", "GIL"),
)
_OTHERS = {
    "p50": ("ping p50", "response p50"),
    "p99": ("ping p99", "response p99"),
    "ping": ("pings", "Pings", "Ping"),
    "ceiling": ("of ceiling",),
    "sub-interpreter": ("sub-interpreters",),
}  # the others are explained at their columns


def term_in(text: str, terms: set[str]) -> Iterator[tuple[int, int, str]]:
    """Where each of these terms stands in a text for the first time: from, to, and the term; from left to right."""
    found = []
    for term in terms:
        others = [form for form in _OTHERS.get(term, ()) if " " not in form]
        forms = "|".join(map(re.escape, (term, *others)))
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
