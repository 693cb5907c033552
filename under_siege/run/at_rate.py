"""Measure the strategies for a route at the rate that it has in practice, after a run under full load."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from under_siege.capacity.step import Offer, typical_arrivals
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.host.services import Services
from under_siege.judge.ranking import summarize
from under_siege.judge.verdict_rules import FAILED
from under_siege.measure.plan import Plan, ProgressListener, new_record
from under_siege.measure.session import Keep
from under_siege.record.case import WORKERS, Case
from under_siege.record.record import PacedRun
from under_siege.record.result import Result
from under_siege.suite.expected_response import Expectations
from under_siege.suite.what_if import is_what_if

SHARE = 0.4  # of the rate of the application as it is, if the user knows no rate
ARRIVALS = 60  # in each measurement, if they fit into its time
SHORTEST_S, LONGEST_S = 4.0, 12.0
TIMES_TASK = 20  # a response that takes this many times as long as alone is not awaited
Work = Callable[[Plan, Result, Expectations, Services, Keep], Awaitable[None]]


def at_rate(per_s: float | None, watcher: ProgressListener) -> Work:
    """Return the work to do after a run; without a rate, use a share of what the application as it is can do."""
    return functools.partial(_measure_all, per_s, watcher)


async def _measure_all(
    per_s: float | None,
    watcher: ProgressListener,
    plan: Plan,
    result: Result,
    expectations: Expectations,
    services: Services,
    keep: Keep,
) -> None:
    route, summaries = plan.suite.route, summarize(result).cases
    if route is None:
        return
    known = {each.case: each for each in summaries if each.verdict != FAILED and each.rate_per_s}
    cases = [case for case in plan.cases if case in known and (case.server == route.server or is_what_if(case.server))]
    if not any(is_what_if(case.server) for case in cases) or len(cases) < 2:
        return
    if per_s is None:
        as_is = min((case for case in cases if not is_what_if(case.server)), key=_workers, default=None)
        per_s = None if as_is is None else float(f"{SHARE * known[as_is].rate:.1g}")
    if not per_s:
        return
    for case in cases:
        await _Measurement(plan, expectations, services, watcher, keep).run(case, per_s)


def _workers(case: Case) -> int:
    return int(case.get(WORKERS) or 1)


@dataclass(frozen=True, slots=True)
class _Measurement:
    plan: Plan
    expectations: Expectations
    services: Services
    watcher: ProgressListener
    keep: Keep

    async def run(self, case: Case, per_s: float) -> None:
        """Send requests that arrive at this rate, and pings; keep the result."""
        expected = self.plan.expected_of(case, self.expectations)
        time_s = min(LONGEST_S, max(SHORTEST_S, ARRIVALS / per_s))
        due_s = typical_arrivals(max(1, round(per_s * time_s)), [self.plan.seed, 1]) / per_s
        record = new_record(self.plan, case, time_s, 1)
        goals = [f"p99 < {max(1.0, TIMES_TASK * expected.task_s):.3g}s"]
        step = PacedRun(record=record, goals=goals, arrivals_per_s=per_s)
        self.watcher.case_begins(f"{per_s:g}/s  {case.server}", time_s)
        due = [round(float(at_s), 6) for at_s in due_s]
        await Offer(self.plan, expected, self.services, step, due, self.watcher.answer_came).measure()
        self.keep(step)
        self.watcher.case_ends()


@dataclass(frozen=True, slots=True)
class AtRate:
    """The latencies of a case at a rate, in seconds; infinite if requests failed."""

    case: Case
    per_s: float
    response_s: float
    ping_s: float | None


def paced(result: Result) -> list[AtRate]:
    """Return the latencies (p99) of the cases that were measured at a rate."""
    found = []
    for step in result.paced:
        metrics = StepMetrics(step)
        response_s = None if metrics.failure or metrics.is_limited else metrics.percentile_s("response", 99.0)
        if response_s is not None:
            found.append(AtRate(step.case, step.arrivals_per_s, response_s, metrics.percentile_s("ping", 99.0)))
    return found
