"""The plan of a run: frozen values that are checked before anything starts."""

import itertools
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import psutil

from common.errors import BadInputError
from common.server_contract import remedy, unmet
from under_siege.model.case import Case, Value, case_of
from under_siege.model.record import LeftOut, Record
from under_siege.model.suite import Load, Suite, Target, WarmUp, filled
from under_siege.targets.expectation import Expectation, Expectations
from under_siege.targets.interpreter import Interpreter, distinct, interpreter, with_unique_versions
from under_siege.targets.strategies import all_strategies

_NO_JOBS = "takes no jobs"
MOST_POINTS = 10_000  # on all axes together


@dataclass(frozen=True, slots=True)
class Plan:
    """Every case, what is sent to it, and how often they all take their turn."""

    targets: Mapping[str, Target]  # by the name that a case calls it by
    pythons: Mapping[str, Interpreter]  # by version
    cases: tuple[Case, ...]
    ceilings: tuple[Case, ...]  # the same load with nothing in its way; none where the suite names no ceiling
    suite: Suite
    load: Load
    rounds: int
    seed: int
    left_out: tuple[LeftOut, ...] = ()  # what can't run with the Pythons at hand
    # By requirements and version of the Python: the folder of the virtual environment, or why there is none
    environments: Mapping[tuple[tuple[str, ...], str], Path | str] = field(default_factory=dict)
    unprepared: Mapping[Case, str] = field(default_factory=dict)  # what could not be prepared, and why

    def in_order(self) -> Iterator[list[Case]]:
        """Yield the cases of each round, ceilings included, in an order that is shuffled for each round."""
        order = random.Random(self.seed)  # noqa: S311 (not for secrets)
        everything = [*self.ceilings, *self.cases]
        for _ in range(self.rounds):
            yield order.sample(everything, len(everything))

    def among(self, cases: Sequence[Case], wanted: Collection[Case]) -> list[Case]:
        """Return those of the cases that are wanted, and their ceilings."""
        needed = {one for one in self.ceilings for case in wanted if one.covers(case)}
        return [case for case in cases if case in needed or case in wanted]

    def python_of(self, case: Case) -> Interpreter:
        """Return the Python that serves, or the first one if that does not matter to the target."""
        return self.pythons.get(case.python) or next(iter(self.pythons.values()))

    def load_of(self, case: Case) -> Load:
        """Return what is sent in this case."""
        path = filled(str(case.get("path") or self.load.path), {"task": case.task})
        keep_alive = case.get("keep_alive")
        return replace(
            self.load, path=path, keep_alive=self.load.keep_alive if keep_alive is None else keep_alive == "on"
        )

    def warm_up_of(self, case: Case) -> Load | None:
        """Return the load of the warm-up, which does not count; None if there is none."""
        wanted = self.targets[case.server].warm_up or self.load.warm_up
        if wanted is None or wanted == WarmUp():
            return None
        return replace(self.load_of(case), requests=wanted.requests, time_s=wanted.time_s)

    def headers_of(self, case: Case) -> tuple[tuple[str, str], ...]:
        """Return the headers that each right answer must have."""
        values = dict(case.values)
        return tuple((name, filled(text, values)) for name, text in self.targets[case.server].headers)

    def expected_of(self, case: Case, expectations: Expectations) -> Expectation:
        """Return the right answer in this case, with the headers that its server has to send."""
        return replace(expectations[case.work], headers=self.headers_of(case))

    def turns(self) -> int:
        """Return the maximum number of measurements."""
        return self.rounds * (len(self.ceilings) + len(self.cases))


def make_plan(
    suite: Suite, axes: Mapping[str, Sequence[Value]], *, time_s: float | None, rounds: int, seed: int | None = None
) -> Plan:
    """Return the plan for the targets of a suite at every value of every axis (`python`: paths of interpreters).

    Args:
        axes: values that are asked for instead of the suite's own, where there are any.
        time_s: how long each load lasts; None: as the suite says.

    Raises:
        BadInputError: there is no such Python, or no target that can run with it or depends on an axis.
    """
    given = {name: values for name, values in axes.items() if values}
    _refuse_unused(suite, given)
    axes = {**suite.axes, **given}
    pythons = with_unique_versions(distinct([interpreter(str(path)) for path in dict.fromkeys(axes["python"])]))
    targets = _named_apart(suite)
    left_out = tuple(
        LeftOut(target.name, target.title, python.version, why)
        for target, python in itertools.product(targets, pythons)
        if (why := cannot_run(target, python) or _NO_JOBS * (suite.load.posts_jobs and not target.takes_jobs))
    )
    known = {**axes, "python": [python.version for python in pythons]}
    lacking = {(one.server, one.python) for one in left_out}
    cases = tuple(case for case in _points(targets, known) if (case.server, case.python) not in lacking)
    if not cases:
        raise BadInputError(_why_none(left_out))
    ceiling = [suite.ceiling] if suite.ceiling else []
    ceilings = dict.fromkeys(case.for_target(one.name, one.axes) for one in ceiling for case in cases)
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


