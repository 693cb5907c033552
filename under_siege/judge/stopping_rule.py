"""Decide which cases `--rounds auto` measures again (racing).

The first round is short and only shows which cases can still be recommended. Those are measured again, at least until
they have LEAST_ROUNDS rounds (F-Race: Birattari and others, GECCO 2002; Kim and Nelson, ACM TOMACS 11, 2001). Then, if
time is left, others get more rounds, too: those whose rank is not clear, and those that have only one round. A run with
requirements ends when all of them are decided.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from under_siege.judge.estimates import Estimate, ratio
from under_siege.judge.goal import goal
from under_siege.judge.ranking import LOOKS, Comparison, is_worse, rank_level, summarize
from under_siege.judge.requirement_check import UNDECIDED, judged
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK, UNCLEAR
from under_siege.record.case import Case
from under_siege.record.result import Result

MOST_ROUNDS = 10
LEAST_ROUNDS = 3  # of each case that can be recommended; two rounds say little about how much rounds differ
LEAST_OF_OTHERS = 2  # with one round, the noise of pings and memory is unknown
# A case whose rate in the first round is lower than the best by more than this (as a logarithm) is out. A short siege
# shows a rate to within about 15 %.
SCREENED_OUT = 2 * 0.15
# Significance level at which a case is out in later rounds. Being out is no claim, so this level is higher than that of
# the ranks.
OUT = 0.01
ALIKE = math.log(1.05)  # maximum logarithm of the ratio of two rates that count as nearly equal
PRECISE = 0.06  # half the width of the interval of a rate that is known well enough to recommend its case


class Decision(NamedTuple):
    """Which cases to measure in the next round, the most urgent first; none if no round is needed."""

    cases: Sequence[Case]
    # Those of them for which the run may take longer, because the answer depends on them.
    undecided: Sequence[Case] = ()


def wanted(result: Result) -> Decision:
    """Return the cases to measure in the next round."""
    comparison = summarize(result)
    checks = judged(comparison)
    of_requirements = [check.case.case for check in checks if check.outcome == UNDECIDED]
    if checks and not of_requirements and not any(goal(required.text).of_base for required in result.requirements):
        return Decision(())  # the run was to decide its requirements
    races = [_Race(comparison, load) for load in comparison.loads()]
    racing = [race for race in races if race.goes_on()]
    urgent = [*(summary.case for race in racing for summary in race.contenders), *of_requirements]
    undecided = [summary.case for race in racing for summary in race.contenders if race.is_undecided()]
    if not urgent:
        few = [summary.case for summary in comparison.cases if _has_few_rounds(summary)]
        urgent = [*(summary.case for race in races for summary in race.doubtful()), *few]
    return Decision(list(dict.fromkeys(urgent)), undecided)


def _has_few_rounds(summary: Summary) -> bool:
    least = LEAST_ROUNDS if summary.verdict == UNCLEAR else LEAST_OF_OTHERS
    return summary.verdict != FAILED and summary.rounds < least


class _Race:
    """The cases under the same load."""

    def __init__(self, comparison: Comparison, load: object) -> None:
        rates = comparison.measured["rate_per_s"]
        self._field = {
            index: summary
            for index, summary in enumerate(comparison.cases)
            if comparison.load(summary) == load and summary.verdict in (OK, UNCLEAR)
        }
        self._rates = {index: rate for index in self._field if (rate := rates[index]) is not None}
        unbeaten = sorted(self._unbeaten(), key=lambda index: -self._rates[index].log)
        unknown = [self._field[index] for index in self._unknown(comparison)]
        self.contenders: Sequence[Summary] = [*(self._field[index] for index in unbeaten), *unknown]
        self._of_contenders = [self._rates[index] for index in unbeaten]

    def _unbeaten(self) -> Iterator[int]:
        """Yield the cases that can still be recommended."""
        best = max((rate.log for rate in self._rates.values()), default=0.0)
        is_screening = all(summary.rounds == 1 for summary in self._field.values())
        for index, rate in self._rates.items():
            is_out = (
                rate.log < best - SCREENED_OUT
                if is_screening
                else any(is_worse(rate, other, OUT) for other in self._rates.values())
            )
            if not is_out:
                yield index

    def _unknown(self, comparison: Comparison) -> Iterator[int]:
        """Yield the cases without a rate that answered nearly as many requests per second as the best one, or more.

        Their siege was too short because a few requests took much longer than most, for example those of a mix.
        """
        best = max((rate.log for rate in self._rates.values()), default=-math.inf)
        for index in self._field.keys() - self._rates.keys():
            rounds = comparison.rounds[index]
            completed, load_s = sum(run.completed for run in rounds), sum(run.load_s for run in rounds)
            if completed > load_s * math.exp(best - SCREENED_OUT):
                yield index

    def doubtful(self) -> list[Summary]:
        """Return the cases that are out, but would share the first rank."""
        alpha = rank_level(len(self._rates), LOOKS)
        return [
            self._field[index]
            for index, rate in self._rates.items()
            if self._field[index] not in self.contenders
            and not any(is_worse(rate, other, alpha) for other in self._rates.values())
        ]

    def goes_on(self) -> bool:
        """Return whether the contenders need another round: unless each is `ok`, and one is left or all are alike."""
        return self._has_few() or self._is_unclear() or self._widest_ratio() > ALIKE

    def is_undecided(self) -> bool:
        """Return whether the rates of the contenders are not known well enough to recommend one."""
        return self._has_few() or any(map(_is_imprecise, self._of_contenders))

    def _has_few(self) -> bool:
        return any(summary.rounds < LEAST_ROUNDS for summary in self.contenders)

    def _is_unclear(self) -> bool:
        return any(summary.verdict == UNCLEAR for summary in self.contenders)

    def _widest_ratio(self) -> float:
        """Return the highest logarithm that the ratio of two contenders may have."""
        probability = 1 - rank_level(len(self.contenders), LOOKS)
        pairs = permutations(self._of_contenders, 2)
        return max((ratio(one, other).bound(probability) for one, other in pairs), default=0.0)


def _is_imprecise(rate: Estimate) -> bool:
    edges = rate.interval()
    return edges is None or edges[1] - edges[0] > 2 * PRECISE * rate.mean
