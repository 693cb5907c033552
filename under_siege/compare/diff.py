"""Compare two results: compute how much each case changed at the same CPU speed, and whether the change is significant.

The machine may have been faster throughout one run than throughout the other. How much a metric depends on the speed is
known only roughly, so the change is known only within a range. A change is significant if it is significant at both
ends of this range. To compare two revisions more precisely, measure both in one run (`run --against`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from common.errors import BadInputError
from under_siege.judge.estimates import ACCURACY, Estimate, chance_of, level, ratio, student_at
from under_siege.judge.metric import MetricValue
from under_siege.judge.metric_estimates import estimates_for_changes
from under_siege.judge.metrics import METRICS, OF_STREAMS, SPEED_CORRECTED
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.requirement_check import Judged, exit_code_of, judged_beside, limits_in
from under_siege.judge.requirement_check import judged as judged_alone
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection, fit_speed_correction
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import REVISION, Case, axis
from under_siege.record.record import Record
from under_siege.record.result import Environment, Result

Rounds = Sequence[Round]
_Side = tuple[Summary, list[Round]]  # the summary and the rounds of a case in one result

SAME_MEMORY = 0.01  # maximum relative difference that is ignored, because usable memory differs slightly between boots
# Speed dependence of a purely CPU-bound metric, as the slope of its logarithm over that of the speed: 1 means that the
# metric is proportional to the speed. The speed probe and a task may react differently to the same disturbance.
LEAST_SLOPE, MOST_SLOPE = 0.8, 1.2


class Change(NamedTuple):
    """The estimate of a metric in the base, and the ratio of the new value to it; both include the tolerance."""

    base: Estimate
    ratio: Estimate
    tolerance: float
    # The lowest and highest logarithm of the factor by which the difference between the speeds may have changed the
    # ratio in addition to the estimate.
    by_speed: tuple[float, float] = (0.0, 0.0)

    @property
    def values(self) -> tuple[float, float]:
        """Return the means over the rounds of the base and of the new case, at the same speed."""
        return self._value(0.0), self._value(self.ratio.log)

    @property
    def fraction(self) -> float:
        """Return the estimate of the relative change, such as -0.5 if the metric was halved."""
        return self._fraction(self.ratio.log)

    @property
    def smallest_possible(self) -> Estimate:
        """Return the estimate of the smallest ratio that the speeds allow, or of a ratio of 1 if they allow it."""
        low, high = (self.ratio.log - by_speed for by_speed in reversed(self.by_speed))
        return replace(self.ratio, log=low if low > 0 else min(high, 0.0))

    @property
    def smallest_fraction(self) -> float:
        """Return the smallest relative change that the speeds allow."""
        return self._fraction(self.smallest_possible.log)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of the relative change."""
        edges = self.ratio.interval()
        if edges is None:
            return None
        least, most = self.by_speed
        return self._fraction(math.log(edges[0]) - most), self._fraction(math.log(edges[1]) - least)

    def beside(self, limit: float) -> Change:
        """Return the change from a tolerated value, which differs from the base by `limit`, such as -0.05."""
        base = self._value(0.0)
        tolerated = math.log((base * (1 + limit) + self.tolerance) / (base + self.tolerance))
        return self._replace(ratio=replace(self.ratio, log=self.ratio.log - tolerated))

    def smallest_visible(self, level: float) -> float:
        """Return the smallest relative change that would have been significant at this level."""
        margin = student_at(self.ratio.degrees, 1 - level / 2) * self.ratio.variance**0.5
        return max(ACCURACY, self._fraction(margin + max(map(abs, self.by_speed))))

    def _value(self, log: float) -> float:
        return math.exp(self.base.log + log) - self.tolerance

    def _fraction(self, log: float) -> float:
        return self._value(log) / self._value(0.0) - 1


