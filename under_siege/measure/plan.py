"""Define the plan of a run and the length of each siege, and check the plan before anything starts."""

import itertools
import math
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

from common.errors import BadInputError
from common.workers import usable_cpus
from under_siege.host.interpreter import (
    OLDEST_PYTHON,
    OLDEST_USER_PYTHON,
    Interpreter,
    distinct,
    interpreter,
    with_unique_versions,
)
from under_siege.host.programs import remedy, unmet
from under_siege.judge.steady_rate import SETTLED_USERS
from under_siege.load.request import Load, WarmUp, filled, filled_all
from under_siege.measure.requirements import check_requirements
from under_siege.record.case import REVISION, Case, Value, case_of
from under_siege.record.record import Record
from under_siege.record.result import SkippedServer
from under_siege.suite.expected_response import Expectation, Expectations
from under_siege.suite.strategies import all_strategies
from under_siege.suite.suite import Suite, Target

_NO_JOBS = "accepts no jobs"
MOST_POINTS = 10_000  # maximum number of combinations of values on all axes

# Minimum length of a siege. If the machine's speed varies, shorter sieges more often rank equal servers differently.
LEAST_S = 3.0
# Length of a siege, as a multiple of the time until its settled part. The settled part then has more than one and a
# half cycles of request and response. Shorter sieges would give less accurate rates on a slow machine.
TIMES_SETTLED = 2.75
SLOWER = 2.0  # maximum length of a siege, as a multiple of `most_needed_s`
CYCLES_OF_A_BURST = 10  # minimum cycles of request and response in each of several bursts, if tasks run one at a time
MOST_BURSTS = 8
LONG_S = 40.0  # if all users' first responses take longer in total, a round may take minutes
BESIDES_S = 1.5  # assumed seconds for the start, warm-up and stop of each case
LEAST_ROUNDS = 2
# `budget_s` returns MORE_ROUNDS × the time of two rounds, but at least LEAST_BUDGET_S and at most LIMIT_S. If two
# rounds take slightly longer than LIMIT_S, clearly slower cases get only one. If two rounds take longer than
# MUCH_LONGER × LIMIT_S, all cases get two.
MORE_ROUNDS, LEAST_BUDGET_S, LIMIT_S, MUCH_LONGER = 1.5, 40.0, 150.0, 2.0
CPU_BOUND = 0.2  # minimum share of CPU time in a CPU-bound task, even on a busy machine


class ProgressListener(Protocol):
    """Receive the progress of a run."""

    def warn(self, message: str) -> None: ...
    def say(self, message: str) -> None: ...
    def case_begins(self, what: str, time_s: float) -> None: ...  # `time_s`: the planned duration of the load
    def answer_came(self) -> None: ...
    def case_ends(self) -> None: ...


class EnvironmentKey(NamedTuple):
    """The values that distinguish virtual environments."""

    requirements: tuple[str, ...]
    additions: tuple[str, ...]
    python: str  # version, such as 3.14.0
    folder: Path | None  # base of relative paths in the requirements


