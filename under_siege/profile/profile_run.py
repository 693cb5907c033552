"""Profile each case under a separate load, so that no measured rate includes the cost of the profiler."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from common.errors import one_line
from under_siege.host.machine_speed import machine_between
from under_siege.load.background import cancel
from under_siege.load.http_client import client
from under_siege.measure.case_run import CaseRun
from under_siege.measure.plan import Plan, ProgressListener, new_record
from under_siege.measure.server import Server, running
from under_siege.measure.session import Reporting, Session, run_session
from under_siege.measure.siege_length import Length
from under_siege.measure.warm_up import RequestReplays, warm_up
from under_siege.profile.route_handler import endpoint_of
from under_siege.profile.sampler import PASSES, pass_s, sample
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Profile, append_row
from under_siege.record.result import Result
from under_siege.suite.suite import Kind

TIME_S = 20.0  # default of --time
RAMP_UP_S, START_S = 0.5, 1.5  # time until all users have sent a request, and time to start py-spy three times


def profile_servers(
    plan: Plan, time_s: float, watcher: ProgressListener, command: Sequence[str]
) -> tuple[Result, int | None]:
    """Profile every case without a siege; return the unsaved result, and the signal that stopped the run, if any."""

    async def work(session: Session) -> None:
        await Profiler(session, time_s).profile_all()

    return run_session(plan, Reporting(None, watcher, command), work, needs_tool=True)[:2]


class Profiler:
    """Profile each case once, on a server of its own."""

    def __init__(self, session: Session, time_s: float) -> None:
        self._session = session
        self._plan = session.plan
        self._time_s = time_s

    async def profile_all(self) -> None:
        """Profile all cases."""
        for case in self._plan.cases:
            self._session.watcher.case_begins(f"profile  {case.server}", self._time_s)
            self._session.keep(await self._profile_of(case))
            self._session.watcher.case_ends()

    async def _profile_of(self, case: Case) -> Profile:
        """Profile a case, and return the profile, which contains the reason if profiling failed."""
        profile = Profile(server=case.server, title=self._plan.targets[case.server].title, values=dict(case.values))
        try:
            await self._start_and_sample(profile)
        except CaseFailedError as failed:
            profile.failure = str(failed)
        except Exception as error:  # a bug in the bench must not discard the other results
            profile.failure = f"internal error, please report it: {one_line(error)}"
        return profile

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
