"""Explain each reason for a verdict to a beginner: what it usually means, and where to look."""

from dataclasses import dataclass

_AGAIN = "close other programs and check again"
# Reasons that are the fault of the machine or the load tool, and say nothing about the server.
OF_THE_MACHINE = {
    "generator": f"The load tool itself, which runs here, too, used much of the CPU: {_AGAIN}.",
    "ports": "This machine ran out of ports for new connections: check again in a minute.",
    "unknown_lines": "The load tool printed something unknown: check again.",
    "littles_law": f"The load tool did not send requests as fast as it could: {_AGAIN}.",
    "no_transactions": f"No request was answered in the time of a check: {_AGAIN}.",
    "too_short": f"Too few requests were answered in the time of a check: {_AGAIN}.",
    "no_ceiling": "The ceiling could not be measured: check again.",
    "unverified": f"Noise is too large to verify that all the work was done: {_AGAIN}.",
    "wide_interval": f"Noise is too large to measure the throughput: {_AGAIN}.",
    "generator_failed": "The load tool failed: check again.",
    "bench_error": "The bench itself failed: check again, and report it if that does not help.",
}
NOISE = {"wide_interval"}  # It leaves no doubt that the work was done, and claims have intervals of their own.


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a server: in short, what it means, and a hint that does not give the solution away."""

    short: str
    means: str
    hint: str = ""


_FINDINGS = {
    "wrong_answer": Finding(
        "the answer is not that of the task",
        "The server sends something else than the result of the task, so its speed means nothing. Often the work was "
        "started, but its result was never awaited.",
        "Follow the answer of the task from where it is computed to where it is sent.",
    ),
    "error_answer": Finding(
        "the answer is an error",
        "The handler raised an exception; its message is above. Often a coroutine or a future was sent as the answer, "
        "without being awaited.",
        "Which line raised it, and what type of value does it get?",
    ),
    "no_answer": Finding(
        "there is no answer",
        "The server accepted the request and did not answer in a time that is long enough for every other server.",
        "Does the handler wait for something that never comes?",
    ),
    "no_transactions": Finding("no right answer came under load", "It worked for one user, but not for several."),
    "died": Finding("the server died", "Its process ended under load; its last output is above."),
    "refused": Finding("it accepts no connections", "The server was running, but accepted no more connections."),
    "above_ceiling": Finding(
        "more answers than this machine can compute",
        "The ceiling is what the same users reach without a server, where each performs the task itself. No server "
        "that does the work can be faster. So these answers were sent before the work was done, or without it.",
        "Is the task performed for every answer? Is every result awaited?",
    ),
    "too_fast": Finding(
        "an answer came sooner than the task takes",
        "The task was also measured alone. A server that answers sooner has not performed it: the answer comes from a "
        "cache, or is sent before the work is done.",
        "Where does that answer come from, if not from the task?",
    ),
    "too_cheap": Finding(
        "less CPU than the task needs",
        "The CPU time of the server and all its processes is less than that many tasks need. The tasks were not "
        "performed, or in other processes.",
        "Which code performs the task, and is it called for every request?",
    ),
    "availability": Finding(
        "some requests got no right answer",
        "Some requests got an error, or no answer. Errors are quick, so the rate says little.",
        "What happens if two requests arrive at the same time?",
    ),
    "pings": Finding("some pings got no right answer", "Even requests that need no work failed under load."),
    "timer": Finding(
        "users wait for a timer, not for work",
        "They wait as long as a known timer, while the server hardly uses the CPU.",
        "Is there a sleep, or a loop that polls?",
    ),
    "port_kept": Finding("it does not release its port", "After it was told to stop, a process still listened."),
}


def finding(code: str) -> Finding:
    """Return what a reason of that code means."""
    return _FINDINGS.get(code) or Finding("the bench found a fault", "What it found is above.")