@dataclass(frozen=True, slots=True)
class Plan:
    """All cases of a run, the load of each, and the number of rounds."""

    targets: Mapping[str, Target]  # by server name
    pythons: Mapping[str, Interpreter]  # by version
    cases: tuple[Case, ...]
    ceilings: tuple[Case, ...]  # the same loads without a server, or on the suite's ceiling
    suite: Suite
    load: Load
    rounds: int
    seed: int
    left_out: tuple[SkippedServer, ...] = ()  # servers that can't run with a Python version, or accept no jobs
    # The directory of each virtual environment, or the reason why there is none.
    environments: Mapping[EnvironmentKey, Path | str] = field(default_factory=dict)
    unprepared: Mapping[Case, str] = field(default_factory=dict)  # why a case could not be prepared

    def in_order(self) -> Iterator[list[Case]]:
        """Yield the cases and ceilings of each round in a new random order."""
        order = random.Random(self.seed)  # noqa: S311 (not for secrets)
        everything = [*self.ceilings, *self.cases]
        for _ in range(self.rounds):
            yield order.sample(everything, len(everything))

    def among(self, cases: Sequence[Case], wanted: Collection[Case]) -> list[Case]:
        """Return the wanted cases and their ceilings."""
        needed = {ceiling for ceiling in self.ceilings for case in wanted if ceiling.covers(case)}
        return [case for case in cases if case in needed or case in wanted]

    def python_of(self, case: Case) -> Interpreter:
        """Return the Python of a case, or the first Python of the plan if the target does not depend on Python."""
        return self.pythons.get(case.python) or next(iter(self.pythons.values()))

    def additions_of(self, case: Case) -> tuple[str, ...]:
        return tuple(filled_all(self.targets[case.server].additions, dict(case.values)))

    def requirements_of(self, case: Case) -> tuple[str, ...]:
        return tuple(filled_all(self.targets[case.server].requirements, dict(case.values)))

    def folder_of(self, case: Case) -> Path | None:
        """Return the working directory of a case's commands, or None for that of the bench."""
        return self.suite.revisions.get(str(case.get(REVISION)), self.suite.folder)

    def environment_of(self, case: Case) -> EnvironmentKey:
        folder = self.folder_of(case) if self.targets[case.server].requirements else None
        return EnvironmentKey(self.requirements_of(case), self.additions_of(case), self.python_of(case).version, folder)

    def load_of(self, case: Case) -> Load:
        path = filled(str(case.get("path") or self.load.path), {"task": case.task})
        setting = case.get("keep_alive")
        return replace(self.load, path=path, keep_alive=self.load.keep_alive if setting is None else setting == "on")

    def warm_up_of(self, case: Case) -> Load | None:
        """Return the load of the warm-up, which is not measured, or None if there is no warm-up."""
        warm_up = self.targets[case.server].warm_up or self.load.warm_up or WarmUp()
        if warm_up == WarmUp():
            return None
        return replace(self.load_of(case), requests=warm_up.requests, time_s=warm_up.time_s)

    def expected_of(self, case: Case, expectations: Expectations) -> Expectation:
        """Return the expected response of this case, including the required headers."""
        values = dict(case.values)
        headers = tuple((name, filled(text, values)) for name, text in self.targets[case.server].headers)
        return replace(
            expectations[case.work], headers=headers, request=self.load.request, of_a_job=self.load.posts_jobs
        )

    def turns(self) -> int:
        """Return the maximum number of measurements."""
        return self.rounds * (len(self.ceilings) + len(self.cases))


def make_plan(
    suite: Suite, axes: Mapping[str, Sequence[Value]], *, time_s: float | None, rounds: int, seed: int | None = None
) -> Plan:
    """Return a plan that measures each target of a suite with every combination of the values of its axes.

    Args:
        axes: values that replace those of the suite; for `python`, the paths of interpreters.
        time_s: duration of each load, or None for the value of the suite.

    Raises:
        BadInputError: a Python does not exist, no target can run, an axis is unused, or a requirement is invalid.
    """
    check_requirements(suite)
    given = {name: values for name, values in axes.items() if values}
    _refuse_unused(suite, given)
    axes = {"python": (sys.executable,), **suite.axes, **given}
    pythons = _pythons(suite, axes["python"])
    targets = _with_unique_names(suite)
    left_out = tuple(
        SkippedServer(target.name, target.title, python.version, reason)
        for target, python in itertools.product(targets, pythons)
        if (reason := _why_left_out(suite, target, python))
    )
    points = _points({**axes, "python": [python.version for python in pythons]})
    cases = _cases(targets, points, left_out)
    if not cases:
        raise BadInputError(_why_no_case(left_out))
    ceiling = [suite.ceiling] if suite.ceiling else []
    ceilings = dict.fromkeys(case.for_target(target.name, target.axes) for target in ceiling for case in cases)
    return Plan(
        {target.name: target for target in (*targets, *ceiling)},
        {python.version: python for python in pythons},
        cases,
        tuple(ceilings),
        suite,
        suite.load if time_s is None else replace(suite.load, time_s=time_s, requests=None),
        rounds,
        random.randrange(2**32) if seed is None else seed,  # noqa: S311
        left_out,
    )


def _pythons(suite: Suite, paths: Sequence[Value]) -> list[Interpreter]:
    # The strategies and tasks import `common`; other servers may run on an older Python.
    oldest = OLDEST_PYTHON if suite.has_task or suite.folder is None else OLDEST_USER_PYTHON
    return with_unique_versions(distinct([interpreter(str(path), oldest) for path in dict.fromkeys(paths)]))


def _cases(
    targets: Sequence[Target], points: Sequence[Mapping[str, Value]], left_out: Sequence[SkippedServer]
) -> tuple[Case, ...]:
    skipped = {(skip.server, skip.python) for skip in left_out}
    cases = (
        case_of(target.name, {**point, "path": target.requests_path or point.get("path")}).without(
            set(point) - set(target.axes)
        )
        for target in targets
        for point in points
    )
    return tuple(case for case in dict.fromkeys(cases) if (case.server, case.python) not in skipped)


