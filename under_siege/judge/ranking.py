"""Compare the cases of a result: summarize them, and find those that are not significantly worse than the best.

Each case is compared with every other case in a one-sided test. The significance level is divided by the number of
comparisons per case. Dividing it by the number of all pairs would detect fewer differences (Edwards and Hsu, JASA 78,
1983).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec
import numpy as np

from under_siege.judge.estimates import Estimate, estimates, is_below, level, ratio
from under_siege.judge.metric import Metric, MetricValue
from under_siege.judge.metric_estimates import Estimates, estimates_of, pooled_estimates, shares_of_ceiling, values_of
from under_siege.judge.metrics import ESTIMATED
from under_siege.judge.round_statistics import Round, cases_of
from under_siege.judge.speed_correction import SpeedCorrection, fit_speed_correction
from under_siege.judge.summary import Summary, summary_of
from under_siege.judge.suspicions import Evidence
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import Value, load_axes
from under_siege.record.result import Result

Values = tuple[tuple[str, Value], ...]  # (axis, value) pairs
Load = object  # cases with equal loads are comparable; None for a case that can't be trusted
# Assumed number of times that `--rounds auto` tests the ranks to decide whether another round is needed.
LOOKS = 4
LEAST_COMPARISONS = 10

CPU_TIME = "cpu_s_per_transaction"
OBVIOUSLY_WORSE = 10  # a value this many times as bad as the best gets no star
OBVIOUS_BEYOND_TOLERANCE = 3  # likewise, after the metric's tolerance has been added to both values


def ranks(
    loads: Sequence[Load], values: Sequence[Estimate | None], *, more_is_better: bool = True, looks: int = 1
) -> list[int | None]:
    """Return the rank of each case among all cases with its load: 1 plus the number of significantly better cases.

    A case without a load or an interval has no rank. The significance level is divided by `looks`, the number of times
    that the ranks are tested (Bonferroni).
    """
    case_ranks: list[int | None] = [None] * len(loads)
    for load in dict.fromkeys(load for load in loads if load is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        field = {index: value for index, (own, value) in pairs if own == load and value and value.degrees}
        alpha = rank_level(len(field), looks)
        for index, value in field.items():
            better = (is_worse(value, other, alpha, more_is_better=more_is_better) for other in field.values())
            case_ranks[index] = 1 + sum(better)
    return case_ranks


def rank_level(cases: int, looks: int = 1) -> float:
    """Return the significance level of each comparison of a case with another one, given the number of cases.

    With fewer than eleven cases, use the level for eleven cases. With the level for the actual number of cases, about
    one in ten results would give different ranks to three equal servers.
    """
    return level(looks * max(LEAST_COMPARISONS, cases - 1))


def is_worse(one: Estimate, other: Estimate, alpha: float, *, more_is_better: bool = True) -> bool:
    return is_below(one, other, alpha) if more_is_better else is_below(other, one, alpha)


def leaders(
    loads: Sequence[Load],
    values: Sequence[Estimate | None],
    shown: Sequence[float | None],
    metric: Metric,
    looks: int = 1,
) -> list[bool]:
    """Return which cases get a star: those that are not significantly worse than the best case, if other cases are.

    The test is that of the ranks.
    """
    case_ranks = ranks(loads, values, more_is_better=metric.more_is_better, looks=looks)
    return stars_of(case_ranks, loads, shown, metric)


def stars_of(
    case_ranks: Sequence[int | None], loads: Sequence[Load], shown: Sequence[float | None], metric: Metric
) -> list[bool]:
    """Return whether each case gets a star, given the ranks of all cases.

    A case with a wide interval may rank first even though its value is bad. Therefore, a case gets no star if a case
    that does not rank first has a better value, or if its value is obviously worse than the best.
    """
    stars = [False] * len(case_ranks)
    for load in dict.fromkeys(load for load, rank in zip(loads, case_ranks, strict=True) if rank):
        field = [index for index, rank in enumerate(case_ranks) if rank and loads[index] == load]
        losses = {index: -value if metric.more_is_better else value for index in field if (value := shown[index])}
        beaten = min((loss for index, loss in losses.items() if case_ranks[index] != 1), default=None)
        for index, loss in losses.items():
            is_first = case_ranks[index] == 1 and beaten is not None and loss <= beaten
            stars[index] = is_first and not _is_obviously_worse(loss, min(losses.values()), metric)
    return stars


def _is_obviously_worse(loss: float, least: float, metric: Metric) -> bool:
    """Return whether no reader would call two values similar, whatever their intervals are."""
    worse, better = (abs(least), abs(loss)) if metric.more_is_better else (loss, least)
    tolerance = metric.tolerance
    return worse > OBVIOUSLY_WORSE * better or worse + tolerance > OBVIOUS_BEYOND_TOLERANCE * (better + tolerance)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The summaries, rounds and estimates of a result's cases and ceilings."""

    result: Result
    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # rounds of each case
    ceiling_rounds: list[list[Round]]  # rounds of each ceiling
    measured: Estimates  # estimates of each case, by metric
    correction: SpeedCorrection
    evidence: Evidence
    looks: int  # assumed number of times that the ranks are tested
    load_axes: frozenset[str]

    def load(self, summary: Summary) -> Values:
        """Return the case's values on the axes of the load. All cases in a ranking share these values."""
        return summary.case.on(self.load_axes)

    def loads(self) -> list[Values]:
        return list(dict.fromkeys(map(self.load, self.cases)))

    def by_rank(self) -> list[Summary]:
        """Return the cases sorted by load, rank and ping p99 (failed cases last in each load), then the ceilings.

        If no case of a load has a rank, its cases are sorted by their rates.
        """
        loads, ranked = self.loads(), {self.load(summary) for summary in self.cases if summary.rank}

        def order(summary: Summary) -> tuple[float, ...]:
            ping, load = summary.ping_s, self.load(summary)
            ping_s = math.inf if ping is None else ping.least_p99
            rank = summary.rank or math.inf
            return loads.index(load), summary.verdict == FAILED, rank, ping_s if load in ranked else -summary.rate

        return [*sorted(self.cases, key=order), *self.ceilings]

    def every_round(self) -> list[Round]:
        """Return the rounds of all ceilings, followed by those of all cases."""
        return [run for case in (*self.ceiling_rounds, *self.rounds) for run in case]

    def rounds_of(self, work: object) -> list[Round]:
        """Return all rounds of the cases and ceilings that have this value of `Case.work`."""
        return [run for run in self.every_round() if run.case.work == work]

    def summary_of_one(self, run: Round) -> Summary:
        """Return the summary of a single round, with the verdict of its case unless the round or the case failed."""
        rate = _point(self.correction.rounds[run].rate)
        ceiling = _point(self.correction.rounds[run.ceiling].rate) if run.ceiling else None
        share = ratio(rate, ceiling) if rate and ceiling else None
        estimates = {"rate_per_s": rate, "of_ceiling": share}
        values = values_of([[run]], {key: [estimate] for key, estimate in estimates.items()}, self.correction)
        alone = summary_of([run], values[0], estimates, self.correction, self.evidence)
        whole = next(case for case in (*self.cases, *self.ceilings) if case.case == run.case)
        if FAILED in (alone.verdict, whole.verdict):
            return alone
        return msgspec.structs.replace(alone, verdict=whole.verdict, reasons=whole.reasons)


