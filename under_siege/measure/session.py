"""Run a plan: prepare the environments, measure, and save the result after every case."""

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from common.errors import BadInputError
from under_siege.formatting import listed
from under_siege.host.cpu_division import CpuDivision, current_division, dividing_cpus
from under_siege.host.limit_check import limits_allowed
from under_siege.host.limits import Limits
from under_siege.host.machine import describe_environment
from under_siege.host.managed_process import until_signal
from under_siege.host.ports import own_network
from under_siege.host.programs import Tool, check, tool_in
from under_siege.host.readiness import OtherWork, examine, in_one_line
from under_siege.host.services import Services, services
from under_siege.host.supervisor_client import current_supervisor
from under_siege.load import DRIVERS
from under_siege.load.request import CLIENT, OPEN
from under_siege.load.siege import Siege
from under_siege.load.tool import Driver, LoadSpec
from under_siege.load.wrk import Wrk
from under_siege.measure.case_run import CaseRun, run
from under_siege.measure.duration import say_how_long
from under_siege.measure.plan import Plan, ProgressListener
from under_siege.measure.prepare import expectations_of, package_versions, prepared, with_environments
from under_siege.measure.racing import Decide, Race
from under_siege.measure.server import Server
from under_siege.measure.server_command import set_aside
from under_siege.paths import PROGRAM, environment_variable
from under_siege.record.case import Case
from under_siege.record.files import UnwritableError
from under_siege.record.record import Incident, PacedRun, Profile, RateStep, Record, Trace
from under_siege.record.result import MeasuredSuite, Result, made_legible, save
from under_siege.suite.expected_response import Expectations
from under_siege.suite.suite import Suite

LONGEST_FOLDER = 70  # characters; Linux limits socket paths to 107, and file names take about 30
LOOK_AROUND_S = 0.3  # how long to observe the CPUs before a run
Meanwhile = Callable[[], object]
Kept = Record | Trace | Profile | Incident | RateStep | PacedRun
Keep = Callable[[Kept], None]


class Tracer(Protocol):
    """Trace or profile each case once, usually on the server of its last siege."""

    async def after_siege(self, case_run: CaseRun, server: Server) -> None:
        """Trace the case whose siege has just ended, while its server is still running."""

    async def trace_remaining(self, services: Services, watcher: ProgressListener) -> None:
        """Trace all other cases, each on a separate server."""


MakeTracer = Callable[[Plan, Tool, Expectations, Keep], Tracer]


def run_plan(
    plan: Plan,
    out: Path | None,
    watcher: ProgressListener,
    command: Sequence[str],
    decide: Decide | None = None,
    make_tracers: Sequence[MakeTracer] = (),
    meanwhile: Meanwhile | None = None,
    adapted: Callable[[Plan, Expectations], Plan] | None = None,
    afterwards: Callable[[Plan, Tool, Result, Expectations, Services, Keep], Awaitable[None]] | None = None,
    *,
    limits_s: tuple[float, float] = (math.inf, math.inf),
) -> tuple[Result, int | None, bool]:
    """Run the plan and write the file after every case. A plan without rounds is only traced.

    `decide` returns the cases that need another round, or is None if every round measures all cases; `limits_s` are the
    time limits of `Race`. `adapted` changes the plan after the expected responses are known; `afterwards` measures more
    after the last round.

    Return the result, the signal that stopped the run, if any, and whether the file contains the whole result.

    Raises:
        BadInputError: the load tool can't generate the load, or the expected responses can't be determined.
    """
    division = current_division(is_shared=plan.shares_cpus())
    result = _empty_result(plan, division, command, until_certain=decide is not None)
    file = ResultWriter(result, plan, out, watcher)

    async def go(home: Path) -> None:
        others, tool = OtherWork(), await _load_tool(plan, home, result, watcher)
        async with _prepared(plan, result, watcher, meanwhile) as (ready, expectations, needed):
            ready = adapted(ready, expectations) if adapted else ready
            result.users_choice = made_legible(ready.users_choice)
            if ready.users_choice:
                watcher.say(f"users: {ready.users_choice}")
            await _look_around(ready, others, watcher)
            tracers = [make(ready, tool, expectations, file.keep) for make in make_tracers]
            if ready.rounds:
                say_how_long(ready, expectations, watcher, most_s=limits_s[0])
                race = Race(decide, ready.among, watcher.say, limits_s=limits_s) if decide else None
                choose = partial(_chosen, ready, race, result)
                after_siege = [tracer.after_siege for tracer in tracers]
                await run(
                    ready,
                    tool,
                    expectations,
                    needed,
                    watcher,
                    file.keep,
                    choose,
                    after_siege,
                    screens=race is not None and ready.can_be_screened(),
                )
            if afterwards:
                await afterwards(ready, tool, result, expectations, needed, file.keep)
            for tracer in tracers:
                await tracer.trace_remaining(needed, watcher)

    with dividing_cpus(division), _limits_allowed(plan), _home() as home:
        return result, until_signal(go(home)), file.is_complete


