"""Profile each case under a separate load, so that no measured rate includes the cost of the profiler."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from common.errors import one_line
from under_siege.host.machine_speed import machine_between
from under_siege.load.background import cancel
from under_siege.load.http_client import client
from under_siege.measure.case_run import CaseRun
from under_siege.measure.duration import Length
from under_siege.measure.plan import Plan, ProgressListener, new_record
from under_siege.measure.rounds import run_plan
from under_siege.measure.server import Server, running
from under_siege.measure.session import Reporting, Session
from under_siege.measure.warm_up import RequestReplays, warm_up
from under_siege.profile.route_handler import endpoint_of
from under_siege.profile.sampler import PASSES, pass_s, sample
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Profile, append_row
from under_siege.record.result import Result
from under_siege.suite.suite import Kind

TIME_S = 20.0
RAMP_UP_S, START_S = 0.5, 1.5  # time until all users have sent a request, and time to start py-spy three times


def profile_servers(
    plan: Plan, time_s: float, watcher: ProgressListener, command: Sequence[str]
) -> tuple[Result, int | None]:
    """Profile every case without a siege; return the unsaved result, and the signal that stopped the run, if any."""
    return run_plan(plan, Reporting(None, watcher, command), make_tracers=[partial(Profiler, time_s=time_s)])[:2]


class Profiler:
    """A tracer that profiles each case once: with the server of a siege or, if there is none, with a new server."""

    def __init__(self, session: Session, time_s: float = TIME_S) -> None:
        self._session = session
        self._plan = session.plan
        self._time_s = time_s
        self._profiled: set[Case] = set()

    async def after_siege(self, case_run: CaseRun, server: Server) -> None:
        """Profile the warm server of a siege that has just ended."""
        if not case_run.record.is_ceiling and case_run.case not in self._profiled:
            await self._keep_profile(case_run.case, lambda profile: self._sample(profile, case_run, server))

    async def trace_remaining(self) -> None:
        """Profile the remaining cases, each with a new server."""
        for case in self._plan.cases:
            if case not in self._profiled:
                self._session.watcher.case_begins(f"profile  {case.server}", self._time_s)
                await self._keep_profile(case, self._start_and_sample)
                self._session.watcher.case_ends()

    async def _keep_profile(self, case: Case, work: Callable[[Profile], Awaitable[None]]) -> None:
        """Profile a case and keep the profile, which contains the reason if profiling failed."""
        profile = Profile(server=case.server, title=self._plan.targets[case.server].title, values=dict(case.values))
        try:
            await work(profile)
        except CaseFailedError as failed:
            profile.failure = str(failed)
        except Exception as error:  # a bug in the bench must not discard the other results
            profile.failure = f"internal error, please report it: {one_line(error)}"
        self._profiled.add(case)
        self._session.keep(profile)

    async def _start_and_sample(self, profile: Profile) -> None:
        plan, case = self._plan, profile.case
        record, expected = new_record(plan, case, self._time_s, 1), self._session.expected_of(case)
        length = Length(self._time_s, case.users, expected)
        async with client() as http, running(plan, case, record, self._session.services) as server:
            await warm_up(server, http, expected, record)
            replays = RequestReplays(self._session.tool)
            case_run = CaseRun(self._session, case, expected, length, record, replays)
            await self._sample(profile, case_run, server)

    async def _sample(self, profile: Profile, case_run: CaseRun, server: Server) -> None:
        if server.pid is None:
            raise CaseFailedError("no_process", "this program did not start the server, so its processes are unknown")
        if self._plan.targets[case_run.case.server].kind == Kind.INTERPRETERS:
            raise CaseFailedError("interpreters", "py-spy sees only one of the interpreters of a process")
        profile.listeners = server.listeners()
        folder, load = self._plan.folder_of(case_run.case) or Path(), self._plan.load_of(case_run.case)
        time_s = len(PASSES) * pass_s(self._time_s) + RAMP_UP_S + START_S
        load = replace(load, requests=None, time_s=time_s)
        began, began_s = asyncio.Event(), time.monotonic()
        loading = asyncio.create_task(case_run.count_answers(server, load, began.set))
        waiting = asyncio.create_task(began.wait())
        try:
            await asyncio.wait([loading, waiting], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(RAMP_UP_S)
            before, server_before_s = psutil.cpu_times(), server.cpu_s() or 0.0
            await sample(server.pid, self._time_s, folder.resolve(), profile)
            machine, server_s = machine_between(before, psutil.cpu_times()), (server.cpu_s() or 0.0) - server_before_s
            others_s = machine.busy_s + machine.steal_s - max(0.0, server_s)
            profile.other_work = min(1.0, max(0.0, others_s / max(1e-9, machine.total_s)))
            profile.answers, profile.load_s = await loading, time.monotonic() - began_s
        finally:
            await cancel([loading, waiting])
        if not load.mix:
            with contextlib.suppress(psutil.NoSuchProcess):
                command = psutil.Process(server.pid).cmdline()
                for frame in endpoint_of(command, folder.resolve(), load.request.method, load.path):
                    append_row(profile.endpoint, *frame)