def _point(value: float | None) -> Estimate | None:
    """Return an estimate without an interval, or None if there is no value."""
    return Estimate(math.log(value), math.nan, 0.0) if value else None


def summarize(result: Result, *, corrected: bool = True) -> Comparison:
    """Summarize and rank all cases, and order them by load, work and server number.

    If `corrected` is true, intervals, ranks and shares of the ceiling are speed-adjusted.
    """
    everything = list(cases_of(result.records))
    correction = fit_speed_correction(everything, corrected=corrected)
    measured = estimates_of(everything, correction)
    evidence = Evidence(everything, correction, measured[CPU_TIME])
    measured["of_ceiling"] = shares_of_ceiling(everything, measured["rate_per_s"])
    values, summaries = values_of(everything, measured, correction), []
    for index, rounds in enumerate(everything):
        own = {key: estimates[index] for key, estimates in measured.items()}
        summaries.append(summary_of(rounds, values[index], own, correction, evidence))
    ceilings = [index for index, rounds in enumerate(everything) if rounds[0].record.is_ceiling]
    servers = [index for index in range(len(everything)) if index not in ceilings]
    of_servers = {name: [estimates[index] for index in servers] for name, estimates in measured.items()}
    for_marks = pooled_estimates([everything[index] for index in servers], correction)
    for_marks["rate_per_s"] = of_servers["rate_per_s"]  # includes the noise of the ceilings
    looks = LOOKS if result.until_certain else 1
    cases = [summaries[index] for index in servers]
    of_load = load_axes([summary.case for summary in cases])
    return Comparison(
        result=result,
        cases=_ranked(cases, for_marks, of_load, looks),
        ceilings=[summaries[index] for index in ceilings],
        rounds=[everything[index] for index in servers],
        ceiling_rounds=[everything[index] for index in ceilings],
        measured=of_servers,
        correction=correction,
        evidence=evidence,
        looks=looks,
        load_axes=of_load,
    )


