"""The conclusion: what a comparison says in plain words, and nothing that its intervals don't carry."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from common.report import numbers
from common.report.alone import alone_wall_s
from common.report.columns import name_of
from common.report.summary import Comparison, Summary
from common.report.verdict import OK


def conclusion(comparison: Comparison) -> list[str]:
    """A paragraph for each task and number of users."""
    settings = dict.fromkeys((case.task, case.users) for case in comparison.cases)
    told = [" ".join(_sentences(comparison, task, users, len(settings) > 1)) for task, users in settings]
    told = [paragraph for paragraph in told if paragraph]
    return [_ONE_ROUND, *told] if sum(map(_one_round, comparison.cases)) > 1 else told


MOST_NAMES = 6  # in a sentence
_ONE_ROUND = "One round can't tell a difference from noise, so nothing is ranked: take --rounds 3 or more."


def _one_round(case: Summary) -> bool:
    return case.verdict == OK and case.rank is None


def _sentences(comparison: Comparison, task: str, users: int, named: bool) -> Iterator[str]:
    cases = [
        msgspec.structs.replace(case, server=name_of(case, comparison.cases))
        for case in comparison.cases
        if (case.task, case.users) == (task, users)
    ]
    sound = [case for case in cases if case.verdict == OK and case.rate_per_s]
    if named:
        yield f"{task}, {users} users:"
    if len(sound) > 1:
        if all(case.rank for case in sound):
            yield _fastest(sound)
        yield _pings(sound, {case.python: alone_wall_s(comparison, task, case.python) for case in sound})
        yield from _memory(sound)
        yield from _undecided(sound)
    elif not sound:
        yield "No case gave numbers that can be trusted."
    left_out = [case.server for case in cases if case.verdict != OK]
    if left_out:
        yield f"Not compared, because suspect or failed: {_listed(left_out)}."


def _fastest(sound: Sequence[Summary]) -> str:
    first = [case for case in sound if case.rank == 1]
    rest = [case for case in sound if case.rank != 1]
    share = [case.of_ceiling for case in first if case.of_ceiling is not None]
    python = " with that Python" if len({case.python for case in sound}) > 1 else ""
    of_ceiling = f", {100 * float(np.mean(share)):.0f} % of what this machine can do at all{python}" if share else ""
    if not rest:
        return f"No strategy is faster than another beyond the noise: all reach about {_rates(first)}{of_ceiling}."
    next_best = max(_rate(case) for case in rest)
    times = float(np.mean([_rate(case) for case in first])) / next_best
    are = "is" if len(first) == 1 else "are equally"
    return (
        f"{_listed([case.server for case in first])} {are} the fastest with {_rates(first)}{of_ceiling}, "
        f"{numbers.significant(times)} times the next best."
    )


def _pings(sound: Sequence[Summary], alone_s: dict[str, float | None]) -> str:
    """Which keep pings short; the measure is the task itself: who waits longer was blocked by more than one."""
    pinged = [case for case in sound if case.ping_s and alone_s[case.python] is not None]
    if not pinged:
        return ""
    short = [case for case in pinged if _p99(case) < (alone_s[case.python] or 0.0)]
    slow = [case for case in pinged if case not in short]
    known = sorted(seconds for seconds in alone_s.values() if seconds is not None)
    limit = f"the {_between(numbers.seconds(known[0]), numbers.seconds(known[-1]))} that one task takes"
    if not short:
        best = min(pinged, key=_p99)
        return (
            f"None keeps pings short: even {best.server} needs {numbers.seconds(_p99(best))} (p99), more than {limit}."
        )
    told = [f"{one.server} ({numbers.seconds(_p99(one))})" for one in short]
    if not slow:
        return f"Pings stay below {limit} (p99) with all of them: {_listed(told)}."
    others = _between(numbers.seconds(min(map(_p99, slow))), numbers.seconds(max(map(_p99, slow))))
    return f"Pings stay below {limit} (p99) with {_listed(told)}; with the others they take {others}."


def _memory(sound: Sequence[Summary]) -> Iterator[str]:
    first = [case for case in sound if case.rank == 1 and case.memory_pss_bytes]
    rest = [case.memory_pss_bytes for case in sound if case.rank != 1 and case.memory_pss_bytes]
    if first and rest:
        most = max(case.memory_pss_bytes or 0 for case in first)
        others = _between(numbers.megabytes(min(rest)), numbers.megabytes(max(rest)))
        yield f"The fastest takes {numbers.megabytes(most)} of memory, the others {others}."


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _undecided(sound: Sequence[Summary]) -> Iterator[str]:
    """The ties behind the first rank."""
    by_rank: dict[int, list[str]] = {}
    for case in sound:
        if case.rank and case.rank > 1:
            by_rank.setdefault(case.rank, []).append(case.server)
    ties = [names for _, names in sorted(by_rank.items()) if len(names) > 1]
    for names in ties:
        yield f"Which of {_listed(names, 'or')} does more could not be decided."


def _rate(case: Summary) -> float:
    return case.rate_per_s.mean if case.rate_per_s else 0.0


def _rates(cases: Sequence[Summary]) -> str:
    return f"{_between(numbers.rate(min(map(_rate, cases))), numbers.rate(max(map(_rate, cases))))}/s"


def _p99(case: Summary) -> float:
    return case.ping_s.p99 if case.ping_s else float("inf")


def _listed(names: Sequence[str], word: str = "and") -> str:
    if len(names) > MOST_NAMES + 1:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
