"""Run a plan: measure the cases of every round, and trace them at the end."""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from under_siege.host.machine_speed import LoneTaskTimer, beside_the_machine, lone_task_timer, speed_probe
from under_siege.measure.case_run import AfterSiege, CaseRun
from under_siege.measure.plan import Plan, new_record
from under_siege.measure.racing import Race, Racing
from under_siege.measure.run_time import say_how_long
from under_siege.measure.server import Server
from under_siege.measure.session import Reporting, Session, run_session
from under_siege.measure.siege_length import Length, pinged_s
from under_siege.measure.warm_up import RequestReplays
from under_siege.record.case import Case
from under_siege.record.result import Result, made_legible
from under_siege.suite.expected_response import Expectations

Choose = Callable[[list[Case], Mapping[Case, float]], list[Case]]


class Tracer(Protocol):
    """Trace each case once, usually on the server of its last siege."""

    async def after_siege(self, case_run: CaseRun, server: Server) -> None:
        """Trace the case whose siege has just ended, while its server is still running."""

    async def trace_remaining(self) -> None:
        """Trace all other cases, each on a separate server."""


def run_plan(
    plan: Plan,
    reporting: Reporting,
    *,
    racing: Racing | None = None,
    make_tracers: Sequence[Callable[[Session], Tracer]] = (),
    adapted: Callable[[Plan, Expectations], Plan] | None = None,
    afterwards: Callable[[Session], Awaitable[None]] | None = None,
) -> tuple[Result, int | None, bool]:
    """Run the plan, and save the record of each case.

    Args:
        racing: how to choose the cases of each round, or None if every round measures all cases.
        adapted: changes the plan after the expected responses are known.
        afterwards: measures more after the last round.

    Returns and raises:
        The same as `run_session`.
    """

    async def work(session: Session) -> None:
        if adapted:
            session = session.with_plan(adapted(session.plan, session.expectations))
        ready, watcher = session.plan, session.watcher
        session.result.users_choice = made_legible(ready.users_choice)
        if ready.users_choice:
            watcher.say(f"users: {ready.users_choice}")
        tracers = [make(session) for make in make_tracers]
        say_how_long(ready, session.expectations, watcher, most_s=racing.limits_s[0] if racing else math.inf)
        await run_rounds(session, racing, [tracer.after_siege for tracer in tracers])
        if afterwards:
            await afterwards(session)
        for tracer in tracers:
            await tracer.trace_remaining()

    return run_session(plan, reporting, work, needs_tool=True, until_certain=racing is not None)


def _chooser(session: Session, racing: Racing | None) -> Choose:
    """Return what chooses the cases that a round measures; the first round measures all, except in a search."""
    plan, result = session.plan, session.result
    if racing is None:
        return lambda cases, _: cases
    race = Race(racing.decide, plan.among, session.watcher.say, limits_s=racing.limits_s)
    return lambda cases, took_s: race.choose(result, cases, took_s) if result.records or plan.searched else cases


async def run_rounds(session: Session, racing: Racing | None, after_last_siege: Sequence[AfterSiege] = ()) -> None:
    """Measure the chosen cases of every round, and keep each record when it is complete.

    In a race, the first round may be short, and only show which cases need more rounds. If there is no time for full
    sieges then, further rounds are short, too.

    Args:
        after_last_siege: functions to call after each siege of the last planned round, while the server still runs.
    """
    plan, choose = session.plan, _chooser(session, racing)
    screens = racing is not None and plan.can_be_screened()
    async with contextlib.AsyncExitStack() as stack:
        probe = await stack.enter_async_context(speed_probe())
        baselines = await _lone_task_timers(session, stack)
        replays = RequestReplays(session.tool)
        took_s = dict[Case, float]()
        short_s = dict[Case, float]()
        is_screening = screens
        for case_round, cases in enumerate(plan.in_order(), 1):
            was_screening, is_screening = is_screening, screens and case_round == 1
            chosen = choose(cases, took_s)
            if not chosen and was_screening:  # there is no time for a full siege, but perhaps for another short one
                chosen, is_screening = choose(cases, short_s), True
            after_siege = after_last_siege if case_round == plan.rounds else ()
            for case in chosen:
                began_s = time.monotonic()
                expected = session.expected_of(case)
                least_s = pinged_s(plan.suite.ping)
                length = Length(plan.load.time_s, case.users, expected, least_s, is_screening=is_screening)
                if plan.load_of(case).arrivals_per_s is not None:
                    length.last_until(length.end_s)  # no user's response shows when the load is settled
                record = new_record(plan, case, length.end_s, case_round)
                name = "ceiling" if plan.targets[case.server].has_no_server else record.server
                session.watcher.case_begins(f"round {case_round}  {name}", length.end_s)
                case_run = CaseRun(
                    session=session,
                    case=case,
                    expected=expected,
                    length=length,
                    record=record,
                    replays=replays,
                    after_siege=after_siege,
                    is_screening=is_screening,
                )
                async with beside_the_machine(record, probe, baselines.get(case.work)):
                    await case_run.measure()
                session.keep(record)
                short_s[case] = time.monotonic() - began_s
                took_s[case] = short_s[case] + length.more_in_full_s()
                session.watcher.case_ends()
            if not chosen:
                return


async def _lone_task_timers(session: Session, stack: contextlib.AsyncExitStack) -> dict[object, LoneTaskTimer]:
    """For each task, start a process that times baseline runs of the task between sieges."""
    plan, workers = session.plan, dict[object, LoneTaskTimer]()
    for case in {case.work: case for case in plan.cases if plan.suite.has_task}.values():
        timeout_s = session.expectations[case.work].timeout_s(users=1)
        worker = lone_task_timer(case.task, plan.python_of(case), timeout_s, plan.suite.folder)
        workers[case.work] = await stack.enter_async_context(worker)
    return workers
