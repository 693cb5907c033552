"""The stage of a drill: one server on which faults happen one after the other, as long as it is whole after each."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from common.harness.client import client, get
from common.harness.drill.broker import Broker, broker_apart
from common.harness.drill.crowd import Crowd
from common.harness.drill.scene import BEGUN, Scene
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.ready.expectation import Expectation
from common.harness.ready.services import Services
from common.harness.server import Server, running
from common.harness.turn import new_record
from common.harness.warm_up import warm_up
from common.model.case import Case
from common.model.record import Incident, Record

FOLDER = "UNDER_SIEGE_DRILL"  # as common.alone.drill has it
STEADY_CPU_S = 0.02  # of a task, unless its fault needs others
STOP_S = 0.05  # for a server to end, when all is seen
PATIENCE_S = 5.0  # of a user
WHOLE_LIMIT_S = 2.0  # after a fault, before it is replaced
FINE_S = 0.1  # for a ping
QUICK = 4.0  # times what it takes when nothing else is to do, and an answer is not called quick any more
LEAST_QUICK_S = 0.2
LOOK_S = 0.02


class Stage:
    """A server that is warm."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, crowd: Crowd, folder: Path, warm: Record):
        self._server, self._session, self._crowd, self._folder, self._warm = server, session, crowd, folder, warm
        self.broker: Broker | None = None

    def scene(self, incident: Incident) -> Scene:
        """For the next one."""
        incident.workers, incident.idle_answer_s = self._warm.workers, self._warm.idle_answer_s
        scene = Scene(self._server, self._session, self._crowd, self._folder, incident)
        scene.broker = self.broker
        scene.let_tasks_take(STEADY_CPU_S)
        return scene

    async def is_whole(self, scene: Scene) -> bool:
        """Whether it is as it was before long: it answers, soon, and does nothing that nobody waits for."""
        scene.set_length(STEADY_CPU_S)
        deadline_s = time.monotonic() + WHOLE_LIMIT_S
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
        session = await stack.enter_async_context(client())
        server = await stack.enter_async_context(running(plan, case, record, services))
        await warm_up(server, session, expected, record)
        server.grace_s = STOP_S  # how it stops is a fault of its own
        found = Stage(server, session, Crowd(session, server.load_url, expected, PATIENCE_S), folder, record)
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