def _why_none(left_out: Sequence[LeftOut]) -> str:
    """Return why no case is left, and what to try in place of servers that take no jobs."""
    why = "; ".join(f"{one.server} {one.reason}" for one in left_out)
    if all(one.reason != _NO_JOBS for one in left_out):
        return why
    names = " or ".join(one.name for one in all_strategies() if one.takes_jobs)
    return f"{why}: expected {names}, or your own, whose script names JOBS"


def _refuse_unused(suite: Suite, axes: Mapping[str, Sequence[Value]]) -> None:
    """Raise BadInputError for an axis that no target depends on; strategies always accept workers."""
    used = {name for target in suite.targets for name in target.axes} | {"users"}
    for name in axes:
        if suite.title and name not in used and name != "python":
            known = ", ".join(f"--{name}" for name in ("task", "users", "workers", "python") if name in used)
            raise BadInputError(
                f"no server of {suite.source or suite.title!r} depends on --{name}: expected one of {known}"
            )


def _points(targets: Sequence[Target], axes: Mapping[str, Sequence[Value]]) -> list[Case]:
    """Return each target at every value of the axes that it depends on, once."""
    given = {name: values for name, values in axes.items() if values}
    if (many := math.prod(map(len, given.values()))) > MOST_POINTS:
        raise BadInputError(f"all axes together have {many:,} points: expected no more than {MOST_POINTS:,}")
    points = [_at_its_path(dict(zip(given, values, strict=True))) for values in itertools.product(*given.values())]
    cases = [case_of(target.name, point).for_target(target.name, target.axes) for target in targets for point in points]
    return list(dict.fromkeys(cases))


def _at_its_path(point: dict[str, Value]) -> dict[str, Value]:
    """Fill in the values in the path, except for the task, which is shown separately."""
    others = {name: value for name, value in point.items() if name != "task"}
    return point | ({"path": filled(str(point["path"]), others)} if "path" in point else {})


def _named_apart(suite: Suite) -> list[Target]:
    """Return the targets with as many directories before a name as make it unique, also among ceilings."""
    if any(one.path is None for one in suite.targets):
        return list(suite.targets)  # the servers of a suite have names that differ
    paths = {one: one.path.with_suffix("").as_posix() for one in suite.targets if one.path}
    taken = [f"/{suite.ceiling.name}"] if suite.ceiling else []
    return [
        replace(one, name=_least_name(path, [*taken, *(other for other in paths.values() if other != path)]))
        for one, path in paths.items()
    ]


def _least_name(path: str, others: list[str]) -> str:
    parts = path.split("/")
    names = ("/".join(parts[-count:]) for count in range(1, len(parts)))
    return next((name for name in names if not any(other.endswith(f"/{name}") for other in others)), path)


def cannot_run(target: Target, python: Interpreter) -> str:
    """Return why the target can't run with that Python, and what to do about it; empty if it can."""
    lacking = unmet(target.requires, python.minor)
    return f"{lacking}: {remedy(target.requires)}" if lacking else ""


def new_record(plan: Plan, case: Case, time_s: float, round_: int) -> Record:
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
        round=round_,
        time_s=time_s,
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=psutil.getloadavg()[0],
    )


class ProgressListener(Protocol):
    """Shows it to somebody, or not."""

    def warn(self, message: str) -> None:
        """Warn about something that makes the result worse than it could be."""

    def say(self, message: str) -> None:
        """Report something that is good to know."""

    def case_begins(self, what: str, time_s: float) -> None:
        """Report that a server is about to be started, and how long it will be under load."""

    def answer_came(self) -> None:
        """Report that the load tool got an answer."""

    def case_ends(self) -> None:
        """Report that the case is measured and its server is gone."""