def _why_left_out(suite: Suite, target: Target, python: Interpreter) -> str:
    """Return why the target can't run, with a remedy if there is one, or an empty string if it can run."""
    if lacking := unmet(target.requires, python.minor):
        return f"{lacking}; {remedy(target.requires)}"
    return _NO_JOBS if suite.load.posts_jobs and not target.takes_jobs else ""


def _why_no_case(left_out: Sequence[SkippedServer]) -> str:
    """Return why no case is left; if servers accept no jobs, also name some that do."""
    why = "; ".join(f"{skip.server} {skip.reason}" for skip in left_out)
    if all(skip.reason != _NO_JOBS for skip in left_out):
        return why
    names = " or ".join(strategy.name for strategy in all_strategies() if strategy.takes_jobs)
    return f"{why}: use {names}, or your own server with JOBS in its script"


def _refuse_unused(suite: Suite, axes: Mapping[str, Sequence[Value]]) -> None:
    """Raise BadInputError for an axis on which no target of a suite depends; strategies accept every axis."""
    used = {name for target in suite.targets for name in target.axes} | {"users"}
    for name in axes:
        if suite.title and name not in used and name != "python":
            options = ", ".join(f"--{option}" for option in ("task", "users", "workers", "python") if option in used)
            raise BadInputError(
                f"no server of {suite.source or suite.title!r} depends on --{name}; use one of {options}"
            )


