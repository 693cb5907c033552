"""The run: every case of every round, one after the other."""

import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from common.cpus import usable_cpus
from under_siege.environments.services import Services
from under_siege.environments.tool_install import Tool
from under_siege.model.case import Case
from under_siege.model.record import Record
from under_siege.monitors.cpu_speed_probe import SpeedProbe, speed_probe
from under_siege.monitors.task_baseline import Soloist, baseline_worker
from under_siege.run.case_run import AfterSiege, Turn, new_record
from under_siege.run.duration import LEAST_ROUNDS, Length, in_words, run_length_s, too_short_for
from under_siege.run.expected_answer import ask_for_references
from under_siege.run.plan import Plan
from under_siege.run.progress_listener import ProgressListener
from under_siege.run.request_replay import Imitations
from under_siege.targets.expectation import Expectations, try_task

Choose = Callable[[list[Case], Mapping[Case, float]], list[Case]]


async def expectations_of(plan: Plan, services: Services, watcher: ProgressListener) -> Expectations:
    """What is right, and how long it takes: from each task itself under each interpreter, or from the first server.

    Raises:
        BadInputError: a task can't be performed; no server was started.
    """
    if not plan.suite.has_task:
        return await ask_for_references(plan, services, watcher)
    asked, folder = {case.work: case for case in plan.cases}, plan.suite.folder
    return {work: await try_task(case.task, plan.python_of(case), folder) for work, case in asked.items()}


def say_how_long(
    plan: Plan, expectations: Expectations, watcher: ProgressListener, *, most_s: float = math.inf
) -> None:
    """Announce how long the run will take, and warn about tasks that are too long for the sieges.

    Args:
        most_s: the time budget of a run whose number of rounds is not fixed.
    """
    for case, least_s in too_short_for(plan, expectations):
        what = case.task or plan.load_of(case).path
        watcher.warn(
            f"--time {plan.load.time_s:g}s is short for {what} with {case.users} users: "
            f"use --time auto, or {least_s:.0f}s or more"
        )
    if plan.load.requests is not None:
        return
    rounds = LEAST_ROUNDS if most_s < math.inf else plan.rounds
    shortest_s, longest_s = run_length_s(plan, usable_cpus(), expectations, rounds)
    if most_s < math.inf:
        about = in_words(shortest_s, min(longest_s, most_s))
        watcher.say(f"{len(plan.cases)} cases take {about}; close contests get more rounds, up to {most_s:.0f} s")
        return
    sieges = "1 siege takes" if plan.turns() == 1 else f"{plan.turns()} sieges take"
    watcher.say(f"{sieges} {in_words(shortest_s, longest_s)}")


async def run(
    plan: Plan,
    tool: Tool,
    expectations: Expectations,
    services: Services,
    watcher: ProgressListener,
    save: Callable[[Record], None],
    choose: Choose,
    after_last_siege: AfterSiege | None = None,
) -> None:
    """Measure the cases of every round that are chosen, and save each record as soon as it is complete.

    Args:
        choose: returns those cases of a round that are measured, given how long each took the last time.
        after_last_siege: goes on with each server in the last planned round, before it is stopped.
    """
    async with contextlib.AsyncExitStack() as stack:
        ticking = await stack.enter_async_context(speed_probe())
        soloists = await _soloists(plan, expectations, stack)
        imitations, took_s = Imitations(tool), dict[Case, float]()
        for round_, cases in enumerate(plan.in_order(), 1):
            chosen = choose(cases, took_s)
            for case in chosen:
                began_s = time.monotonic()
                jobs = plan.load.posts_jobs
                expected = replace(expectations[case.work], headers=plan.headers_of(case), of_a_job=jobs)
                length = Length(plan.load.time_s, case.users, expected)
                record = new_record(plan, case, length.end_s, round_)
                watcher.case_begins(f"round {round_}  {record.server}", length.end_s)
                async with beside_the_machine(record, ticking, soloists.get(case.work)):
                    after = after_last_siege if round_ == plan.rounds else None
                    turn = Turn(plan, case, tool, imitations, expected, length, services, record, watcher, after)
                    await turn.measure()
                save(record)
                took_s[case] = time.monotonic() - began_s
                watcher.case_ends()
            if not chosen:
                return


async def _soloists(plan: Plan, expectations: Expectations, stack: contextlib.AsyncExitStack) -> dict[object, Soloist]:
    """Start a process for each task that performs it alone, between sieges."""
    found = dict[object, Soloist]()
    for case in {case.work: case for case in plan.cases if plan.suite.has_task}.values():
        patience_s = expectations[case.work].patience_s(users=1)
        alone = baseline_worker(case.task, plan.python_of(case), patience_s, plan.suite.folder)
        found[case.work] = await stack.enter_async_context(alone)
    return found


@contextlib.asynccontextmanager
async def beside_the_machine(record: Record, ticking: SpeedProbe, alone: Soloist | None) -> AsyncIterator[None]:
    """What the machine could do at that moment: the metronome, and the task alone before and after the body."""
    began_s = time.monotonic()
    async with ticking.beside(record, math.inf if alone is None else alone.fresh_since_s(record)):
        if alone is not None:
            await alone.perform(record)
        yield
        if alone is not None:
            await alone.perform(record)
    zero_s = began_s if record.load_began_s is None else record.load_began_s
    for column in (record.beats.at_s, record.cpu_times.at_s, record.alone_at_s):
        column[:] = [round(at_s - zero_s, 4) for at_s in column]
