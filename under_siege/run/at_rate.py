"""Measure more about a route after a run under full load: at the rate of practice, and which lines of it compute."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np

from under_siege.capacity.step import Offer, typical_arrivals
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.judge.ranking import summarize
from under_siege.judge.verdict_rules import FAILED
from under_siege.measure.plan import new_record
from under_siege.measure.run_time import beside_s, in_words
from under_siege.measure.session import Session
from under_siege.profile.profile_run import Profiler
from under_siege.record.case import ARRIVALS, WORKERS, Case
from under_siege.record.record import PacedRun, Profile
from under_siege.record.result import Item, Result
from under_siege.run.conclusion import answers
from under_siege.suite.what_if import PREFIX, PROCESSES, THREADS, is_what_if

SHARE = 0.4  # share of the unchanged application's rate that is offered if the user knows no rate
REQUESTS = 60  # number of requests in each measurement, if they fit into its time
SHORTEST_S, LONGEST_S = 4.0, 12.0
TIMES_TASK = 20  # a response that takes this many times as long as alone is not awaited
PROFILE_S = 6.0


def after_run(per_s: float | None) -> Callable[[Session], Awaitable[None]]:
    """Return the work to do after a run; without a rate, use a share of what the application as it is can do."""

    async def work(session: Session) -> None:
        await _measure_at(per_s, session)
        await _profile_as_is(session)

    return work


async def _profile_as_is(session: Session) -> None:
    """Profile the application as it is if its route should move, but only the lines that compute can."""
    plan = session.plan
    route = plan.suite.route
    as_is = [case for case in plan.cases if route is not None and case.server == route.server]
    chosen = [answer.case.server for answer in answers(summarize(session.result)) if answer.case]
    diff_of = {PREFIX + PROCESSES: route.diff, PREFIX + THREADS: route.def_diff} if route else {}
    if not as_is or not any(server in chosen and not diff for server, diff in diff_of.items()):
        return

    def keep_unless_failed(kept: Item) -> None:
        if isinstance(kept, Profile) and kept.failure:
            session.watcher.warn(f"the lines that compute are unknown: {kept.failure}")
        else:
            session.keep(kept)

    one = replace(plan, cases=(min(as_is, key=_workers),))
    await Profiler(replace(session, plan=one, keep=keep_unless_failed), PROFILE_S).profile_all()


async def _measure_at(per_s: float | None, session: Session) -> None:
    plan, summaries = session.plan, summarize(session.result).cases
    route = plan.suite.route
    if route is None:
        return
    known = {each.case: each for each in summaries if each.verdict != FAILED and each.rate_per_s}
    cases = [case for case in plan.cases if case in known and (case.server == route.server or is_what_if(case.server))]
    has_one_load = len({case.load for case in cases}) == 1 and not any(case.get(ARRIVALS) for case in cases)
    if not has_one_load or not any(is_what_if(case.server) for case in cases) or len(cases) < 2:
        if per_s is not None:
            session.watcher.warn(f"nothing was measured at {per_s:g}/s, because too few strategies have a rate")
        return
    if per_s is None:
        as_is = min((case for case in cases if not is_what_if(case.server)), key=_workers, default=None)
        per_s = None if as_is is None else float(f"{SHARE * known[as_is].rate:.1g}")
    if not per_s:
        return
    total_s = sum(_time_s(per_s) + beside_s(session.expected_of(case)) for case in cases)
    session.watcher.say(f"{len(cases)} measurements at {per_s:g}/s take {in_words(total_s, total_s)} more")
    for case in cases:
        await _measure_case_at(per_s, case, session)


def _time_s(per_s: float) -> float:
    """Return how long requests arrive at this rate."""
    return min(LONGEST_S, max(SHORTEST_S, REQUESTS / per_s))


def _workers(case: Case) -> int:
    return int(case.get(WORKERS) or 1)


async def _measure_case_at(per_s: float, case: Case, session: Session) -> None:
    """Send requests that arrive at this rate, and pings; keep the result."""
    expected = session.expected_of(case)
    time_s = _time_s(per_s)
    due_s = typical_arrivals(max(1, round(per_s * time_s)), [session.plan.seed, 1]) / per_s
    record = new_record(session.plan, case, time_s, 1)
    goals = [f"p99 < {max(1.0, TIMES_TASK * expected.task_s):.3g}s"]
    step = PacedRun(record=record, goals=goals, arrivals_per_s=per_s)
    session.watcher.case_begins(f"{per_s:g}/s  {case.server}", time_s)
    due = [round(float(at_s), 6) for at_s in due_s]
    await Offer(session.plan, expected, session.services, step, due, session.watcher.answer_came).measure()
    session.keep(step)
    session.watcher.case_ends()


@dataclass(frozen=True, slots=True)
class AtRate:
    """The latencies of a case at a rate, in seconds; infinite if any request failed."""

    case: Case
    per_s: float
    response_s: float
    ping_s: float | None
    metrics: StepMetrics

    @property
    def has_failed(self) -> bool:
        """Return whether a request or a health check failed."""
        return math.isinf(self.response_s) or math.isinf(self.ping_s or 0.0)


def paced(result: Result) -> list[AtRate]:
    """Return the latencies (p99) of the cases that were measured at a rate."""
    found = []
    for step in result.paced:
        metrics = StepMetrics(step)
        response_s = None if metrics.failure or metrics.is_limited else _p99_s(metrics, "response")
        if response_s is not None:
            ping_s = _p99_s(metrics, "ping")
            found.append(AtRate(step.case, step.arrivals_per_s, response_s, ping_s, metrics))
    return found


def _p99_s(metrics: StepMetrics, kind: str) -> float | None:
    has_failed = np.isinf(metrics.samples[kind][1]).any()
    return math.inf if has_failed else metrics.value(f"{kind}_p99_s")
