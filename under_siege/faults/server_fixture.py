"""The stage of a drill: one server on which faults happen one after the other, as long as it is whole after each."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.faults.fault_broker import Broker, broker_apart
from under_siege.faults.fault_context import BEGUN, Scene
from under_siege.faults.users import Crowd
from under_siege.http_client import client, get
from under_siege.model.case import Case
from under_siege.model.record import Incident, Record
from under_siege.model.requests import FAILED_OUTCOMES
from under_siege.run.case_run import new_record
from under_siege.run.plan import Plan
from under_siege.run.server import Server, running
from under_siege.run.warm_up import warm_up
from under_siege.targets.expectation import Expectation

FOLDER = "UNDER_SIEGE_DRILL"  # as common.task.drill_tasks has it
STEADY_CPU_S = 0.02  # of a task, unless its fault needs others
STOP_S = 0.05  # for a server to end, when all is seen
PATIENCE_S = 5.0  # of a user
IN_A_ROW = 20  # right answers; for each listening process, if answers don't tell which one they come from
AT_ONCE = 4  # requests of the recovery check, few enough that no server sheds load
RECOVERY_LIMIT_S = 5.0  # until it is idle again, and for the answers after that
FINE_S = 0.1  # for a ping
QUICK = 4.0  # times what it takes when nothing else is to do, and an answer is not called quick any more
LEAST_QUICK_S = 0.2
LOOK_S = 0.02


class Stage:
    """A server that is warm."""

    def __init__(
        self,
        server: Server,
        session: aiohttp.ClientSession,
        crowd: Crowd,
        folder: Path,
        warm: Record,
        processes: int,
    ) -> None:
        self._server, self._session, self._crowd, self._folder, self._warm = server, session, crowd, folder, warm
        self._processes = processes  # that answered during the warm-up
        self.broker: Broker | None = None

    def scene(self, incident: Incident) -> Scene:
        """For the next one."""
        incident.workers, incident.idle_answer_s = self._warm.workers, self._warm.idle_answer_s
        scene = Scene(self._server, self._session, self._crowd, self._folder, incident)
        scene.broker = self.broker
        scene.let_tasks_take(STEADY_CPU_S)
        return scene

    async def has_recovered(self, scene: Scene) -> bool:
        """Return whether the server is idle again soon and then passes the recovery check."""
        scene.set_length(STEADY_CPU_S)
        return await self._is_idle_soon(scene) and await self._passes_check(scene)

    async def _passes_check(self, scene: Scene) -> bool:
        """Ask until enough answers in a row are right and all processes are among them, or one of them fails.

        Each request has a connection of its own, so that every process that listens gets some.
        """
        incident = scene.incident
        incident.recovery_answers = IN_A_ROW if self._processes else IN_A_ROW * self._server.listening_processes()
        incident.recovery_processes = self._processes
        limit_s = max(RECOVERY_LIMIT_S, QUICK * incident.recovery_answers * (self._warm.idle_answer_s or 0.0))
        deadline_s, at_once = time.monotonic() + limit_s, max(AT_ONCE, 2 * self._processes)
        while not incident.has_recovered and time.monotonic() < deadline_s:
            await asyncio.gather(*(self._crowd.check(incident.recovery, scene.began_s) for _ in range(at_once)))
            if any(outcome in FAILED_OUTCOMES for outcome in incident.recovery.outcome):
                break
        return bool(incident.has_recovered)

    async def _is_idle_soon(self, scene: Scene) -> bool:
        deadline_s = time.monotonic() + RECOVERY_LIMIT_S
        while time.monotonic() < deadline_s and self._server.alive():
            if await self._answers_soon() and await scene.is_calm():
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def _answers_soon(self) -> bool:
        if await self._crowd.ask(patience_s=quick_s(self._warm.idle_answer_s)):
            return False
        ping = self._server.ping
        if ping is None:
            return True
        try:
            pong = await get(self._session, self._server.url + ping.path, FINE_S)
        except (CaseFailedError, aiohttp.ClientError):
            return False
        return ping.fits(pong.status, pong.body)


def quick_s(idle_answer_s: float | None) -> float:
    """How long a lone answer may take to be called quick."""
    return max(LEAST_QUICK_S, QUICK * (idle_answer_s or 0.0))


@contextlib.asynccontextmanager
async def stage(
    plan: Plan,
    case: Case,
    expected: Expectation,
    services: Services,
    round_: int,
    *,
    broker_on_disk: bool | None = None,
) -> AsyncIterator[Stage]:
    """A server of the case, warmed up; gone at the end.

    Args:
        broker_on_disk: whether its broker, which is another one than its own, has a disk; None: it is its own.

    Raises:
        CaseFailedError: it can't be had.
    """
    record = new_record(plan, case, 0.0, round_)
    async with contextlib.AsyncExitStack() as stack:
        folder, broker = stack.enter_context(_told_tasks()), None
        if broker_on_disk is not None:
            apart = broker_apart(plan.python_of(case).path, record.workers, on_disk=broker_on_disk)
            broker = await stack.enter_async_context(apart)
        fresh = await stack.enter_async_context(client())
        session = await stack.enter_async_context(client(keep_alive=plan.load_of(case).keep_alive))
        server = await stack.enter_async_context(running(plan, case, record, services))
        processes = await warm_up(server, fresh, expected, record)
        server.grace_s = STOP_S  # how it stops is a fault of its own
        found = Stage(
            server,
            session,
            Crowd(session, server.load_url, expected, PATIENCE_S, fresh),
            folder,
            record,
            len(processes),
        )
        found.broker = broker
        yield found


@contextlib.contextmanager
def _told_tasks() -> Iterator[Path]:
    """The folder in which tasks tell that they begin, known to all that is started meanwhile."""
    with TemporaryDirectory(prefix="drill-", dir=os.environ.get("TMPDIR")) as folder:
        (Path(folder) / BEGUN).touch()
        os.environ[FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[FOLDER]