class Changes:
    """The changes of metrics from base cases to new cases, estimated from the rounds of each case."""

    def __init__(
        self, cases: Sequence[Rounds], correction: SpeedCorrection, *, in_one_run: bool, has_common_speed: bool = True
    ) -> None:
        """Estimate all metrics of the cases of one or two results.

        Args:
            in_one_run: whether the rounds were interleaved, so that their speeds need no further adjustment.
            has_common_speed: whether all rounds measured the speed on the same scale.
        """
        self._correction = correction
        self._in_one_run = in_one_run
        self.has_common_speed = has_common_speed
        by_metric = estimates_for_changes(cases, correction)
        self._estimates = {  # by the first round of each case
            case[0]: {name: estimates[index] for name, estimates in by_metric.items()}
            for index, case in enumerate(cases)
        }

    def speed_ratio(self, base: Rounds, new: Rounds) -> float | None:
        """Return the machine's speed during `new` divided by that during `base`, or None if one of them is unknown."""
        before, after = self._log_speed(base), self._log_speed(new)
        return None if before is None or after is None or self._in_one_run else math.exp(after - before)

    def change(self, name: str, base: Rounds, new: Rounds) -> Change | None:
        """Return how a metric changed from `base` to `new`, or None if one of the values is unknown.

        If the speeds of the machine are unknown, only the change of the memory has degrees of freedom.
        """
        estimates = [self._estimates[case[0]][name] for case in (base, new)]
        if estimates[0] is None or estimates[1] is None:
            return None
        between = ratio_between(estimates[0], len(base), estimates[1], len(new), in_one_run=self._in_one_run)
        change = Change(estimates[0], between, METRICS[name].tolerance)
        if self._in_one_run or name == "memory_bytes":
            return change
        before, after = self._log_speed(base), self._log_speed(new)
        if before is None or after is None:
            return change._replace(ratio=replace(between, degrees=0.0))
        adjusted = self._adjustment(name, new) * after - self._adjustment(name, base) * before
        effects = (slope * (after - before) - adjusted for slope in self._possible_slopes(name, [*base, *new]))
        # A faster machine increases the rate but decreases the other metrics.
        least, most = sorted(effect if name == "rate_per_s" else -effect for effect in effects)
        return change._replace(by_speed=(least, most))

    def _log_speed(self, case: Rounds) -> float | None:
        """Return the mean logarithm of the speed relative to the mean of all cases, or None if it is unknown."""
        speeds = (
            [speed for each in case if (speed := self._correction.rounds[each].speed)] if self.has_common_speed else []
        )
        return float(np.log(speeds).mean()) if len(speeds) == len(case) else None

    def _adjustment(self, name: str, case: Rounds) -> float:
        """Return the slope with which the metric has already been adjusted."""
        if name not in SPEED_CORRECTED:
            return 0.0
        first = self._correction.rounds[case[0]]
        return first.cpu_coefficient if name == "cpu_s_per_transaction" else first.coefficient

    def _possible_slopes(self, name: str, rounds: Rounds) -> tuple[float, float]:
        """Return the lowest and highest speed dependence that a metric may have.

        In a closed queueing network, the elasticity of the rate with respect to the speed of a station is at most the
        utilization of the station (Reiser and Lavenberg, Mean-value analysis, JACM 27, 1980).
        """
        if name not in SPEED_CORRECTED:  # it is unknown whether pings and events wait for tasks
            return 0.0, MOST_SLOPE
        least = LEAST_SLOPE if all(self._correction.rounds[run].is_cpu_bound for run in rounds) else 0.0
        if name == "cpu_s_per_transaction":
            return least, MOST_SLOPE
        used = [1.0 if (cpus := _cpus_used(each)) is None else cpus for each in rounds]
        utilization = min(1.0, float(np.mean(used)))
        return least * utilization, MOST_SLOPE * utilization


def _cpus_used(run: Round) -> float | None:
    """Return how many CPUs the server, its services and the load tool kept busy, or None if this is unknown."""
    used, others_s = run.cpus_used(), sum(filter(None, (run.record.services_cpu_s, run.record.tool_cpu_s)))
    return None if used is None or not run.load_s else used + others_s / run.load_s


ONE_ROUND_NOISE = 2.0


def ratio_between(base: Estimate, rounds: int, new: Estimate, new_rounds: int, *, in_one_run: bool = False) -> Estimate:
    """Return `new` divided by `base`, assuming that their rounds are independent.

    The noise of a single round is unknown. In one run, ONE_ROUND_NOISE times the usual noise is assumed for it, so that
    only a large change is significant.
    """
    change = ratio(new, base)
    if min(rounds, new_rounds) >= 2:
        return change
    if not in_one_run:
        return replace(change, degrees=0.0)
    return replace(change, variance=ONE_ROUND_NOISE**2 * change.variance)


def check_comparable(base: Result, new: Result, *, force: bool) -> None:
    """Raise BadInputError if a result is empty, if the loads differ, or, without `force`, if the machines differ."""
    for result, name in ((base, "first"), (new, "second")):
        if not result.records:
            raise BadInputError(f"can't compare: the {name} result is empty; use results with at least one case")
    if doubt := _described(_load_differences(base, new)):
        raise BadInputError(f"can't compare: {doubt}; measure both with the same --task, --users and --jobs")
    if (doubt := machine_difference(base, new)) and not force:
        raise BadInputError(f"can't compare: {doubt}; use --force to compare them nevertheless")


