"""What the bench found, for beginners: what each finding usually means, and where to look."""

from dataclasses import dataclass

_AGAIN = "close other programs, and check again"
# What the machine, or the load tool, has to answer for: it says nothing of the server. In plain words.
OF_THE_MACHINE = {
    "busy_machine": f"This machine had other work meanwhile: {_AGAIN}.",
    "unsteady_machine": "This machine was faster at one moment and slower at another: check again later.",
    "late_probe": f"The pings could not be sent in time: {_AGAIN}.",
    "generator": f"The users themselves, which run here, too, took much of this machine: {_AGAIN}.",
    "ports": "This machine ran out of ports for new connections: check again in a minute.",
    "unknown_lines": "The load tool said something that is not understood: check again.",
    "littles_law": f"The users did not ask as often as they could: {_AGAIN}.",
    "no_transactions": f"Not one answer came in the time that a check takes: {_AGAIN}.",
    "too_short": f"Too few answers came in the time that a check takes: {_AGAIN}.",
    "no_ceiling": "What is possible here could not be measured: check again.",
    "doubtful_ceiling": f"What is possible here could not be measured well: {_AGAIN}.",
    "unsteady_ceiling": f"What is possible here could not be measured well: {_AGAIN}.",
    "blind": f"This machine is too noisy to tell the truth from a lie: {_AGAIN}.",
    "generator_failed": "The load tool failed: check again.",
    "bench_error": "The bench itself failed: check again, and report it if that does not help.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a server: in short, what it means, and a hint that is not the solution."""

    short: str
    means: str
    hint: str = ""


_FINDINGS = {
    "wrong_answer": Finding(
        "the answer is not that of the task",
        "The server answers, and with something else than what the task gives. Such a server may be as fast as it "
        "likes. Often the work was started and nobody waited for what comes of it.",
        "Follow the answer of the task from where it is computed to where it is sent.",
    ),
    "error_answer": Finding(
        "the answer is an error",
        "Something in the handler raised; its message stands above. Often something was used as an answer that is "
        "only the promise of one: a coroutine or a future that nobody has awaited.",
        "Which line has raised, and what kind of thing is it given?",
    ),
    "no_answer": Finding(
        "there is no answer",
        "The server took the request, and nothing came back in a time that is long enough for any of the others.",
        "Does the handler wait for something that never comes?",
    ),
    "no_transactions": Finding("not one right answer came under load", "It worked for one user, and not for several."),
    "died": Finding("the server died", "Its process ended under load; its last words stand above."),
    "refused": Finding("nobody listens", "The server was there, and took no more connections."),
    "above_ceiling": Finding(
        "more answers than this machine can compute",
        "The ceiling is what the same users reach with no server at all: each computes the task itself. Nobody who "
        "does the work can be faster. So these answers were sent before the work was done, or without it.",
        "Is every answer worked for? Is every result awaited?",
    ),
    "too_fast": Finding(
        "an answer came sooner than the task takes",
        "The task was measured alone, too. Who answers sooner has not done it: the answer comes from a cache, or is "
        "sent before the work.",
        "Where does that answer come from, if not from the task?",
    ),
    "too_cheap": Finding(
        "less CPU than the task needs",
        "The CPU time of the server and all its processes was counted. It is less than so many tasks take: they were "
        "not done, or somewhere else.",
        "Who computes here, and is it told to, each time?",
    ),
    "availability": Finding(
        "not everybody got an answer",
        "Some requests got an error, or nothing. Errors are quick, so that the rate says little.",
        "What happens if two requests are there at the same time?",
    ),
    "pings": Finding("not every ping was answered", "What needs no work at all got no right answer under load."),
    "timer": Finding(
        "users wait for a timer, and not for work",
        "They wait as long as a known timer takes, while the server hardly computes.",
        "Is there a sleep, or something that looks only now and then?",
    ),
    "port_kept": Finding("it does not let go of its port", "After it was told to stop somebody still listened."),
}


def finding(code: str) -> Finding:
    """What a reason of that code means."""
    return _FINDINGS.get(code) or Finding("the bench found fault with it", "What it saw stands above.")
