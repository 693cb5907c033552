"""Decide which cases `--rounds auto` measures again: racing.

Everything is measured twice. Then only those cases get more rounds that may still be the best, that are unclear, or
about which a requirement is undecided (F-Race: Birattari and others, GECCO 2002; Kim and Nelson, ACM TOMACS 11, 2001).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from under_siege.analysis.report_data import LOOKS, Comparison, is_worse, level, summarize
from under_siege.analysis.threshold_check import UNDECIDED, judged
from under_siege.checks.verdict import FAILED, OK, UNCLEAR
from under_siege.model.case import Case
from under_siege.model.record import Result
from under_siege.stats.estimates import Estimate, ratio

MOST_ROUNDS = 10
LEAST_ROUNDS = 2  # one tells nothing about the noise of pings and memory
ALIKE = math.log(1.05)  # contenders that are all within this are not worth another round


def wanted(result: Result) -> list[Case]:
    """Return the cases to be measured in the next round, the most urgent first; none if nothing is open."""
    comparison = summarize(result)
    urgent = dict.fromkeys([*_contenders(comparison), *_unclear(comparison), *_undecided(result, comparison)])
    rest = [one.case for one in comparison.cases if one.verdict != FAILED and one.rounds < LEAST_ROUNDS]
    return list(dict.fromkeys([*urgent, *rest]))


def _contenders(comparison: Comparison) -> Iterator[Case]:
    """Yield the cases that may still be the best, unless there is only one, or they are as good as equal."""
    rates = comparison.measured["rate_per_s"]
    for load in dict.fromkeys(one.case.load for one in comparison.cases):
        field = [
            (case, rate)
            for case, rate in zip(comparison.cases, rates, strict=True)
            if case.case.load == load and case.verdict in (OK, UNCLEAR) and rate is not None
        ]
        alpha = level(len(field), LOOKS)
        unbeaten = [(case, rate) for case, rate in field if not any(is_worse(rate, other, alpha) for _, other in field)]
        if len(unbeaten) > 1 and _difference([rate for _, rate in unbeaten]) > ALIKE:
            yield from (case.case for case, _ in unbeaten)


def _difference(rates: Sequence[Estimate]) -> float:
    """Return the largest difference of two logarithms that the intervals allow."""
    return max(
        ratio(one, other).bound(1 - level(len(rates), LOOKS)) for one in rates for other in rates if one is not other
    )


def _unclear(comparison: Comparison) -> Iterator[Case]:
    yield from (one.case for one in comparison.cases if one.verdict == UNCLEAR)


def _undecided(result: Result, comparison: Comparison) -> Iterator[Case]:
    yield from (one.case.case for one in judged(result, comparison) if one.outcome == UNDECIDED)
