"""Define the plan of a run, and check the plan and its requirements before anything starts."""

import itertools
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

from common.errors import BadInputError
from under_siege.host.cpu_division import server_cpus
from under_siege.host.docker_run import container_command
from under_siege.host.interpreter import (
    OLDEST_PYTHON,
    OLDEST_USER_PYTHON,
    Interpreter,
    distinct,
    interpreter,
    with_unique_versions,
)
from under_siege.host.limits import LIMITS, Limits, limit_values
from under_siege.host.programs import remedy, unmet
from under_siege.judge.requirement_check import check_requirements
from under_siege.judge.stopping_rule import MOST_ROUNDS
from under_siege.judge.worker_search import candidates
from under_siege.load.request import Load, WarmUp, filled, filled_all, parse_pause, parse_rate_per_s
from under_siege.measure.axis_values import AxisValue, points, shown_values
from under_siege.paths import PROGRAM
from under_siege.record.case import (
    ARRIVALS,
    AUTO,
    PACES,
    PAUSE,
    REVISION,
    SEARCHABLE,
    THREADS,
    WORKERS,
    Case,
    Value,
    case_of,
    load_axes,
)
from under_siege.record.record import Record
from under_siege.record.result import SkippedServer
from under_siege.secrets import expanded_path
from under_siege.suite.expected_response import Expectation, Expectations
from under_siege.suite.requests import pace_values
from under_siege.suite.server_files import all_strategies
from under_siege.suite.suite import Suite, Target

_NO_JOBS = "accepts no jobs"
ARRIVALS_OF_A_CYCLE = 20  # a siege lasts for several times as many arrivals, so that its percentiles are stable


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
    searched: tuple[str, ...] = ()  # axes whose best value is searched; the cases have all candidates
    left_out: tuple[SkippedServer, ...] = ()  # servers that can't run with a Python version, or accept no jobs
    references: tuple[Case, ...] = ()  # cases that only give the expected responses
    # The directory of each virtual environment, or the reason why there is none.
    environments: Mapping[EnvironmentKey, Path | str] = field(default_factory=dict)
    unprepared: Mapping[Case, str] = field(default_factory=dict)  # why a case could not be prepared
    users_choice: str = ""  # the number of users and why it was chosen, unless it is the default or was given
    secrets: Mapping[AxisValue, Value] = field(default_factory=dict)  # by the masked value of a case

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
        return tuple(filled_all(self.targets[case.server].additions, self.values_of(case)))

    def requirements_of(self, case: Case) -> tuple[str, ...]:
        return tuple(filled_all(self.targets[case.server].requirements, self.values_of(case)))

    def folder_of(self, case: Case) -> Path | None:
        """Return the working directory of a case's commands, or None for that of the bench."""
        return self.suite.revisions.get(str(case.get(REVISION)), self.suite.folder)

    def environment_of(self, case: Case) -> EnvironmentKey:
        folder = self.folder_of(case) if self.targets[case.server].requirements else None
        return EnvironmentKey(self.requirements_of(case), self.additions_of(case), self.python_of(case).version, folder)

    def values_of(self, case: Case) -> dict[str, Value]:
        """Return the values of a case with their secrets, which the case itself masks."""
        return {name: self.secrets.get((name, value), value) for name, value in case.values}

    def load_of(self, case: Case) -> Load:
        path = str(self.values_of(case).get("path") or self.load.path)
        path = expanded_path(filled(path, {"task": case.task}), "load.path")
        setting = case.get("keep_alive")
        return replace(
            self.load,
            path=path,
            keep_alive=self.load.keep_alive if setting is None else setting == "on",
            pause=parse_pause(str(case.get(PAUSE))),
            arrivals_per_s=parse_rate_per_s(str(case.get(ARRIVALS))),
        )

    def warm_up_of(self, case: Case) -> Load | None:
        """Return the load of the warm-up, which is not measured, or None if there is no warm-up."""
        warm_up = self.targets[case.server].warm_up or self.load.warm_up or WarmUp()
        if warm_up == WarmUp():
            return None
        return replace(self.load_of(case), requests=warm_up.requests, time_s=warm_up.time_s)

    def expected_of(self, case: Case, expectations: Expectations) -> Expectation:
        """Return the expected response of this case, including the required headers."""
        values = self.values_of(case)
        headers = tuple((name, filled(text, values)) for name, text in self.targets[case.server].headers)
        expected = expectations[case.work]
        slower = 1 / min(1.0, Limits.of(case).cpus or 1.0)  # a quota below one CPU slows the task itself
        return replace(
            expected,
            task_s=expected.task_s + (slower - 1) * expected.cpu_s,
            cpu_s=slower * expected.cpu_s,
            headers=headers,
            request=self.load.request,
            of_a_job=self.load.posts_jobs,
            stream=expected.stream or self.load.stream,
            cycle_s=_cycle_s(self.load_of(case)),
        )

    def can_be_screened(self) -> bool:
        """Return whether a short first round can show which cases need more rounds.

        The user must not have set the length of sieges, and cases must compete. If jobs are queued, a siege shows only
        how fast they are accepted.
        """
        is_given = self.load.time_s is not None or self.load.requests is not None
        loads = [case.on(load_axes(self.cases)) for case in self.cases]
        has_competitors = len(set(loads)) < len(loads)
        return has_competitors and not (is_given or self.searched or self.load.posts_jobs or self.suite.backlog)

    def shares_cpus(self) -> bool:
        """Return whether a server may run where the bench can't choose its CPUs, so that the load must share them.

        Such a server is already running, or its command starts it in a container or at its own address.
        """
        servers = [target for target in self.targets.values() if not target.has_no_server]
        return any(not each.command or each.url or container_command(each.command) for each in servers)

    def turns(self) -> int:
        """Return the maximum number of measurements."""
        return self.rounds * (len(self.ceilings) + len(self.cases))