def _ranked(cases: Sequence[Summary], measured: Estimates, of_load: Collection[str], looks: int) -> list[Summary]:
    all_loads = [case.case.on(of_load) for case in cases]
    rounds = {
        load: max(case.rounds for case, own in zip(cases, all_loads, strict=True) if own == load) for load in all_loads
    }
    # One round can't show how much the rate of a case differs between rounds.
    loads = [
        load if case.verdict == OK and rounds[load] > 1 else None for case, load in zip(cases, all_loads, strict=True)
    ]
    by_rate = ranks(loads, measured["rate_per_s"], looks=looks)
    best = {
        metric.key: leaders(loads, measured[metric.key], [case.shown(metric.key) for case in cases], metric, looks)
        for metric in ESTIMATED
    }
    return [
        msgspec.structs.replace(case, rank=by_rate[index], best=[key for key, stars in best.items() if stars[index]])
        for index, case in enumerate(cases)
    ]


def task_cpu_s(comparison: Comparison, work: object) -> Estimate | None:
    """Return the task's speed-adjusted CPU time, or None if the task was never run by itself."""
    values: list[float | None] = []
    for run in comparison.rounds_of(work):
        if run.record.alone_cpu_s:
            speed = comparison.correction.rounds[run].speed or 1.0
            times = speed ** comparison.correction.rounds[run].cpu_coefficient
            values.append(median(run.record.alone_cpu_s) * times)
    return estimates([values])[0]


def spent_beside(comparison: Comparison, places: Sequence[int], task: Estimate | None) -> list[MetricValue]:
    """Return each case's CPU time per response, minus the CPU time of the task unless `task` is None."""
    return [_difference(comparison.measured[CPU_TIME][place], task) for place in places]


def _difference(total: Estimate | None, task: Estimate | None) -> MetricValue:
    """Return `total` minus `task` (if given), assuming that their errors are independent."""
    if total is None:
        return MetricValue(None)
    edges = total.interval()
    if task is None:
        return MetricValue(total.mean, *(edges or ()))
    value, of_task = total.mean - task.mean, task.interval()
    if edges is None or of_task is None:
        return MetricValue(value)
    down = np.hypot(total.mean - edges[0], of_task[1] - task.mean)
    up = np.hypot(edges[1] - total.mean, task.mean - of_task[0])
    return MetricValue(value, float(value - down), float(value + up))
