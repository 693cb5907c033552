"""Run a plan: prepare what it needs, measure, and save the result after every case."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import aiohttp
import msgspec

from common.cpus import usable_cpus
from common.errors import BadInputError
from under_siege.environments.machine import OtherWork, describe_environment, examine, in_one_line
from under_siege.environments.services import Services, services
from under_siege.environments.tool_install import Tool, check, tool_in
from under_siege.load_tools import DRIVERS
from under_siege.load_tools.tool import Driver
from under_siege.model.case import Case
from under_siege.model.record import Incident, MeasuredSuite, RateStep, Record, Result, Trace, save
from under_siege.model.result_file import UnwritableError, made_legible
from under_siege.model.suite import OPEN, Suite
from under_siege.paths import PROGRAM, environment_variable
from under_siege.processes.managed_process import until_signal
from under_siege.processes.ports import own_network
from under_siege.processes.supervisor_client import kept
from under_siege.run.case_run import run
from under_siege.run.duration import budget_s, say_how_long
from under_siege.run.load_run import order_of
from under_siege.run.plan import Plan, ProgressListener
from under_siege.run.prepare import expectations_of, package_versions, prepared, with_environments
from under_siege.run.server import Server
from under_siege.targets.expectation import Expectations

LONGEST_FOLDER = 70  # the path of a socket has at most 104 characters on macOS, and some 30 come behind this
LOOK_AROUND_S = 0.3  # how long the CPUs are watched before a run
Wanted = Callable[[Result], Collection[Case]]
Meanwhile = Callable[[], object]
Adapted = Callable[[Plan, Expectations], Plan]
Keep = Callable[[Record | Trace | Incident | RateStep], None]


class Tracer(Protocol):
    """Trace each strategy once, mostly with the server of its last siege."""

    async def after_siege(self, case: Case, server: Server, session: aiohttp.ClientSession, record: Record) -> None:
        """Trace the case whose siege has just ended, while its server still runs."""

    async def rest(self, services: Services, watcher: ProgressListener) -> None:
        """Trace all others, each with a server of its own."""


def run_plan(
    plan: Plan,
    out: Path,
    watcher: ProgressListener,
    command: Sequence[str],
    wanted: Wanted | None = None,
    make_tracer: Callable[[Plan, Expectations, Keep], Tracer] | None = None,
    meanwhile: Meanwhile | None = None,
    adapted: Adapted | None = None,
    *,
    is_bounded: bool = False,
) -> tuple[Result, int | None, bool]:
    """Run the whole plan and write the file after every case.

    Args:
        wanted: returns which cases need another round, the most urgent first; by default all do.
        meanwhile, adapted: are called while the run is prepared; the latter may change the plan.

    Returns:
        What was measured, the number of the signal that stopped it or None, and whether the file holds all of it.
    Raises:
        BadInputError: the load tool can't make the load, or a task can't be performed.
    """
    with _home() as home:
        result = _empty_result(plan, command, until_certain=wanted is not None)
        raw = RawValues(result, plan, out, watcher)

        async def go() -> None:
            others, tool = OtherWork(), await _load_tool(plan, home, result, watcher)
            async with _prepared(plan, result, watcher, meanwhile, adapted) as (ready, expectations, needed):
                most_s = budget_s(ready, usable_cpus(), expectations) if is_bounded else math.inf
                choose = partial(_chosen, ready, wanted, result, time.monotonic() + most_s)
                await _say_what_to_expect(ready, expectations, others, watcher, most_s)
                tracer = make_tracer(ready, expectations, raw.keep) if make_tracer else None
                after = tracer.after_siege if tracer else None
                await run(ready, tool, expectations, needed, watcher, raw.keep, choose, after)
                if tracer:
                    await tracer.rest(needed, watcher)

        return result, until_signal(go()), raw.are_saved


def _chosen(
    plan: Plan,
    wanted: Wanted | None,
    result: Result,
    deadline_s: float,
    cases: list[Case],
    took_s: Mapping[Case, float],
) -> list[Case]:
    """Return the cases of a round that are wanted, with their ceilings, as far as there is time for them."""
    if wanted is None or not result.records:
        return cases
    chosen = set[Case]()
    left_s = deadline_s - time.monotonic()
    for case in wanted(result):
        more = set(plan.among(cases, [case])) - chosen
        needed_s = sum(took_s.get(one, 0.0) for one in more)
        if needed_s <= left_s:
            chosen |= more
            left_s -= needed_s
    return [case for case in cases if case in chosen]


def _driver_for(plan: Plan) -> Driver:
    """Return the driver of the load tool, if that can make this load."""
    if plan.load.tool == OPEN:
        raise BadInputError(f'tool = "open" offers rates of arrivals: expected {PROGRAM} capacity, or another tool')
    driver = DRIVERS[plan.load.tool]
    loads = [(plan.load_of(case), case.users) for case in plan.cases]
    loads += [(load, case.users) for case in plan.cases if (load := plan.warm_up_of(case))]
    check(driver, (order_of(load, users) for load, users in loads), plan.suite.expect.status)
    return driver


async def _load_tool(plan: Plan, home: Path, result: Result, watcher: ProgressListener) -> Tool:
    """Return the load tool, installed first if needed, with that folder as its home. Its version enters the result."""
    driver = _driver_for(plan)
    tool, version = await tool_in(home, driver, watcher.warn)
    result.environment = made_legible(msgspec.structs.replace(result.environment, tools={driver.name: version}))
    return tool


class RawValues:
    """The file of a result, if it has one, traces in the order of the plan. On a full disk the run goes on."""

    def __init__(self, result: Result, plan: Plan, path: Path | None, watcher: ProgressListener) -> None:
        self._result, self._path, self._watcher, self.are_saved = result, path, watcher, path is not None
        self._order = {traced_case(case): index for index, case in enumerate(plan.cases)}

    def keep(self, kept: Record | Trace | Incident | RateStep) -> None:
        """Add it to the result and save that; warn once if that can't be done."""
        result = self._result
        of_each_kind = {
            Record: result.records,
            Trace: result.traces,
            Incident: result.incidents,
            RateStep: result.steps,
        }
        of_each_kind[type(kept)].append(made_legible(kept))  # type: ignore[attr-defined]
        result.traces.sort(key=lambda trace: self._order.get(trace.case, len(self._order)))
        if self._path is None:
            return
        try:
            save(self._result, self._path)
        except UnwritableError as error:
            if self.are_saved:
                self._watcher.warn(f"{error}; the run goes on, and is tried to be saved after every case")
            self.are_saved = False
        else:
            self.are_saved = True


