"""Prepare a run and its load tool, and save what each case gives."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from common.errors import BadInputError
from under_siege.formatting import listed
from under_siege.host.cpu_division import CpuDivision, current_division, dividing_cpus
from under_siege.host.limit_check import limits_allowed
from under_siege.host.limits import Limits
from under_siege.host.machine import describe_environment
from under_siege.host.machine_check import OtherWork, examine, in_one_line
from under_siege.host.managed_process import until_signal
from under_siege.host.ports import check_loopback, own_network
from under_siege.host.programs import Tool, check, is_installed, tool_in
from under_siege.host.services import Services, services
from under_siege.host.supervisor_client import current_supervisor
from under_siege.load import DRIVERS
from under_siege.load.request import CLIENT, OPEN
from under_siege.load.siege import Siege
from under_siege.load.tool import Driver, LoadSpec
from under_siege.load.wrk import Wrk
from under_siege.measure.plan import Plan, ProgressListener
from under_siege.measure.prepare import expectations_of, package_versions, prepared, with_environments
from under_siege.measure.server_command import overridden, set_aside
from under_siege.paths import PROGRAM, environment_variable
from under_siege.record.case import Case
from under_siege.record.files import UnwritableError
from under_siege.record.result import (
    GrowingFile,
    Item,
    Items,
    MeasuredSuite,
    PlannedCase,
    Result,
    made_legible,
    save,
)
from under_siege.suite.expected_response import Expectation, Expectations
from under_siege.suite.suite import Suite

LONGEST_FOLDER = 70  # characters; Linux limits socket paths to 107, and file names take about 30
LOOK_AROUND_S = 0.3  # how long to observe the CPUs before a run
Keep = Callable[[Item], None]


@dataclass(frozen=True, slots=True)
class Reporting:
    """Where a run reports its progress and its result."""

    out: Path | None  # the file of the result, or None if it is not saved
    watcher: ProgressListener
    command: Sequence[str]  # the words with which the user called the program
    meanwhile: Callable[[], object] | None = None  # runs in a thread beside the preparations


@dataclass(frozen=True, slots=True)
class Session:
    """A run in progress: what it measures, what it needs, and where its results go."""

    plan: Plan
    expectations: Expectations
    services: Services
    watcher: ProgressListener
    result: Result
    keep: Keep  # adds to the result, and saves it
    of_tool: Tool | None = None

    @property
    def tool(self) -> Tool:
        """Return the load tool, which only a session that needs it has."""
        assert self.of_tool is not None
        return self.of_tool

    def with_plan(self, plan: Plan) -> "Session":
        """Return the session with another plan."""
        return replace(self, plan=plan)

    def expected_of(self, case: Case) -> Expectation:
        """Return the expected response of a case."""
        return self.plan.expected_of(case, self.expectations)


def run_session(
    plan: Plan,
    reporting: Reporting,
    work: Callable[[Session], Awaitable[None]],
    *,
    needs_tool: bool = False,
    until_certain: bool = False,
) -> tuple[Result, int | None, bool]:
    """Prepare the plan, and do the work until it is done or a signal arrives; save its results if there is a file.

    Args:
        needs_tool: whether the work needs the load tool of the plan.
        until_certain: whether the work decides about its number of rounds.

    Returns:
        The result, the signal that stopped the run, if any, and whether the file contains the whole result.

    Raises:
        BadInputError: the load tool can't generate the load, the expected responses can't be determined, or the
            network interface lo is down.
    """
    check_loopback()
    division = current_division(is_shared=plan.shares_cpus())
    result = _empty_result(plan, division, reporting.command, until_certain=until_certain)
    file, watcher = ResultWriter(result, plan, reporting.out, reporting.watcher), reporting.watcher

    async def go(home: Path) -> None:
        others = OtherWork()
        tool = await _load_tool(plan, home, result, watcher) if needs_tool else None
        async with _prepared(plan, result, reporting) as (ready, expectations, needed):
            if tool is not None and (
                findings := await asyncio.to_thread(examine, LOOK_AROUND_S, ready.load.tool, others)
            ):
                watcher.warn(in_one_line(findings))
            await work(Session(ready, expectations, needed, watcher, result, file.keep, tool))

    with dividing_cpus(division), _limits_allowed(plan), _home() as home:
        stopped_by = until_signal(go(home))
        file.finish(is_interrupted=stopped_by is not None)
        return result, stopped_by, file.is_complete


def _limits_allowed(plan: Plan) -> contextlib.AbstractContextManager[None]:
    """Check that the limits of all cases can be enforced; see `limits_allowed`."""
    return limits_allowed({Limits.of(case) for case in (*plan.cases, *plan.ceilings)})


def _driver(plan: Plan, specs: Sequence[LoadSpec]) -> tuple[Driver, str]:
    """Return the driver of the plan's tool; if the user chose no tool, and siege can't send the load, one that can.

    Also return why another tool replaces siege, or an empty string.
    """
    driver, users = DRIVERS[plan.load.tool], max(case.users for case in plan.cases)
    refusal = next(filter(None, map(driver.refusal, specs)), "")
    if isinstance(driver, Siege) and not plan.load.is_tool_given and not is_installed(driver):
        refusal = "siege is not installed"
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
    specs = [LoadSpec(load, users, time_s=0.0, url=load.path) for load, users in loads]
    driver, choice = _driver(plan, specs)
    result.tool_choice = made_legible(choice)
    if result.tool_choice:
        watcher.warn(result.tool_choice)
    check(driver, specs, *plan.suite.right_statuses())
    tool, version = await tool_in(home, driver, watcher.warn)
    result.environment = made_legible(msgspec.structs.replace(result.environment, tools={driver.name: version}))
    return tool


class ResultWriter:
    """Save each item of a result at once, if there is a file for it. If the disk is full, the run continues."""

    def __init__(self, result: Result, plan: Plan, path: Path | None, watcher: ProgressListener) -> None:
        self._result = result
        self._path = path
        self._growing = GrowingFile(path) if path else None
        self._watcher = watcher
        self.is_complete = path is not None
        self._is_begun = False  # whether there is anything to save
        self._order = {traced_case(case): index for index, case in enumerate(plan.cases)}

    def keep(self, kept: Item) -> None:
        """Add an item to the result, and save it; warn once if that fails."""
        added = Items.of(made_legible(kept))
        added.add_to(self._result)
        self._is_begun = True
        try:
            if self._growing is not None:
                self._growing.save(self._result, added)
                self.is_complete = True
        except UnwritableError as error:
            if self.is_complete:
                self._watcher.warn(f"{error}; the run continues, and tries to save the result after every case")
            self.is_complete = False

    def finish(self, *, is_interrupted: bool) -> None:
        """Save the whole result, with traces in the order of the plan; note whether the run was interrupted."""
        self._result.traces.sort(key=lambda trace: self._order.get(trace.case, len(self._order)))
        if not is_interrupted:
            self._result.planned = []
        if self._is_begun and self._path is not None:
            with contextlib.suppress(UnwritableError):  # the file has all items, or a warning said that it has not
                save(self._result, self._path)
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
        planned=[PlannedCase(case.server, dict(case.values)) for case in plan.cases],
        suite=measured_suite,
        requirements=list(suite.required),
    )
    return made_legible(result)


def _choices(suite: Suite) -> list[str]:
    """Return sentences about what was chosen for the user."""
    choices = [*suite.application.notes] if suite.application else []
    if not suite.keep_environment and (names := set_aside(os.environ, suite.folder)):
        option = "--use-my-server-config" if suite.application else "keep_environment = true in the suite"
        choices.append(f"{listed(names)} set aside; use {option} to measure with {'it' if len(names) == 1 else 'them'}")
    lines = [line for target in suite.targets for line in overridden(suite.folder, target.command)]
    if suite.keep_environment and (shown := list(dict.fromkeys(lines))):
        choices.append(
            f"gunicorn.conf.py: {listed(shown)} had no effect, because the command that starts the server sets "
            f"{'it' if len(shown) == 1 else 'them'}; for another value, write a suite with your own command"
        )
    return choices


def _note_rule(plan: Plan, expectations: Expectations, result: Result) -> None:
    """Note how bodies are compared, if this depends on the responses."""
    if plan.suite.finds_rule and result.suite:
        checked = next(filter(None, (each.rule.checked(is_found=True) for each in expectations.values())), "")
        result.suite = made_legible(msgspec.structs.replace(result.suite, checked=checked))


@contextlib.asynccontextmanager
async def _prepared(
    plan: Plan, result: Result, reporting: Reporting
) -> AsyncIterator[tuple[Plan, Expectations, Services]]:
    """Prepare the plan; yield it with the expected responses and the services.

    Package versions are added to the result. If the load needs its own network, the body of the context runs in it.
    """
    watcher, meanwhile = reporting.watcher, reporting.meanwhile
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