async def _look_around(plan: Plan, others: OtherWork, watcher: ProgressListener) -> None:
    if findings := await asyncio.to_thread(examine, LOOK_AROUND_S, plan.load.tool, others):
        watcher.warn(in_one_line(findings))


def run_and_save(
    plan: Plan,
    out: Path | None,
    watcher: ProgressListener,
    command: Sequence[str],
    work: Callable[[Plan, Result, Expectations, Services, Keep], Awaitable[None]],
    meanwhile: Meanwhile | None = None,
) -> tuple[Result, int | None, bool]:
    """Run the work, which needs no load tool, until it is done or a signal arrives; save its results if `out` is given.

    Returns:
        The same as `run_plan`.
    Raises:
        BadInputError: the expected responses can't be determined.
    """
    division = current_division(is_shared=plan.shares_cpus())
    result = _empty_result(plan, division, command)
    file = ResultWriter(result, plan, out, watcher)

    async def go() -> None:
        async with _prepared(plan, result, watcher, meanwhile) as (ready, expectations, needed):
            await work(ready, result, expectations, needed, file.keep)

    with dividing_cpus(division), _limits_allowed(plan), _home():
        return result, until_signal(go()), file.is_complete


def _limits_allowed(plan: Plan) -> contextlib.AbstractContextManager[None]:
    """Check that the limits of all cases can be enforced; see `limits_allowed`."""
    return limits_allowed({Limits.of(case) for case in (*plan.cases, *plan.ceilings)})


def _chosen(
    plan: Plan, race: Race | None, result: Result, cases: list[Case], took_s: Mapping[Case, float]
) -> list[Case]:
    """Return the cases that a round measures; the first round measures all, except in a search."""
    if race is None or not (result.records or plan.searched):
        return cases
    return race.choose(result, cases, took_s)


def _driver(plan: Plan, specs: Sequence[LoadSpec]) -> tuple[Driver, str]:
    """Return the driver of the plan's tool; if the user chose no tool, and siege can't send the load, one that can.

    Also return why another tool replaces siege, or an empty string.
    """
    driver, users = DRIVERS[plan.load.tool], max(case.users for case in plan.cases)
    refusal = next(filter(None, map(driver.refusal, specs)), "")
    if not refusal or plan.load.options or (plan.load.is_tool_given and users <= driver.most_users):
        return driver, ""
    if not isinstance(driver, Siege):
        return driver, ""
    why, others = refusal.partition("; ")[0], [DRIVERS[CLIENT], Wrk()]
    if users > driver.most_users:
        why, others = f"siege supports at most {driver.most_users:,} users", [Wrk(), DRIVERS[CLIENT]]
    other = next((each for each in others if not any(map(each.refusal, specs))), None)
    of_users = f" with {users:,} users" if users > driver.most_users else ""
    return (other, f"{why}, so this run{of_users} uses {other.described}") if other else (driver, "")


async def _load_tool(plan: Plan, home: Path, result: Result, watcher: ProgressListener) -> Tool:
    """Return the load tool, installed if needed, with `home` as its directory; add its version to the result.

    Raises:
        BadInputError: the tool can't generate this load, or can't be installed.
    """
    if plan.load.tool == OPEN:
        raise BadInputError(f'tool = "open" works only with {PROGRAM} capacity; use that command or another tool')
    loads = [(load, case.users) for case in plan.cases for load in (plan.load_of(case), plan.warm_up_of(case)) if load]
    specs = [LoadSpec.of(load, users) for load, users in loads]
    driver, choice = _driver(plan, specs)
    result.tool_choice = made_legible(choice)
    if result.tool_choice:
        watcher.warn(result.tool_choice)
    check(driver, specs, *plan.suite.right_statuses())
    tool, version = await tool_in(home, driver, watcher.warn)
    result.environment = made_legible(msgspec.structs.replace(result.environment, tools={driver.name: version}))
    return tool


