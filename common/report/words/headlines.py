"""What is to be seen in a picture, in a sentence above it: computed from what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common.report import numbers
from common.report.figures.rounds import Round
from common.report.judging.known import Known
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import plain_name

_MOST_NAMES = 3


def of_throughput(cases: Sequence[Summary]) -> str:
    """Who does the most."""
    first = [case for case in cases if case.rank == 1 and case.rate_per_s]
    if not first:
        return "Who does more work could not be decided"
    rates = sorted(case.rate_at_usual_speed_per_s or case.rate_per_s.mean for case in first if case.rate_per_s)
    if len(first) == len([case for case in cases if case.verdict == OK]) > 1:
        return f"None does more work than another, beyond noise: {_between(rates, numbers.rate)} answers per second"
    does = "does" if len(first) == 1 else "do"
    return f"{_names(first, cases)} {does} the most work: {_between(rates, numbers.rate)} answers per second"


def of_pings(cases: Sequence[Summary], task_s: float | None) -> str:
    """Who keeps everybody else waiting for less than one task."""
    pinged = [case for case in cases if case.ping_s and case.verdict == OK]
    if not pinged or task_s is None:
        return "How long a ping took while everybody worked"
    short = [case for case in pinged if case.ping_s and case.ping_s.p99 is not None and case.ping_s.p99 < task_s]
    longest = max(_ping_s(case) for case in pinged)
    if not short:
        return f"A ping has to wait for more than a whole task with all of them: up to {numbers.seconds(longest)}"
    if len(short) == len(pinged):
        return f"99 of 100 pings are answered within {numbers.seconds(longest)} by all of them"
    rest = sorted(_ping_s(case) for case in pinged if case not in short)
    return (
        f"{_names(short, cases)} answer{'s' if len(short) == 1 else ''} others at once; "
        f"with the rest the slowest of 100 pings takes {_between([rest[0], rest[-1]], numbers.seconds)}"
    )


def of_tradeoff(cases: Sequence[Summary]) -> str:
    """Who is best in both."""
    best = [case for case in cases if case.rank == 1 and "ping_p99_s" in case.best]
    if best:
        does = "does the most work and keeps" if len(best) == 1 else "do the most work and keep"
        return f"{_names(best, cases)} {does} pings short"
    return "None does the most work and keeps pings as short as others do"


def of_moments(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]]) -> str:
    """Where pings had to wait longest."""
    longest = [max(case[0].record.pings.waited_s, default=0.0) for case in rounds]
    worst, best = longest.index(max(longest)), longest.index(min(longest))
    if longest[worst] < 2 * longest[best]:
        return f"No ping took longer than {numbers.seconds(longest[worst])}"
    return (
        f"The longest ping took {numbers.seconds(longest[worst])} with {plain_name(cases[worst], cases)}, "
        f"{numbers.seconds(longest[best])} with {plain_name(cases[best], cases)}"
    )


def of_memory(cases: Sequence[Summary]) -> str:
    """What the most work takes, and the least."""
    first = sorted(case.memory_bytes for case in cases if case.rank == 1 and case.memory_bytes)
    everything = sorted(case.memory_bytes for case in cases if case.memory_bytes)
    if not first:
        return f"They take {_between(everything, numbers.megabytes)}" if everything else "What they take is not known"
    least = "" if first[0] == everything[0] else f"; the leanest takes {numbers.megabytes(everything[0])}"
    return f"Who does the most work takes {_between(first, numbers.megabytes)}{least}"


def of_cpu(spent: Sequence[Known], task_s: float | None) -> str:
    """How much is spent beside the task at the most, as far as the intervals say."""
    surely = [one.low for one in spent if one.low is not None and one.low > 0]
    highest = [one.high for one in spent if one.high is not None]
    values = [one.value for one in spent if one.value is not None]
    if task_s is None:
        return f"An answer costs {_between(sorted(values), numbers.seconds)} of CPU time" if values else "CPU time"
    if not highest:
        return f"What is spent beside a task of {numbers.seconds(task_s)}"
    if not surely:
        return f"What is spent beside a task of {numbers.seconds(task_s)} is lost in the noise"
    return f"Beside a task of {numbers.seconds(task_s)}, at most {numbers.seconds(max(highest))} of CPU time"


def _ping_s(case: Summary) -> float:
    assert case.ping_s is not None
    return case.ping_s.p99 or case.ping_s.max


def _names(found: Sequence[Summary], cases: Sequence[Summary]) -> str:
    names = [plain_name(case, cases) for case in found]
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} others"]
    told = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{told[:1].upper()}{told[1:]}" if found[0].server not in told.split(" ")[0] else told


def _between(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(values[0]), text(values[-1])
    return low if low == high else f"{low} to {high}"