def machine_difference(base: Result, new: Result) -> str:
    """Describe the differences between the machines, or return an empty string if there are none."""
    return _described(_machine_differences(base.environment, new.environment))


def has_comparable_speed(base: Result, new: Result) -> bool:
    """Return whether both speed probes did the same work with the same Python on the same CPU model."""
    before, after = base.environment, new.environment
    return bool(before.speed_probe) and (before.speed_probe, before.cpu_model) == (after.speed_probe, after.cpu_model)


def _described(differences: Iterable[str]) -> str:
    text = ", different ".join(differences)
    return f"the results were measured with different {text}" if text else ""


def _kind(record: Record) -> str:
    """Return what was read: whole responses, or a stream and which of its events count."""
    text = f" with {' or '.join(record.text_events)}" if record.text_events else ""
    return f"{record.stream}{text}" if record.stream else "whole responses"


def _load_differences(base: Result, new: Result) -> Iterator[str]:
    kinds = [sorted({_kind(record) for record in result.records}) for result in (base, new)]
    if kinds[0] != kinds[1]:
        yield f"kinds of responses ({' and '.join(', '.join(each) for each in kinds)})"
    loads = [{pair for record in result.records for pair in record.case.load} for result in (base, new)]
    for name in dict.fromkeys(name for pairs in loads for name, _ in sorted(pairs, key=str)):
        before, after = (sorted(value for axis, value in pairs if axis == name) for pairs in loads)
        if before != after:
            values_text = (", ".join(map(str, values)) or axis(name).default_label for values in (before, after))
            plural = {"users": "numbers of users"}.get(name, f"{name.removesuffix('s')}s")
            yield f"{plural} ({' and '.join(values_text)})"


def _machine_differences(base: Environment, new: Environment) -> Iterator[str]:
    if base.cpu_model != new.cpu_model:
        yield f"CPUs ({base.cpu_model} and {new.cpu_model})"
    if base.available_cpus != new.available_cpus:
        yield f"numbers of CPUs ({base.available_cpus:g} and {new.available_cpus:g})"
    if base.load_cpus != new.load_cpus:
        yield f"numbers of CPUs for the load tool alone ({base.load_cpus} and {new.load_cpus})"
    if abs(base.memory_bytes - new.memory_bytes) > SAME_MEMORY * max(base.memory_bytes, new.memory_bytes):
        yield f"amounts of memory ({base.memory_bytes / 1e9:.1f} GB and {new.memory_bytes / 1e9:.1f} GB)"


WORSE, BETTER, SAME, UNDECIDED = "worse", "better", "no difference", "undecided"
TOLERATED = "tolerated"  # worse, but not significantly beyond the tolerance
GONE, NEW = "gone", "new"  # judgements of cases that are in only one of the results
COMPARED = tuple(metric.key for metric in METRICS.values() if metric.is_compared)
FIGURES = tuple(key for key in COMPARED if key not in OF_STREAMS)  # of all results


