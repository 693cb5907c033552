"""What is to be seen in a picture, in a sentence above it: computed from what it shows.

Where more names belong to it than can be read at a glance, the sentence counts them, and they stand in a line below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common.report import numbers
from common.report.figures.rounds import Round
from common.report.judging.known import Known
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import plain_name, with_capital

_MOST_NAMES = 3


def of_throughput(cases: Sequence[Summary]) -> str:
    """Who does the most."""
    first = [case for case in cases if case.rank == 1 and case.rate_per_s]
    if not first:
        return "Who does more work could not be decided"
    rates = sorted(case.usual_rate_per_s for case in first)
    if len(first) == len([case for case in cases if case.verdict == OK]) > 1:
        return f"None does more work than another, beyond noise: {_between(rates, numbers.rate)} answers per second"
    if len(first) == 1:
        who = with_capital(_who(first, cases), first[0].server)
        return f"{who} does the most work: {_between(rates, numbers.rate)} answers per second"
    told = f"can't be told from the fastest: {_between(rates, numbers.rate)} answers per second"
    return _said(first, cases, told, "They")


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
    within = _between(sorted(map(_ping_s, short)), numbers.seconds)
    told = (
        f"answer{'s' if len(short) == 1 else ''} 99 of 100 pings within {within}, "
        f"the rest within {_between([rest[0], rest[-1]], numbers.seconds)}"
    )
    return _said(short, cases, told, "Quick")


def of_tradeoff(cases: Sequence[Summary]) -> str:
    """Who is best in both."""
    best = [case for case in cases if case.rank == 1 and "ping_p99_s" in case.best]
    if best:
        told = "does the most work and keeps pings short" if len(best) == 1 else "do the most work and keep pings short"
        return _said(best, cases, told, "They")
    return "None does the most work and keeps pings as short as others do"


def of_moments(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]]) -> str:
    """Where pings had to wait longest, in the round that is drawn."""
    longest = [max(case[0].record.pings.waited_s, default=0.0) for case in rounds]
    worst, best = longest.index(max(longest)), longest.index(min(longest))
    if longest[worst] < 2 * longest[best]:
        return f"No ping of the first round took longer than {numbers.seconds(longest[worst])}"
    return (
        f"The longest ping of the first round took {numbers.seconds(longest[worst])} with "
        f"{plain_name(cases[worst], cases)}, {numbers.seconds(longest[best])} with {plain_name(cases[best], cases)}"
    )


def of_memory(cases: Sequence[Summary]) -> str:
    """What the most work takes, and the least."""
    first = sorted(case.memory_bytes for case in cases if case.rank == 1 and case.memory_bytes)
    everything = sorted(case.memory_bytes for case in cases if case.memory_bytes)
    if not first:
        return f"They take {_between(everything, numbers.megabytes)}" if everything else "What they take is not known"
    least = "" if first[0] == everything[0] else f"; the leanest takes {numbers.megabytes(everything[0])}"
    who = "The fastest takes" if len(first) == 1 else "Those that can't be told from the fastest take"
    return f"{who} {_between(first, numbers.megabytes)} of memory{least}"


def of_cpu(cases: Sequence[Summary], spent: Sequence[Known], task_s: float | None) -> str:
    """Who spends most beside the task, where it is more than noise."""
    known = [(one.value, one, case) for one, case in zip(spent, cases, strict=True) if one.value is not None]
    if task_s is None:
        values = sorted(value for value, *_ in known)
        return f"An answer costs {_between(values, numbers.seconds)} of CPU time" if values else "CPU time"
    task = f"a task of {numbers.seconds(task_s)}"
    if not any(one.high is not None for _, one, _ in known):
        return f"What is spent beside {task}"
    surely = [found for found in known if found[1].low is not None and found[1].low > 0]
    if not surely:
        return f"What is spent beside {task} is lost in the noise"
    most_s, _, case = max(surely, key=lambda found: found[0])
    name, most = plain_name(case, cases), f"{numbers.seconds(most_s)} for each answer, whose task takes "
    most += numbers.seconds(task_s)
    if len(surely) == 1:
        return f"Only {name} surely spends CPU time beside the task: {most}"
    return f"{with_capital(name, case.server)} spends the most CPU time beside the task: {most}"


def _ping_s(case: Summary) -> float:
    assert case.ping_s is not None
    return case.ping_s.p99 or case.ping_s.max


def _said(found: Sequence[Summary], cases: Sequence[Summary], told: str, who: str) -> str:
    """A sentence about these of the cases; of many only how many they are, and their names in a line below."""
    if len(found) <= _MOST_NAMES:
        return f"{with_capital(_who(found, cases), found[0].server)} {told}"
    return f"{len(found)} of {len(cases)} {told}\n{who}: {_who(found, cases)}"


def _who(found: Sequence[Summary], cases: Sequence[Summary]) -> str:
    names = [plain_name(case, cases) for case in found]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _between(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(values[0]), text(values[-1])
    return low if low == high else f"{low} to {high}"