def _cycle_s(load: Load) -> float:
    """Return how many seconds of a load, besides the response, a siege needs for a user's cycle: its pause."""
    if load.arrivals_per_s is not None:
        return ARRIVALS_OF_A_CYCLE / load.arrivals_per_s
    return load.pause.mean_s if load.pause else 0.0


def make_plan(
    suite: Suite,
    axes: Mapping[str, Sequence[Value]],
    *,
    time_s: float | None,
    rounds: int | None,
    seed: int | None = None,
    is_paced: bool = False,
) -> Plan:
    """Return a plan that measures each target of a suite with every combination of the values of its axes.

    Args:
        axes: values that replace those of the suite; for `python`, the paths of interpreters.
        time_s: duration of each load, or None for that of the suite.
        rounds: None if the run decides when to end; then, the value on an axis may be AUTO.
        is_paced: whether a load tool sends the requests, so that it can pause or keep a rate.

    Raises:
        BadInputError: a Python does not exist, no target can run, an axis is unused, or a requirement is invalid.
    """
    given = _given(axes)
    axes = {"python": (sys.executable,), **suite.axes, **given}
    suite, axes = _with_pace(_with_limits(_refuse_unused(suite, given), axes), axes, given, is_paced=is_paced)
    searched = _searched(suite, axes, may_search=rounds is None)
    pythons = _pythons(suite, axes["python"])
    targets = _with_unique_names(suite)
    left_out = _left_out(suite, targets, pythons)
    axes = {**axes, **searched, "python": [python.version for python in pythons]}
    shown = shown_values(targets, axes)
    cases = _cases(targets, points(axes), left_out, shown, given)
    references = [] if suite.reference is None else [suite.reference]
    return Plan(
        targets={target.name: target for target in (*references, *targets, *filter(None, [suite.ceiling]))},
        pythons={python.version: python for python in pythons},
        cases=cases,
        ceilings=_ceilings(suite, cases),
        suite=suite,
        load=suite.load if time_s is None else replace(suite.load, time_s=time_s, requests=None),
        rounds=MOST_ROUNDS if rounds is None else rounds,
        seed=random.randrange(2**32) if seed is None else seed,  # noqa: S311
        searched=tuple(searched),
        left_out=left_out,
        references=tuple(_cases(references, points(axes), left_out, shown, {})) if references else (),
        secrets={(name, text): value for (name, value), text in shown.items()},
    )


def _ceilings(suite: Suite, cases: Sequence[Case]) -> tuple[Case, ...]:
    if suite.ceiling is None:
        return ()
    return tuple(dict.fromkeys(case.for_target(suite.ceiling.name, suite.ceiling.axes) for case in cases))


def _searched(suite: Suite, axes: Mapping[str, Sequence[Value]], *, may_search: bool) -> dict[str, tuple[int, ...]]:
    """Return the candidates on each axis whose best value is searched; threads are searched together with workers."""
    searched = [name for name in SEARCHABLE if AUTO in axes.get(name, ())]
    if not searched:
        return {}
    where = f"axes.{searched[0]} =" if AUTO in suite.axes.get(searched[0], ()) else f"--{searched[0]}"
    if not may_search:
        raise BadInputError(f"{where} {AUTO}: only {PROGRAM} run without --rounds and --against searches; use a number")
    if mixed := next((name for name in searched if len(axes[name]) > 1), None):
        raise BadInputError(f"--{mixed}: expected either {AUTO} or numbers")
    if suite.application and THREADS in axes and WORKERS in searched:
        searched = [*SEARCHABLE]
    return {name: candidates(name, server_cpus()) for name in searched}


def _given(axes: Mapping[str, Sequence[Value]]) -> dict[str, Sequence[Value]]:
    given = {name: values for name, values in axes.items() if values}
    given |= {name: limit_values(name, given[name], f"--{name}") for name in LIMITS if name in given}
    return given | {name: pace_values(name, given[name], f"--{name}") for name in PACES if name in given}