def figures_of(summaries: Iterable[Summary]) -> tuple[str, ...]:
    """Return the keys of the metrics to compare."""
    return COMPARED if any(summary.has_streams for summary in summaries) else FIGURES


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric of one case in both results."""

    figure: str
    base: Summary | None
    new: Summary | None
    change: Change | None = None
    tests: int = 0  # how many changes are tested together; 0 if this one is not
    permitted: float = 0.0  # by which share the metric may get worse
    is_judged: bool = False  # whether both cases are `ok`

    @property
    def as_measured(self) -> tuple[float | None, float | None]:
        """Return the metric as measured in each result, without speed adjustment."""

        def measured(case: Summary | None) -> float | None:
            if case is None:
                return None
            return case.measured_per_s if self.figure == "rate_per_s" else case.shown(self.figure)

        return measured(self.base), measured(self.new)

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Return the metric in each result: the compared means or, if they are unknown, the values as measured."""
        return self.as_measured if self.change is None else self.change.values

    @property
    def is_testable(self) -> bool:
        """Return whether both cases are `ok`, and the variance between rounds and the effect of the speed are known."""
        return self.is_judged and self.change is not None and self.change.ratio.degrees > 0

    @property
    def p(self) -> float | None:
        """Return the p-value, corrected for the number of tests (Bonferroni), or None if the change was not tested."""
        if not self.tests or self.change is None:
            return None
        return min(1.0, self.tests * chance_of(self.change.smallest_possible))

    @property
    def fraction(self) -> float | None:
        """Return the relative change, such as -0.5 if the metric was halved, or None if it is unknown."""
        base, new = self.values
        return new / base - 1 if base and new is not None else None

    @property
    def smallest_visible(self) -> float | None:
        """Return the smallest relative change that would have been significant, or None if there was no test."""
        return self.change.smallest_visible(level(self.tests)) if self.tests and self.change else None

    @property
    def may_be_due_to_speed(self) -> bool:
        """Return whether the change would be significant if the machine had had the same speed in both results."""
        return self.judgement == UNDECIDED and self.tests > 0

    @property
    def judgement(self) -> str | None:
        """Return the judgement, or None if neither case has this metric or if a case is not `ok`."""
        if not self.is_judged or self.values == (None, None):
            return None
        if not self.tests or self.change is None:
            return UNDECIDED
        change, judgement = self.change, SAME
        if self.p is not None and self.p < level(1) and abs(change.smallest_fraction) > ACCURACY:
            judgement = WORSE if self._is_loss(change) else BETTER
        elif chance_of(change.ratio) < level(self.tests) and abs(change.fraction) > ACCURACY:
            judgement = UNDECIDED  # the speed of the machine may explain it
        if self.permitted and judgement in (WORSE, UNDECIDED) and self._is_loss(change):
            return self._beyond_tolerance(change)
        return judgement

    def _is_loss(self, change: Change) -> bool:
        return (change.ratio.log > 0) != METRICS[self.figure].more_is_better

    def _beyond_tolerance(self, change: Change) -> str:
        """Return the judgement of a change for the worse, which counts only if it exceeds the tolerance."""
        excess = change.beside(-self.permitted if METRICS[self.figure].more_is_better else self.permitted)
        if not self._is_loss(excess):
            return TOLERATED
        if chance_of(excess.smallest_possible) < level(self.tests):
            return WORSE
        return UNDECIDED if chance_of(excess.ratio) < level(self.tests) else TOLERATED


@dataclass(frozen=True, slots=True)
class CasePair:
    """A case that is in one or both results."""

    case: Case
    base: Summary | None
    new: Summary | None
    changes: tuple[MetricChange, ...]  # one for each figure of the comparison
    speed_ratio: float | None = None  # speed of the machine during `new` divided by that during `base`

    @property
    def judgement(self) -> str:
        """Return the worst judgement of all metrics, or a judgement of the whole case if it can't be compared."""
        if self.new is None:
            return UNDECIDED if self.base and self.base.verdict == FAILED else GONE
        if self.new.verdict == FAILED:
            return FAILED
        if self.new.verdict != OK or (self.base and self.base.verdict not in (OK, FAILED)):
            return UNDECIDED
        if self.base is None:
            return NEW
        if self.base.verdict == FAILED:
            return BETTER
        judgements = [change.judgement for change in self.changes]
        order = (WORSE, UNDECIDED, TOLERATED, BETTER)
        return next((judgement for judgement in order if judgement in judgements), SAME)


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """The comparison of two results."""

    base: Result
    new: Result
    cases: list[CasePair]
    has_common_speed: bool  # whether the changes are speed-adjusted
    required: list[Judged] = field(default_factory=list)  # the requirements of the new result
    in_one_run: Comparison | None = None  # all cases of the run, if a single run measured both sides
    permitted: float = 0.0  # by which share a metric may get worse

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(change.figure for change in self.cases[0].changes) if self.cases else FIGURES

    @property
    def exit_code(self) -> int:
        """Return 1 if a case is worse, failed or gone, or misses a requirement; 3 if anything is undecided; else 0."""
        judgements, required = {case.judgement for case in self.cases}, exit_code_of(self.required)
        if judgements & {WORSE, FAILED, GONE} or required == 1:
            return 1
        return 3 if UNDECIDED in judgements or required else 0


def compare_results(base: Result, new: Result, permitted: float = 0.0) -> ResultComparison:
    """Compare the cases of two results: first those of `new`, then those that are only in `base`.

    A metric may get worse by the share `permitted`.
    """
    before, after = summarize(base), summarize(new)
    rounds = [[*comparison.ceiling_rounds, *comparison.rounds] for comparison in (before, after)]
    has_speeds = all(any(each.speed for case in cases for each in case) for cases in rounds)
    is_common = has_speeds and has_comparable_speed(base, new)
    correction = fit_speed_correction(rounds[0], beside=rounds[1], corrected=is_common)
    changes = Changes([*rounds[0], *rounds[1]], correction, in_one_run=False, has_common_speed=is_common)
    ignored = _ignored_axes(before, after)
    old, now = _by_case(before, ignored), _by_case(after, ignored)
    figures = figures_of([*before.cases, *after.cases])
    pairs = [_pair(case, old.get(case), now.get(case), changes, figures) for case in dict.fromkeys([*now, *old])]
    required = [*judged_alone(after), *_judge_relative(after, old, ignored, changes)]
    cases = tested_together(pairs, permitted)
    return ResultComparison(base, new, cases, is_common, required, permitted=permitted)