def _points(axes: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """Return every combination of values, with all values except the task filled into the path."""
    axes = {name: values for name, values in axes.items() if values}
    if (count := math.prod(map(len, axes.values()))) > MOST_POINTS:
        raise BadInputError(f"the axes have {count:,} combinations: expected at most {MOST_POINTS:,}")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if "path" in axes:
        for point in points:
            point["path"] = filled(str(point["path"]), {**point, "task": "{task}"})
    return points


def _with_unique_names(suite: Suite) -> list[Target]:
    """Return the targets, with as many directories before each name as needed to make it unique."""
    if any(target.path is None for target in suite.targets):
        return list(suite.targets)  # the servers of a suite have unique names
    paths = {target: target.path.with_suffix("").as_posix() for target in suite.targets if target.path}
    taken = [f"/{suite.ceiling.name}"] if suite.ceiling else []
    return [
        replace(target, name=_least_name(path, [*taken, *(other for other in paths.values() if other != path)]))
        for target, path in paths.items()
    ]


def _least_name(path: str, others: list[str]) -> str:
    parts = path.split("/")
    names = ("/".join(parts[-count:]) for count in range(1, len(parts)))
    return next((name for name in names if not any(other.endswith(f"/{name}") for other in others)), path)


def new_record(plan: Plan, case: Case, time_s: float, case_round: int) -> Record:
    """Return an empty record for a case that is about to be measured."""
    workers = case.get("workers")
    return Record(
        server=case.server,
        title=plan.targets[case.server].title,
        values=dict(case.values),
        is_ceiling=case in plan.ceilings,
        has_ceiling=bool(plan.ceilings),
        has_task=plan.suite.has_task,
        workers=None if workers is None else int(workers),
        round=case_round,
        time_s=time_s,
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=psutil.getloadavg()[0],
    )


class Length:
    """Decide when a siege ends, based on the times of its responses."""

    def __init__(self, asked_s: float | None, users: int, expected: Expectation) -> None:
        self._is_fixed = asked_s is not None
        self._needed = max(1, round(SETTLED_USERS * users))
        self._answered: set[int] = set()
        self._burst_s = CYCLES_OF_A_BURST / TIMES_SETTLED * most_needed_s(users, expected)
        self.end_s = asked_s or max(LEAST_S, SLOWER * most_needed_s(users, expected))  # seconds since the siege began

    def last_until(self, end_s: float) -> None:
        """End the siege at this time, regardless of the responses."""
        self._is_fixed, self.end_s = True, end_s

    def answer(self, user: int, at_s: float) -> None:
        """Record that a user got a response."""
        if self._is_fixed or len(self._answered) >= self._needed:
            return
        self._answered.add(user)
        if len(self._answered) >= self._needed:
            self.end_s = min(self.end_s, max(LEAST_S, TIMES_SETTLED * at_s))

    def bursts(self, least_s: float) -> tuple[int, float]:
        """Return the number of bursts and the length of each, which is at least `least_s` unless the siege is shorter.

        Requests in flight at the end of a burst are lost and delay the next burst. Therefore, if responses may be
        slow, there are only a few bursts, or one.
        """
        count = max(1, min(MOST_BURSTS, int(self.end_s / max(least_s, self._burst_s))))
        return count, self.end_s / count


def most_needed_s(users: int, expected: Expectation) -> float:
    """Return how many seconds a siege must last, including checks, if the server performs one task at a time."""
    return TIMES_SETTLED * (users + 1) * max(expected.task_s, expected.cpu_s)


def least_needed_s(users: int, cpus: int, expected: Expectation) -> float:
    """Return how many seconds a siege must last if the server uses all CPUs and overlaps all waits."""
    return TIMES_SETTLED * max(expected.task_s, users * expected.cpu_s / cpus)


def run_length_s(plan: Plan, cpus: int, expectations: Expectations, rounds: int) -> tuple[float, float]:
    """Return the lowest and the highest expected duration, in seconds, of this number of rounds."""
    least_s = most_s = 0.0
    for case in (*plan.ceilings, *plan.cases):
        expected = expectations[case.work]
        least_s += BESIDES_S + (plan.load.time_s or max(LEAST_S, least_needed_s(case.users, cpus, expected)))
        most_s += BESIDES_S + (plan.load.time_s or max(LEAST_S, most_needed_s(case.users, expected)))
    return rounds * least_s, rounds * most_s


def budget_s(plan: Plan, cpus: int, expectations: Expectations) -> float:
    """Return the time limit of a run that continues until the ranks are clear.

    The limit usually allows two rounds of all cases, and more rounds of close cases.
    """
    # Use the CPU time of CPU-bound tasks, because other programs may have delayed the trial.
    undisturbed = {
        work: replace(each, task_s=each.cpu_s) if each.cpu_s > CPU_BOUND * each.task_s else each
        for work, each in expectations.items()
    }
    _, needed_s = run_length_s(plan, cpus, undisturbed, LEAST_ROUNDS)
    if needed_s > MUCH_LONGER * LIMIT_S:
        return needed_s
    return min(max(LEAST_BUDGET_S, MORE_ROUNDS * needed_s), LIMIT_S)


def in_words(least_s: float, most_s: float) -> str:
    """Format a range of durations as text, such as `about 2 min` or `2 to 7 min`."""
    least, most = (f"{limit_s:.0f} s" if limit_s < 100 else f"{limit_s / 60:.0f} min" for limit_s in (least_s, most_s))
    return f"about {most}" if most_s < 1.3 * least_s or most == least else f"{least} to {most}"


def say_how_long(
    plan: Plan, expectations: Expectations, watcher: ProgressListener, *, most_s: float = math.inf
) -> None:
    """Announce how long the run will take, and warn about tasks that take too long for the given time.

    Args:
        most_s: the time budget of a run whose number of rounds is not fixed.
    """
    _warn_of_long_tasks(plan, expectations, watcher)
    if plan.load.requests is not None:
        return
    rounds = LEAST_ROUNDS if most_s < math.inf else plan.rounds
    shortest_s, longest_s = run_length_s(plan, usable_cpus(), expectations, rounds)
    if most_s < math.inf:
        about = in_words(shortest_s, min(longest_s, most_s))
        cases = "1 case takes" if len(plan.cases) == 1 else f"{len(plan.cases)} cases take"
        watcher.say(f"{cases} {about}; close or unclear cases get more rounds, up to {most_s:.0f} s in total")
        return
    sieges = "1 siege takes" if plan.turns() == 1 else f"{plan.turns()} sieges take"
    watcher.say(f"{sieges} {in_words(shortest_s, longest_s)}")


def _warn_of_long_tasks(plan: Plan, expectations: Expectations, watcher: ProgressListener) -> None:
    """Warn about each job for which the given time is too short, or whose users wait long for their first response."""
    needed_s = {case: most_needed_s(case.users, expectations[case.work]) for case in plan.cases}
    slowest = {case.job: case for case in sorted(plan.cases, key=needed_s.__getitem__)}
    for case in slowest.values():
        what, task_s, time_s = case.task or plan.load_of(case).path, expectations[case.work].task_s, plan.load.time_s
        if time_s is not None and time_s < needed_s[case]:
            watcher.warn(
                f"--time {time_s:g}s is too short for {what} with {case.users} users: "
                f"use --time auto, or {math.ceil(needed_s[case])}s or more"
            )
        elif time_s is None and not plan.suite.has_task and task_s > 1 and case.users * task_s > LONG_S:
            users = max(1, round(LONG_S / task_s * usable_cpus() / 2))
            watcher.warn(
                f"one response of {what} takes {task_s:.0f} s; if a server handles one request at a "
                f"time, {case.users} users wait {case.users * task_s:.0f} s: use --users {users}"
            )
