"""Decide which cases `--rounds auto` measures again (racing).

If time permits, all cases that do not fail are measured at least twice. Only cases that may still be the best, are
unclear, or have an undecided requirement get further rounds (F-Race: Birattari and others, GECCO 2002; Kim and Nelson,
ACM TOMACS 11, 2001). A run with requirements ends when all of them are decided.
"""

import math
from collections.abc import Iterator
from itertools import permutations

from under_siege.judge.estimates import ratio
from under_siege.judge.goal import goal
from under_siege.judge.ranking import LOOKS, Comparison, is_worse, rank_level, summarize
from under_siege.judge.requirement_check import UNDECIDED, judged
from under_siege.judge.verdict_rules import FAILED, OK, UNCLEAR
from under_siege.record.case import Case
from under_siege.record.result import Result

MOST_ROUNDS = 10
LEAST_ROUNDS = 2  # with one round, the noise of pings and memory is unknown
ALIKE = math.log(1.05)  # maximum logarithm of the ratio of two rates that count as nearly equal


def wanted(result: Result) -> list[Case]:
    """Return the cases to measure in the next round, the most urgent first, or an empty list if no round is needed."""
    comparison = summarize(result)
    unclear = [summary.case for summary in comparison.cases if summary.verdict == UNCLEAR]
    checks = judged(comparison)
    undecided = [check.case.case for check in checks if check.outcome == UNDECIDED]
    if checks and not undecided and not any(goal(required.text).of_base for required in result.requirements):
        return []  # the run was to decide its requirements
    sound = [summary for summary in comparison.cases if summary.verdict != FAILED]
    too_few = [summary.case for summary in sound if summary.rounds < LEAST_ROUNDS]
    return list(dict.fromkeys([*_contenders(comparison), *unclear, *undecided, *too_few]))


def _contenders(comparison: Comparison) -> Iterator[Case]:
    """Yield the cases that may still be the best under each load, unless there is only one or all are nearly equal."""
    rates = comparison.measured["rate_per_s"]
    for load in comparison.loads():
        field = {
            summary.case: rate
            for summary, rate in zip(comparison.cases, rates, strict=True)
            if comparison.load(summary) == load and summary.verdict in (OK, UNCLEAR) and rate is not None
        }
        alpha = rank_level(len(field), LOOKS)
        unbeaten = {
            case: rate
            for case, rate in field.items()
            if not any(is_worse(rate, other, alpha) for other in field.values())
        }
        probability = 1 - rank_level(len(unbeaten), LOOKS)
        differences = [ratio(one, other).bound(probability) for one, other in permutations(unbeaten.values(), 2)]
        if differences and max(differences) > ALIKE:
            yield from unbeaten
