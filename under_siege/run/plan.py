"""The plan of a run: frozen values that are checked before anything starts."""

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
from common.server_contract import remedy, unmet
from under_siege.model.case import REVISION, Case, Value, case_of
from under_siege.model.record import Record, SkippedServer
from under_siege.model.suite import Load, Suite, Target, WarmUp, filled, filled_all
from under_siege.targets.expectation import Expectation, Expectations
from under_siege.targets.interpreter import Interpreter, distinct, interpreter, with_unique_versions
from under_siege.targets.strategies import all_strategies

_NO_JOBS = "takes no jobs"
MOST_POINTS = 10_000  # on all axes together


class ProgressListener(Protocol):
    """Receives the progress of a run."""

    def warn(self, message: str) -> None: ...
    def say(self, message: str) -> None: ...
    def case_begins(self, what: str, time_s: float) -> None: ...  # `time_s`: the planned duration of the load
    def answer_came(self) -> None: ...
    def case_ends(self) -> None: ...


class EnvironmentKey(NamedTuple):
    """What tells virtual environments apart."""

    requirements: tuple[str, ...]
    python: str  # version
    folder: Path | None  # what paths in the requirements are relative to


@dataclass(frozen=True, slots=True)
class Plan:
    """All cases of a run, the load of each, and the number of rounds."""

    targets: Mapping[str, Target]  # by the name that cases use
    pythons: Mapping[str, Interpreter]  # by version
    cases: tuple[Case, ...]
    ceilings: tuple[Case, ...]  # the same load without a server, or with the target that the suite names
    suite: Suite
    load: Load
    rounds: int
    seed: int
    left_out: tuple[SkippedServer, ...] = ()  # what can't run with these Pythons
    # The directory of the virtual environment, or why there is none
    environments: Mapping[EnvironmentKey, Path | str] = field(default_factory=dict)
    unprepared: Mapping[Case, str] = field(default_factory=dict)  # why each of these could not be prepared

    def in_order(self) -> Iterator[list[Case]]:
        """Yield the cases of each round, ceilings included, in an order that is shuffled for each round."""
        order = random.Random(self.seed)  # noqa: S311 (not for secrets)
        everything = [*self.ceilings, *self.cases]
        for _ in range(self.rounds):
            yield order.sample(everything, len(everything))

    def among(self, cases: Sequence[Case], wanted: Collection[Case]) -> list[Case]:
        """Return those of the cases that are wanted, and their ceilings."""
        needed = {ceiling for ceiling in self.ceilings for case in wanted if ceiling.covers(case)}
        return [case for case in cases if case in needed or case in wanted]

    def python_of(self, case: Case) -> Interpreter:
        """Return the Python that serves, or the first one if that does not matter to the target."""
        return self.pythons.get(case.python) or next(iter(self.pythons.values()))

    def requirements_of(self, case: Case) -> tuple[str, ...]:
        return tuple(filled_all(self.targets[case.server].requirements, dict(case.values)))

    def folder_of(self, case: Case) -> Path | None:
        """Return the working directory of its commands; None: that of the bench."""
        return self.suite.revisions.get(str(case.get(REVISION)), self.suite.folder)

    def environment_of(self, case: Case) -> EnvironmentKey:
        return EnvironmentKey(self.requirements_of(case), self.python_of(case).version, self.folder_of(case))

    def load_of(self, case: Case) -> Load:
        path = filled(str(case.get("path") or self.load.path), {"task": case.task})
        setting = case.get("keep_alive")
        return replace(self.load, path=path, keep_alive=self.load.keep_alive if setting is None else setting == "on")

    def warm_up_of(self, case: Case) -> Load | None:
        """Return the load of the warm-up, which is not measured; None if there is none."""
        warm_up = self.targets[case.server].warm_up or self.load.warm_up or WarmUp()
        if warm_up == WarmUp():
            return None
        return replace(self.load_of(case), requests=warm_up.requests, time_s=warm_up.time_s)

    def expected_of(self, case: Case, expectations: Expectations) -> Expectation:
        """Return the expected answer of this case, including the required headers."""
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
    """Return the plan for the targets of a suite at every value of every axis (`python`: paths of interpreters).

    Args:
        axes: the values that replace those of the suite, where there are any.
        time_s: how long each load lasts; None: as the suite says.

    Raises:
        BadInputError: there is no such Python, or no target that can run with it or depends on an axis.
    """
    given = {name: values for name, values in axes.items() if values}
    _refuse_unused(suite, given)
    axes = {"python": (sys.executable,), **suite.axes, **given}
    pythons = with_unique_versions(distinct([interpreter(str(path)) for path in dict.fromkeys(axes["python"])]))
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
    """Return why the target can't run, and what to do about it; empty if it can."""
    if lacking := unmet(target.requires, python.minor):
        return f"{lacking}; {remedy(target.requires)}"
    return _NO_JOBS if suite.load.posts_jobs and not target.takes_jobs else ""


def _why_no_case(left_out: Sequence[SkippedServer]) -> str:
    """Return why no case is left, and what to try in place of servers that take no jobs."""
    why = "; ".join(f"{skip.server} {skip.reason}" for skip in left_out)
    if all(skip.reason != _NO_JOBS for skip in left_out):
        return why
    names = " or ".join(strategy.name for strategy in all_strategies() if strategy.takes_jobs)
    return f"{why}: expected {names}, or your own, whose script names JOBS"


def _refuse_unused(suite: Suite, axes: Mapping[str, Sequence[Value]]) -> None:
    """Raise BadInputError for an axis that no target depends on; strategies always accept workers."""
    used = {name for target in suite.targets for name in target.axes} | {"users"}
    for name in axes:
        if suite.title and name not in used and name != "python":
            options = ", ".join(f"--{option}" for option in ("task", "users", "workers", "python") if option in used)
            raise BadInputError(
                f"no server of {suite.source or suite.title!r} depends on --{name}: expected one of {options}"
            )


def _points(axes: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """Return every combination of values, filled in in the path, except for the task, which is shown separately."""
    axes = {name: values for name, values in axes.items() if values}
    if (count := math.prod(map(len, axes.values()))) > MOST_POINTS:
        raise BadInputError(f"all axes together have {count:,} points: expected no more than {MOST_POINTS:,}")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if "path" in axes:
        for point in points:
            point["path"] = filled(str(point["path"]), {**point, "task": "{task}"})
    return points


def _with_unique_names(suite: Suite) -> list[Target]:
    """Return the targets with as many directories before a name as make it unique, also among ceilings."""
    if any(target.path is None for target in suite.targets):
        return list(suite.targets)  # the servers of a suite have names that differ
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
