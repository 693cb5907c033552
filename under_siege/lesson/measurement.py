"""Run what a step needs, with the same harness as every other command, or say what this machine lacks."""

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import psutil

from common.cpus import usable_cpus
from common.errors import BadInputError
from common.server_contract import unmet
from under_siege import formatting
from under_siege.capacity.capacity_run import capacity_plan, run_capacity
from under_siege.checks.evidence import OTHER_WORK
from under_siege.faults.drill_run import drill_plan, run_drill
from under_siege.lesson.assertions import found_in
from under_siege.lesson.lesson_figures import OF_TRACES, ResultView, fits
from under_siege.lesson.step import Page, Run
from under_siege.model.case import Case, Value
from under_siege.model.record import Result, save
from under_siege.paths import ROOT
from under_siege.run.plan import Plan, ProgressListener, make_plan
from under_siege.run.session import run_plan
from under_siege.targets.expectation import Expectations
from under_siege.targets.interpreter import interpreter
from under_siege.targets.selection import suite_of
from under_siege.trace.request_trace import RequestTracer, trace_servers

SEED = 1
USUAL_S = 0.08  # what a task that computes takes at the most on a machine for which the steps' times are right
LONGEST = 3.0  # times as long as it should: then a step takes a minute
WORTH_A_WORD_S = 2.0
LOOK_AROUND_S = 0.3
MORE_ROUNDS = 3  # at most, while a claim is undecided
Measured = tuple[Result, int | None]


class StoppedError(Exception):
    """Stopped by a signal of that number, or by the reader (0)."""


def lacking(page: Page) -> str:
    """What this machine lacks for it, such as `has 1 CPU to give, and this takes 2`; empty if nothing."""
    for need in page.needs:
        if need.startswith("cpus>="):
            if usable_cpus() < int(need.removeprefix("cpus>=")):
                few = f"has {usable_cpus()} CPU to give, and this takes {need.removeprefix('cpus>=')}"
                return f"{few}: with one no two tasks are ever computed at the same moment"
        elif lacks := unmet(need):
            return lacks.replace("needs", "has no")
    missing = [name for name in page.run.pythons if name not in pythons_for(page.run)] if page.run else []
    return f"has no {' and no '.join(missing)}" if missing else ""


def pythons_for(run: Run) -> list[str]:
    """Those that it asks for, as far as there are any; ours where it asks for none."""
    return [name for name in run.pythons if _is_there(name)] if run.pythons else [sys.executable]


def _is_there(name: str) -> bool:
    """Whether it is one, and what its name says: where one without the GIL was installed, both names may mean that."""
    try:
        return interpreter(name).version.endswith("t") is name.endswith("t")
    except BadInputError:
        return False


def measure(
    page: Page, out: Path, watcher: ProgressListener, command: Sequence[str], say: Callable[[str], None]
) -> Measured:
    """Run what decides a page, and write the raw values.

    Args:
        say: prints how long one task takes, and whether the step takes longer today.

    Returns:
        What was measured, and the number of the signal that stopped it or None.

    Raises:
        BadInputError: it can't be run; nothing was started.
    """
    run = page.run
    assert run is not None
    axes: dict[str, Sequence[Value]] = {"task": run.tasks, "workers": run.workers, "python": pythons_for(run)}
    suite = suite_of([str(ROOT / name) if "/" in name else name for name in run.servers])
    if run.faults:
        plan, _ = drill_plan(suite, run.faults, {**axes, "task": ()}, rounds=run.rounds, seed=SEED)
        return run_drill(plan, run.faults, out, watcher, command)[:2]
    if run.goals:
        searched = capacity_plan(suite, run.goals, axes, seed=SEED)
        time_s = run.time_s * _times(1.0, run.time_s, say)
        return run_capacity(searched, run.goals, time_s, out, watcher, command)[:2]
    users = run.users if run.time_s else (run.requests,)
    suite = replace(suite, ceiling=None)  # these servers are ours, and what they can do at the most is no question here
    most_rounds = run.rounds + MORE_ROUNDS if run.time_s else 1
    plan = _only(make_plan(suite, {**axes, "users": users}, time_s=run.time_s, rounds=most_rounds, seed=SEED), run.only)
    if run.time_s:
        long_enough, undecided = partial(_long_enough, say=say), partial(_until_decided, page)
        make_tracer = partial(RequestTracer, requests=run.requests) if run.requests else None
        return run_plan(plan, out, watcher, command, undecided, make_tracer, adapted=long_enough)[:2]
    result, stopped_by = trace_servers(plan, run.requests, watcher, command)
    save(result, out)
    return result, stopped_by


def _until_decided(page: Page, result: Result) -> Collection[Case]:
    """Return the cases of another round: all, until the claims about them are decided."""
    assert page.run is not None
    cases = [record.case for record in result.records]
    if max(record.round for record in result.records) < page.run.rounds:
        return cases
    if any(record.failure for record in result.records):
        return ()
    of_sieges = tuple(claim for claim in page.claims if claim.what not in OF_TRACES)
    found = found_in(msgspec.structs.replace(page, claims=of_sieges), ResultView(result))
    return cases if found.has_undecided else ()


def _long_enough(plan: Plan, expectations: Expectations, say: Callable[[str], None]) -> Plan:
    """Return the plan with longer sieges if the machine is slow, or busy with other programs."""
    tasks = {case.task: expectations[case.work] for case in plan.cases}
    for name, one in tasks.items():
        say(f"One task ({name}) takes {formatting.seconds(one.task_s)} here if it is alone.")
    computing_s = [one.task_s for one in tasks.values() if one.cpu_s > one.task_s / 2]
    times = _times(
        max([1.0, *(task_s / USUAL_S for task_s in computing_s)]), plan.turns() * (plan.load.time_s or 0.0), say
    )
    return replace(plan, load=replace(plan.load, time_s=round(times * (plan.load.time_s or 0.0), 1)))


def _times(slow: float, in_all_s: float, say: Callable[[str], None]) -> float:
    """Return how many times as long a step has to take on a machine that is slow or busy, and announce it."""
    by_others = min(0.99, psutil.cpu_percent(LOOK_AROUND_S) / 100)
    times = min(LONGEST, slow / (1 - by_others))
    if (more_s := (times - 1) * in_all_s) < WORTH_A_WORD_S:
        return 1.0
    others = f"Other programs use {formatting.share(by_others)} of the CPUs"
    say(f"{others if by_others > OTHER_WORK else 'This machine is slow'}, so this step takes {more_s:.0f} s longer.")
    return times


def turns(run: Run) -> int:
    """Return about how many measurements a step takes."""
    cases = len(run.only) or len(run.servers) * len(run.tasks) * len(run.users)
    if run.faults:
        return len(run.servers) * (1 + run.rounds * len(run.faults))
    return cases * (run.rounds * bool(run.time_s) + bool(run.requests))


def _only(plan: Plan, chosen: Sequence[str]) -> Plan:
    """The same without the cases that are not asked for, such as `3 digest`; raises BadInputError: one is not there."""
    if not chosen:
        return plan
    meant = {words: {case for case in plan.cases if _is(case, words)} for words in chosen}
    if lacking := next((words for words, cases in meant.items() if not cases), None):
        raise BadInputError(f"no case fits {lacking!r}: there are {', '.join(map(_told, plan.cases))}")
    return replace(plan, cases=tuple(case for case in plan.cases if any(case in cases for cases in meant.values())))


def _is(case: Case, words: str) -> bool:
    return fits(words, case.server, [str(value) for _, value in case.values])


def _told(case: Case) -> str:
    return " ".join([case.server, *(str(value) for _, value in case.values)])
