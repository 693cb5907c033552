"""The scene of a fault: a server under a steady load and pings, and what can be seen of it."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil

from under_siege.faults.fault_broker import Broker
from under_siege.faults.users import Crowd
from under_siege.model.record import Incident
from under_siege.model.requests import FAILED_OUTCOMES
from under_siege.monitors.ping import probing
from under_siege.monitors.resource_usage import tree_usage
from under_siege.run.server import Server

BEGUN, ENDLESS, LASTS = "begun", "endless-", "lasts"  # as common.task.drill_tasks has them
USERS = 8  # as many as wait in the line of two workers that refuse beyond it
PING_EVERY_S = 0.025
BEFORE_S = 0.8  # of load, before something goes wrong
SETTLE_S = 0.3  # of that, in which the queue gets its length
LOOK_S = 0.02
CALM_S, CALM = 0.15, 0.3  # nobody is computed for: less than so much of a CPU over so long
WHOLE, WINDOW_S = 0.8, 0.5  # of the rate before, over so long: then it is whole again
MARGIN_S = 0.1  # of load after that window, so that the report, which rounds times, finds the window, too


def computing(cpu_s: float) -> str:
    """The task that does it for so long."""
    return f"common.task.drill_tasks:compute({cpu_s:g})"


class Scene:
    """A server that runs, and its incident, which is filled by whatever happens."""

    def __init__(
        self, server: Server, session: aiohttp.ClientSession, crowd: Crowd, folder: Path, incident: Incident
    ) -> None:
        self.server, self.session, self.crowd, self.folder, self.incident = server, session, crowd, folder, incident
        self.began_s = time.monotonic()
        self.broker: Broker | None = None  # where it is not the server's own

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.server.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    @property
    def has_our_tasks(self) -> bool:
        """Whether its tasks tell that they begin, and take as long as they are told."""
        return self.incident.values.get("task") is not None

    def now_s(self) -> float:
        """Since the load began."""
        return time.monotonic() - self.began_s

    def let_tasks_take(self, cpu_s: float) -> None:
        """From now on in this incident, if they are ours."""
        if self.has_our_tasks:
            self.set_length(cpu_s)
            self.incident.values["task"] = computing(cpu_s)

    def set_length(self, cpu_s: float) -> None:
        """Of every task that begins from now on."""
        new = self.folder / f"{LASTS}.new"
        new.write_text(str(cpu_s), encoding="ascii")
        new.rename(self.folder / LASTS)  # nobody reads half of it

    def let_be_endless(self, name: str) -> None:
        """The next task that begins."""
        (self.folder / f"{ENDLESS}{name}").touch()

    def endless_to_begin(self) -> bool:
        """Whether there is one that none has become yet."""
        return any(self.folder.glob(f"{ENDLESS}*"))

    @contextlib.asynccontextmanager
    async def under_load(self, users: int = USERS) -> AsyncIterator[None]:
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
        return len(self._right_between(from_s, to_s)) / (to_s - from_s)

    def rate_before(self) -> float:
        """Until something went wrong."""
        at_s = self.incident.fault_at_s
        assert at_s is not None
        return self.rate(SETTLE_S, at_s)

    def failures_since(self, from_s: float) -> int:
        """Return how many requests have ended since then without a right answer, refusals not counted."""
        ended = zip(self.incident.requests.ended_s, self.incident.requests.outcome, strict=True)
        return sum(ended_s >= from_s and outcome in FAILED_OUTCOMES for ended_s, outcome in ended)

    async def until_whole(self, limit_s: float) -> bool:
        """Wait until the rate is back and no request fails any more; return whether that was within the limit."""
        at_s, before = self.incident.fault_at_s, self.rate_before()
        assert at_s is not None
        seen_s = at_s
        while self.now_s() < at_s + limit_s:
            to_s = self.now_s() - WINDOW_S - MARGIN_S
            for from_s in self._right_between(seen_s, to_s):  # the windows with the most answers begin with one
                is_back = self.rate(from_s, from_s + WINDOW_S) >= WHOLE * before
                if is_back and not self.failures_since(from_s):
                    return True
            seen_s = max(seen_s, to_s)
            await asyncio.sleep(LOOK_S)
        return False

    def _right_between(self, from_s: float, to_s: float) -> list[float]:
        """Return when right answers came between two times."""
        ended = zip(self.incident.requests.ended_s, self.incident.requests.outcome, strict=True)
        return [ended_s for ended_s, outcome in ended if from_s <= ended_s < to_s and not outcome]

    def begun(self) -> int:
        """How many tasks have begun, as they say."""
        return (self.folder / BEGUN).stat().st_size

    def cpu_s(self) -> float:
        """What the server and all below it have used."""
        usage = tree_usage(self.server.pid, memory=False) if self.server.pid is not None else None
        return usage.cpu_s if usage else 0.0

    async def is_calm(self) -> bool:
        """Whether it computes less than it would for anybody; some have their own things to do all the time."""
        before_s, began_s = self.cpu_s(), time.monotonic()
        await asyncio.sleep(CALM_S)
        return self.cpu_s() - before_s < CALM * (time.monotonic() - began_s)

    def family(self) -> list[psutil.Process]:
        """The processes below the server's first one."""
        if self.server.pid is None:
            return []
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.server.pid).children(recursive=True)
        return []

    def signal(self, number: int) -> None:
        """To the first process of the server."""
        assert self.server.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, number)