class ResultWriter:
    """Save a result after each change, if there is a file for it. If the disk is full, the run continues."""

    def __init__(self, result: Result, plan: Plan, path: Path | None, watcher: ProgressListener) -> None:
        self._result = result
        self._path = path
        self._watcher = watcher
        self.is_complete = path is not None
        self._order = {traced_case(case): index for index, case in enumerate(plan.cases)}

    def keep(self, kept: Kept) -> None:
        """Add an item to the result (traces in the order of the plan) and save the result; warn once if that fails."""
        result = self._result
        lists = {Record: result.records, Trace: result.traces, Incident: result.incidents, RateStep: result.steps}
        (lists | {Profile: result.profiles, PacedRun: result.paced})[type(kept)].append(made_legible(kept))  # type: ignore[attr-defined]
        result.traces.sort(key=lambda trace: self._order.get(trace.case, len(self._order)))
        if self._path is None:
            return
        try:
            save(result, self._path)
        except UnwritableError as error:
            if self.is_complete:
                self._watcher.warn(f"{error}; the run continues, and tries to save the result after every case")
            self.is_complete = False
        else:
            self.is_complete = True


def traced_case(case: Case) -> Case:
    """Return the case without the number of users, because traces don't depend on it."""
    return case.without(["users"])


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """Create a directory for all temporary files, and always remove it.

    Killed processes leave temporary files behind, such as multiprocessing's sockets.
    """
    with TemporaryDirectory(prefix="under-siege-") as name, current_supervisor().removing(home := Path(name)):
        is_short = len(name) <= LONGEST_FOLDER
        with environment_variable("TMPDIR", name) if is_short else contextlib.nullcontext():
            yield home


def _empty_result(plan: Plan, division: CpuDivision, command: Sequence[str], *, until_certain: bool = False) -> Result:
    suite, measured_suite = plan.suite, None
    if suite.title:
        ping = suite.ping.path if suite.ping else ""
        rule = suite.expect.rule
        measured_suite = MeasuredSuite(
            title=suite.title,
            source=suite.source,
            checked=rule.checked(),
            request=suite.load.described(),
            ping=ping,
            against=next(iter(suite.revisions), ""),
            tolerance=suite.tolerance,
            choices=_choices(suite),
            route=suite.route,
        )
    result = Result(
        environment=describe_environment(plan.pythons.values(), division),
        command=list(command),
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=plan.seed,
        rounds=max(1, plan.rounds),
        until_certain=until_certain,
        left_out=list(plan.left_out),
        suite=measured_suite,
        requirements=list(suite.required),
    )
    return made_legible(result)


def _choices(suite: Suite) -> list[str]:
    """Return sentences about what was chosen for the user."""
    choices = [*suite.application.notes] if suite.application else []
    if not suite.keep_environment and (names := set_aside(os.environ, suite.folder)):
        option = "--keep-environment" if suite.application else "keep_environment = true in the suite"
        choices.append(f"{listed(names)} set aside; use {option} to measure with {'it' if len(names) == 1 else 'them'}")
    return choices


def _note_rule(plan: Plan, expectations: Expectations, result: Result) -> None:
    """Note how bodies are compared, if this depends on the responses."""
    if plan.suite.finds_rule and result.suite:
        checked = next(filter(None, (each.rule.checked() for each in expectations.values())), "")
        result.suite = made_legible(msgspec.structs.replace(result.suite, checked=checked))


@contextlib.asynccontextmanager
async def _prepared(
    plan: Plan, result: Result, watcher: ProgressListener, meanwhile: Meanwhile | None
) -> AsyncIterator[tuple[Plan, Expectations, Services]]:
    """Prepare the plan; yield it with the expected responses and the services.

    Package versions are added to the result. If the load needs its own network, the body of the context runs in it.
    """
    with contextlib.ExitStack() as network:
        async with services() as needed:
            ready = await prepared(await with_environments(plan, watcher), watcher)
            result.left_out = list(ready.left_out)
            if plan.load.own_network:
                network.enter_context(own_network(watcher.warn, plan.load.ports))
            in_background = asyncio.to_thread(meanwhile) if meanwhile else asyncio.sleep(0)
            versions, expectations, _ = await asyncio.gather(
                package_versions(ready), expectations_of(ready, needed, watcher), in_background
            )
            result.environment = made_legible(msgspec.structs.replace(result.environment, packages_of=versions))
            _note_rule(ready, expectations, result)
            yield ready, expectations, needed
            _note_rule(ready, expectations, result)  # a process may have returned another order of keys