def _with_pace(
    suite: Suite, axes: Mapping[str, Sequence[Value]], given: Collection[str], *, is_paced: bool
) -> tuple[Suite, dict[str, Sequence[Value]]]:
    """Return the suite, whose targets also depend on pauses and arrivals, and the axes.

    The ceiling without a server has no pauses, because it is the highest possible rate of the machine.

    Raises:
        BadInputError: arrivals are combined with users or pauses.
    """
    names = [name for name in PACES if name in axes] if is_paced else []
    axes = {name: values for name, values in axes.items() if name in names or name not in PACES}
    if ARRIVALS in names:
        if other := next((name for name in ("users", PAUSE) if name in (given if name == "users" else names)), None):
            raise BadInputError(f"--{ARRIVALS} replaces users and pauses: remove --{other}, or the key of the suite")
        axes = {name: values for name, values in axes.items() if name != "users"}
    targets = tuple(replace(target, axes=(*target.axes, *names)) for target in suite.targets)
    ceiling = suite.ceiling
    if ceiling and not ceiling.has_no_server:
        ceiling = replace(ceiling, axes=(*ceiling.axes, *names))
    elif ARRIVALS in names:
        ceiling = None  # it is measured with users
    return replace(suite, targets=targets, ceiling=ceiling), axes


def _with_limits(suite: Suite, axes: Collection[str]) -> Suite:
    """Return the suite, whose targets also depend on those axes that are limits; raise BadInputError if one can't."""
    names = [name for name in LIMITS if name in axes]
    if running := [target.name for target in suite.targets if names and not target.command]:
        raise BadInputError(
            f"--{names[0]}: {running[0]} is already running and can't be limited; name its command instead"
        )
    commands = {target.name: container_command(target.command) for target in suite.targets if names}
    if containers := [(name, command.runtime) for name, command in commands.items() if command]:
        option, (name, runtime) = "--cpus 0.5" if names[0] == "cpus" else "--memory 512m", containers[0]
        how = f"set it in the command of {name}: {runtime} run {option}"
        raise BadInputError(f"--{names[0]}: a container has limits of its own; {how}")
    targets = tuple(replace(target, axes=(*target.axes, *names)) for target in suite.targets)
    ceiling = suite.ceiling
    if ceiling is not None:  # users that run the task without a server need other memory than a server
        own = [name for name in names if not (ceiling.has_no_server and name == "memory")]
        ceiling = replace(ceiling, axes=(*ceiling.axes, *own))
    return replace(suite, targets=targets, ceiling=ceiling)


def _pythons(suite: Suite, paths: Sequence[Value]) -> list[Interpreter]:
    # The strategies and tasks import `common`; other servers may run on an older Python.
    oldest = OLDEST_PYTHON if suite.has_task or suite.folder is None else OLDEST_USER_PYTHON
    return with_unique_versions(distinct([interpreter(str(path), oldest) for path in dict.fromkeys(paths)]))


def _cases(
    targets: Sequence[Target],
    points: Sequence[Mapping[str, Value]],
    left_out: Sequence[SkippedServer],
    shown: Mapping[AxisValue, Value],
    given: Collection[str],
) -> tuple[Case, ...]:
    """Return the cases of all targets; a target has its default values on axes that the user did not give."""
    skipped = {(skip.server, skip.python) for skip in left_out}
    cases = (
        case_of(target.name, {name: shown.get((name, value), value) for name, value in values.items()}).without(
            set(point) - set(target.axes)
        )
        for target in targets
        for point in points
        if all(point.get(name, value) == value for name, value in target.defaults if name not in given)
        for values in [{**point, "path": target.requests_path or point.get("path", "")}]
    )
    kept = tuple(case for case in dict.fromkeys(cases) if (case.server, case.python) not in skipped)
    if not kept:
        raise BadInputError(_why_no_case(left_out))
    return kept


def _left_out(suite: Suite, targets: Sequence[Target], pythons: Sequence[Interpreter]) -> tuple[SkippedServer, ...]:
    return tuple(
        SkippedServer(target.name, target.title, python.version, reason)
        for target, python in itertools.product(targets, pythons)
        if (reason := _why_left_out(suite, target, python))
    )


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


def _refuse_unused(suite: Suite, axes: Mapping[str, Sequence[Value]]) -> Suite:
    """Return the suite; raise BadInputError for an invalid requirement, or an axis on which no target depends."""
    check_requirements(suite)
    used = {name for target in suite.targets for name in target.axes} | {"users", *LIMITS, *PACES}
    for name in axes:
        if suite.title and name not in used and name != "python":
            options = ", ".join(
                f"--{option}" for option in ("task", "users", "workers", "python", *LIMITS) if option in used
            )
            raise BadInputError(
                f"no server of {suite.source or suite.title!r} depends on --{name}; use one of {options}"
            )
    return suite


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
        kind=plan.targets[case.server].kind,
        has_task=plan.suite.has_task,
        workers=None if workers is None else int(workers),
        round=case_round,
        time_s=time_s,
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=psutil.getloadavg()[0],
    )