def run_and_save(
    plan: Plan,
    out: Path | None,
    watcher: ProgressListener,
    command: Sequence[str],
    work: Callable[[Plan, Result, Expectations, Services, Keep], Awaitable[None]],
    meanwhile: Meanwhile | None = None,
) -> tuple[Result, int | None, bool]:
    """Do work that needs no load tool, until it is done or a signal arrives; save what it keeps if there is a file.

    Returns:
        As `run_plan`.
    Raises:
        BadInputError: a task can't be performed; nothing was started.
    """
    result = _empty_result(plan, command)
    raw = RawValues(result, plan, out, watcher)

    async def go() -> None:
        async with _prepared(plan, result, watcher, meanwhile) as (ready, expectations, needed):
            await work(ready, result, expectations, needed, raw.keep)

    with _home():
        return result, until_signal(go()), raw.are_saved


def traced_case(case: Case) -> Case:
    """Return the case that a trace is of: there is one trace, however many users the sieges have."""
    return case.without(["users"])


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """Create a directory for all temporary files, which is removed whatever happens.

    Processes that are killed don't remove their own, such as multiprocessing's sockets.
    """
    with TemporaryDirectory(prefix="under-siege-") as name, kept().removing(home := Path(name)):
        is_short = len(name) <= LONGEST_FOLDER
        with environment_variable("TMPDIR", name) if is_short else contextlib.nullcontext():
            yield home


def _empty_result(plan: Plan, command: Sequence[str], *, until_certain: bool = False) -> Result:
    result = Result(
        environment=describe_environment(plan.pythons.values()),
        command=list(command),
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=plan.seed,
        rounds=plan.rounds,
        until_certain=until_certain,
        left_out=list(plan.left_out),
        suite=_compared(plan.suite),
        requirements=list(plan.suite.required),
    )
    return made_legible(result)


def _compared(suite: Suite) -> MeasuredSuite | None:
    if not suite.title:
        return None
    ping = suite.ping.path if suite.ping else ""
    return MeasuredSuite(title=suite.title, source=suite.source, body=suite.expect.body, ping=ping)


@contextlib.asynccontextmanager
async def _prepared(
    plan: Plan,
    result: Result,
    watcher: ProgressListener,
    meanwhile: Meanwhile | None = None,
    adapted: Adapted | None = None,
) -> AsyncIterator[tuple[Plan, Expectations, Services]]:
    """Prepare the plan; yield it with the right answers and the services.

    The result gets versions. The body runs in a network of its own, if the load is to.
    """
    with contextlib.ExitStack() as network:
        async with services() as needed:
            ready = await prepared(await with_environments(plan, watcher), watcher)
            if plan.load.own_network:
                network.enter_context(own_network(watcher.warn, plan.load.ports))
            versions, expectations, _ = await asyncio.gather(
                package_versions(ready), expectations_of(ready, needed, watcher), asyncio.to_thread(meanwhile or int)
            )
            result.environment = msgspec.structs.replace(result.environment, packages_of=versions)
            yield adapted(ready, expectations) if adapted else ready, expectations, needed


async def _say_what_to_expect(
    plan: Plan, expectations: Expectations, others: OtherWork, watcher: ProgressListener, most_s: float
) -> None:
    if findings := await asyncio.to_thread(examine, LOOK_AROUND_S, plan.load.tool, others):
        watcher.warn(in_one_line(findings))
    say_how_long(plan, expectations, watcher, most_s=most_s)
