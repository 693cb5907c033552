"""Run the measurement of a question, or report what this machine lacks for it."""

import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import psutil

from common.errors import BadInputError
from under_siege import formatting
from under_siege.capacity.search import capacity_plan, run_capacity
from under_siege.drill.drill_run import drill_plan, run_drill
from under_siege.host.cpu_division import server_cpus
from under_siege.host.interpreter import interpreter
from under_siege.host.programs import unmet
from under_siege.judge.stopping_rule import Decision
from under_siege.judge.suspicions import OTHER_WORK
from under_siege.lesson.claims import IN_FLIGHT, ResultView, decide_question
from under_siege.lesson.step import LESSON, Question, fits
from under_siege.measure.plan import Plan, ProgressListener, make_plan
from under_siege.measure.racing import Racing
from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.paths import PROGRAM, ROOT
from under_siege.record.case import Value
from under_siege.record.result import Result, save
from under_siege.show.progress_bar import ProgressBar
from under_siege.suite.expected_response import Expectations
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_from_application import TargetOptions, suite_of_applications
from under_siege.trace.trace_run import RequestTracer, trace_servers

SEED = 1
CPU_SAMPLE_S = 0.3
MORE_ROUNDS = 3  # maximum number of extra rounds while a claim is undecided


def missing_here(question: Question) -> str:
    """Return the end of a sentence `This machine …` about what it lacks, or an empty string if it lacks nothing."""
    for need in question.needs:
        if need.startswith("cpus>="):
            cpus = int(need.removeprefix("cpus>="))
            if server_cpus() < cpus:
                has = f"has {server_cpus()} usable CPU, but this step needs {cpus}"
                return f"{has}: on one CPU, no two tasks compute at the same time"
        elif reason := unmet(need):
            return reason.replace("needs", "has no")
    pythons = question.run.pythons if question.run else ()
    missing = [name for name in pythons if not is_python(name)]
    return f"has no {' and no '.join(missing)}" if missing else ""


def is_python(name: str) -> bool:
    """Return whether this Python is installed, and is free-threaded if and only if its name ends in `t`."""
    try:
        return interpreter(name).version.endswith("t") is name.endswith("t")
    except BadInputError:
        return False


def measure(
    question: Question, out: Path, watcher: ProgressListener, command: Sequence[str], say: Callable[[str], None]
) -> tuple[Result, int | None]:
    """Run the measurement and save the raw values; return the result, and the signal that stopped the run, if any.

    Raises:
        BadInputError: the measurement can't be run; nothing was started.
    """
    run, reporting = question.run, Reporting(out, watcher, command)
    assert run is not None
    pythons = list(filter(is_python, run.pythons)) or [sys.executable]
    axes: dict[str, Sequence[Value]] = {"task": run.tasks, "workers": run.workers, "python": pythons}
    if run.strategies:
        axes["task"] = ()
        options = TargetOptions(path=run.path, ping=run.ping, pythons=(sys.executable,), strategies=run.strategies)
        suite = suite_of_applications(run.servers, LESSON, options)
    else:
        suite = suite_of([str(ROOT / name) if "/" in name else name for name in run.servers])
    if run.faults:
        plan, _ = drill_plan(suite, run.faults, {**axes, "task": ()}, rounds=run.rounds, seed=SEED)
        return run_drill(plan, run.faults, reporting)[:2]
    if run.goals:
        plan = capacity_plan(suite, run.goals, axes, seed=SEED)
        time_s = run.time_s * _slowdown(1.0, run.time_s, say)
        return run_capacity(plan, run.goals, time_s, reporting)[:2]
    axes["users"] = run.users if run.time_s else (run.requests,)
    suite = replace(suite, ceiling=None)  # these servers are trusted, so a step needs no ceiling
    most_rounds = run.rounds + MORE_ROUNDS if run.time_s else 1
    plan = make_plan(suite, axes, time_s=run.time_s, rounds=most_rounds, seed=SEED)
    if run.only:
        plan = replace(plan, cases=tuple(case for case in plan.cases if any(fits(each, case) for each in run.only)))
    if run.time_s:
        tracers = [partial(RequestTracer, requests=run.requests)] if run.requests else []
        racing, long_enough = Racing(partial(_undecided_cases, question)), partial(_long_enough, say=say)
        return run_plan(plan, reporting, racing=racing, make_tracers=tracers, adapted=long_enough)[:2]
    result, stopped_by = trace_servers(plan, run.requests, reporting.watcher, reporting.command)
    save(result, out)
    return result, stopped_by


def _undecided_cases(question: Question, result: Result) -> Decision:
    """Return the cases to measure in another round: all of them until the claims are decided, then none."""
    assert question.run is not None
    cases = [record.case for record in result.records]
    if max(record.round for record in result.records) < question.run.rounds:
        return Decision(cases)
    if any(record.failure for record in result.records):
        return Decision(())
    claims = tuple(claim for claim in question.claims if not claim.requires[0].startswith(IN_FLIGHT))
    decision = decide_question(msgspec.structs.replace(question, claims=claims), ResultView(result))
    return Decision(cases if decision.has_undecided else ())


USUAL_TASK_S = 0.08  # usual duration of a CPU-bound task; on a slower machine, sieges are longer


def _long_enough(plan: Plan, expectations: Expectations, say: Callable[[str], None]) -> Plan:
    """Return the plan with longer sieges if the machine is slow, or busy with other programs."""
    tasks = {case.task: expectations[case.work] for case in plan.cases}
    for name, task in tasks.items():
        work = f"task ({name})" if name else "response"
        say(f"A single {work} takes {formatting.seconds(task.task_s)} on this machine.")
    slow = max([1.0, *(task.task_s / USUAL_TASK_S for task in tasks.values() if task.cpu_s > task.task_s / 2)])
    time_s = plan.load.time_s or 0.0
    times = _slowdown(slow, plan.turns() * time_s, say)
    return replace(plan, load=replace(plan.load, time_s=round(times * time_s, 1)))


LARGEST_SLOWDOWN = 3.0  # a step then takes about a minute
LEAST_EXTENSION_S = 2.0  # a step is not extended by less time


def _slowdown(slow: float, total_s: float, say: Callable[[str], None]) -> float:
    """Return the factor by which to lengthen a step if the machine is slow or busy, and announce the extra time."""
    other_work = min(0.99, psutil.cpu_percent(CPU_SAMPLE_S) / 100)
    times = min(LARGEST_SLOWDOWN, slow / (1 - other_work))
    if (more_s := (times - 1) * total_s) < LEAST_EXTENSION_S:
        return 1.0
    busy = f"Other programs use {formatting.share(other_work)} of the CPUs"
    say(f"{busy if other_work > OTHER_WORK else 'This machine is slow'}, so this step takes {more_s:.0f} s longer.")
    return times


class LessonProgressBar(ProgressBar):
    """A progress bar that wraps warnings, and omits warnings about options that the lesson doesn't have."""

    def __init__(self, turns: int) -> None:
        super().__init__(turns, quiet=False)
        self._quiet = True  # because the step itself announces its duration

    def warn(self, message: str) -> None:
        """Print the warning, unless it is about an option or about busy CPUs."""
        if not message.startswith(("--", "the CPUs are")):
            for line in textwrap.wrap(message, 78 - len(f"{PROGRAM}: ")):
                super().warn(line)
