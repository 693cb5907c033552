"""The scene of a drill: a server under a steady load and pings, and what can be seen of it."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import psutil

from common.harness.beside.probe import probing
from common.harness.beside.sampler import tree_usage
from common.harness.client import client
from common.harness.drill.crowd import Crowd
from common.harness.plan import Plan
from common.harness.ready.expectation import Expectation
from common.harness.ready.services import Services
from common.harness.server import Server, running
from common.harness.turn import new_record
from common.harness.warm_up import warm_up
from common.model.case import Case
from common.model.record import Incident, Record

FOLDER, BEGUN, ENDLESS = "UNDER_SIEGE_DRILL", "begun", "endless-"  # as common.alone.drill has them
PING_EVERY_S = 0.025
BEFORE_S = 0.8  # of load, before something goes wrong
SETTLE_S = 0.3  # of that, in which the queue gets its length
LOOK_S = 0.02
STOP_S = 0.3  # for a server to end, when all is seen
PATIENCE_S = 5.0  # of a user
WHOLE, WINDOW_S = 0.8, 0.5  # of the rate before, over so long: then it is whole again


class Scene:
    """A server that runs, and its incident, which is filled by whatever happens."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, crowd: Crowd, incident: Incident) -> None:
        self.server, self.session, self.crowd, self.incident = server, session, crowd, incident
        self.began_s = time.monotonic()
        self.workers: set[int] = set()  # the processes that have worked, as the answers say

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.server.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def now_s(self) -> float:
        """Since the load began."""
        return time.monotonic() - self.began_s

    @contextlib.asynccontextmanager
    async def under_load(self, users: int) -> AsyncIterator[None]:
        """So many users and the pings beside them; the body begins when the rate before is known."""
        incident = self.incident
        self.began_s = time.monotonic()
        pinging = probing(
            self.session, self.server.url, self.server.ping, 1.0, incident.pings, self.began_s, PING_EVERY_S
        )
        async with pinging, self.crowd.asking(users, incident.requests, self.began_s):
            await asyncio.sleep(BEFORE_S)
            yield
            incident.ended_s = self.now_s()

    def fault_now(self) -> None:
        """Something goes wrong at this moment."""
        self.incident.fault_at_s = self.now_s()

    def rate(self, from_s: float, to_s: float) -> float:
        """Right answers per second between two times."""
        done = zip(self.incident.requests.ended_s, self.incident.requests.outcome, strict=True)
        return sum(from_s <= ended_s < to_s and not outcome for ended_s, outcome in done) / (to_s - from_s)

    def rate_before(self) -> float:
        """Until something went wrong."""
        at_s = self.incident.fault_at_s
        assert at_s is not None
        return self.rate(SETTLE_S, at_s)

    async def until_whole(self, limit_s: float) -> None:
        """Until the rate is what it was, or the limit is reached."""
        at_s, before = self.incident.fault_at_s, self.rate_before()
        assert at_s is not None
        while self.now_s() < at_s + limit_s:
            now_s = self.now_s()
            if now_s >= at_s + WINDOW_S and self.rate(now_s - WINDOW_S, now_s) >= WHOLE * before:
                await asyncio.sleep(5 * LOOK_S)  # so that no later look misses it by a hair
                return
            await asyncio.sleep(LOOK_S)

    def begun(self, drill: Path) -> int:
        """How many tasks have begun, as they say."""
        return (drill / BEGUN).stat().st_size

    def cpu_s(self) -> float:
        """What the server and all below it have used."""
        usage = tree_usage(self.server.pid, memory=False) if self.server.pid is not None else None
        return usage.cpu_s if usage else 0.0

    def family(self) -> list[psutil.Process]:
        """The processes below the server's first one."""
        if self.server.pid is None:
            return []
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.server.pid).children(recursive=True)
        return []


@contextlib.asynccontextmanager
async def scene(
    plan: Plan, case: Case, expected: Expectation, services: Services, incident: Incident, record: Record | None = None
) -> AsyncIterator[Scene]:
    """A server of the case, warmed up; gone at the end.

    Raises:
        CaseFailedError: it can't be had.
    """
    record = record or new_record(plan, case, 0.0, incident.round)
    async with client() as session, running(plan, case, record, services) as server:
        await warm_up(server, session, expected, record)
        incident.workers, incident.idle_answer_s = record.workers, record.idle_answer_s
        server.grace_s = STOP_S  # how it stops is a fault of its own
        yield Scene(server, session, Crowd(session, server.load_url, expected, PATIENCE_S), incident)


@contextlib.contextmanager
def told_tasks() -> Iterator[Path]:
    """The folder in which tasks tell that they begin, known to all that is started meanwhile."""
    with TemporaryDirectory(prefix="drill-", dir=os.environ.get("TMPDIR")) as folder:
        (Path(folder) / BEGUN).touch()
        os.environ[FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[FOLDER]