def compare_revisions(result: Result) -> ResultComparison:
    """Compare the two revisions in a result of `run --against`, case by case."""
    whole = summarize(result)
    # The ceilings help to estimate the noise.
    changes = Changes([*whole.ceiling_rounds, *whole.rounds], whole.correction, in_one_run=True)
    base, new = (
        {
            case.without([REVISION]): side
            for case, side in _by_case(whole, ()).items()
            if is_base == _is_base(case, result)
        }
        for is_base in (True, False)
    )
    figures = figures_of(whole.cases)
    pairs = [_pair(case, base.get(case), new.get(case), changes, figures) for case in dict.fromkeys([*new, *base])]
    alone = [check for check in judged_alone(whole) if not _is_base(check.case.case, result)]
    required = [*alone, *_judge_relative(whole, base, [REVISION], changes)]
    permitted = result.suite.tolerance if result.suite else 0.0
    return ResultComparison(
        result,
        result,
        tested_together(pairs, permitted),
        has_common_speed=True,
        in_one_run=whole,
        required=required,
        permitted=permitted,
    )


def _is_base(case: Case, result: Result) -> bool:
    return result.suite is not None and case.get(REVISION) == result.suite.against


def _judge_relative(
    after: Comparison, base: Mapping[Case, _Side], ignored: Sequence[str], changes: Changes
) -> Iterator[Judged]:
    for goal, index in limits_in(after, of_base=True):
        case, rounds = after.cases[index], after.rounds[index]
        if not _is_base(case.case, after.result):
            before = base.get(case.case.without(ignored))
            change = before and _change(goal.figure, before, (case, rounds), changes)
            yield judged_beside(goal, case, before and before[0], _multiple(change) if change else None)


def _multiple(change: Change) -> MetricValue:
    """Return the new value as a multiple of the base."""
    return MetricValue(change.values[1] / change.values[0], *(1 + edge for edge in change.interval or ()))


def _ignored_axes(*comparisons: Comparison) -> list[str]:
    """Return the axes to ignore when cases are matched: `workers`, unless it distinguishes cases within a result."""
    for comparison in comparisons:
        if len({summary.case.without(["workers"]) for summary in comparison.cases}) < len(comparison.cases):
            return []
    return ["workers"]


def _by_case(comparison: Comparison, ignored: Sequence[str]) -> dict[Case, _Side]:
    pairs = zip(comparison.cases, comparison.rounds, strict=True)
    return {summary.case.without(ignored): (summary, rounds) for summary, rounds in pairs}


def _pair(case: Case, base: _Side | None, new: _Side | None, found: Changes, figures: Sequence[str]) -> CasePair:
    before, after = base and base[0], new and new[0]
    changes = [MetricChange(figure, before, after) for figure in figures]
    if base is None or new is None:
        return CasePair(case, before, after, tuple(changes))
    is_judged = base[0].verdict == new[0].verdict == OK
    for index, change in enumerate(changes):
        known = None if None in change.as_measured else _change(change.figure, base, new, found)
        changes[index] = replace(change, change=known, is_judged=is_judged)
    return CasePair(case, before, after, tuple(changes), found.speed_ratio(base[1], new[1]))


def _change(figure: str, base: _Side, new: _Side, found: Changes) -> Change | None:
    """Return the change of a metric, or None if it is unknown or if the kinds of memory differ."""
    if figure == "memory_bytes" and base[0].memory_kind != new[0].memory_kind:
        return None
    return found.change(figure, base[1], new[1])


def tested_together(cases: Sequence[CasePair], permitted: float) -> list[CasePair]:
    """Note with each change how many changes are tested, which determines the level, and what is permitted."""
    tests = sum(change.is_testable for case in cases for change in case.changes)

    def noted(change: MetricChange) -> MetricChange:
        return replace(change, tests=tests, permitted=permitted) if change.is_testable else change

    return [replace(case, changes=tuple(map(noted, case.changes))) for case in cases]
