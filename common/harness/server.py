"""A server under test: started on a free port, ready when it answers, stopped so that nothing is left."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import aiohttp

from common.contract import default_port
from common.harness.client import Answer, get
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.processes import CALM_LOOK_S, LOOK_S, Started, until
from common.harness.ready.strategies import ROOT
from common.harness.tail import Tail
from common.harness.traceback import last_error
from common.model.case import Case
from common.model.record import Record

READY_LIMIT_S = 15.0
DYING_LIMIT_S = 2.0  # from when a request fails because the server is ending to its end; Python takes its time for that
WORDS_LIMIT_S = 0.1  # from an answer with an error to the traceback on stderr
HOST = "127.0.0.1"
OURS_FIRST = ("-P", "-m")  # so that what the user's folder holds does not stand before a module of ours
T = TypeVar("T")


class Server:
    """A server that was started; `url` is where it listens."""

    def __init__(self, plan: Plan, case: Case, port: int) -> None:
        self.started_s = time.monotonic()
        self.port, self._python = port, plan.pythons[case.python]
        self.url = f"http://{HOST}:{port}"
        command = plan.targets[case.server].command(case, self._python.path, HOST, port)
        self._started = Started(command, environment=server_environment())
        self._stdout = Tail(self._started.process.stdout)
        self._stderr = Tail(self._started.process.stderr)
        self.pid = self._started.pid

    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.started_s

    def alive(self) -> bool:
        """Whether its process is still there."""
        return not self._started.ended()

    def last_words(self) -> str:
        """The last lines that it printed on stderr."""
        return self._stderr.text()

    async def while_alive(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work results in, unless the server dies first, or is about to when the work fails.

        Raises:
            CaseFailedError: it died; the work is cancelled.
        """
        task = asyncio.ensure_future(self.explaining(work))
        try:
            while not task.done() and self.alive():
                await asyncio.wait({task}, timeout=CALM_LOOK_S)
            await self.must_live(DYING_LIMIT_S if task.done() and task.exception() else 0.0)
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def explaining(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work results in; beside an answer that is an error stands what the server's own traceback says."""
        try:
            return await work
        except CaseFailedError as failed:
            if failed.code != "error_answer" or not await until(lambda: bool(self._last_error()), WORDS_LIMIT_S):
                raise
            raise CaseFailedError(failed.code, f"{failed}; its stderr says: {self._last_error()}") from None

    def _last_error(self) -> str:
        return last_error(self._stderr.all_kept())

    async def must_live(self, for_s: float = DYING_LIMIT_S) -> None:
        """Returns if it lives and goes on living for so long: a request may notice that it dies before we can see it.

        Raises:
            CaseFailedError: it died.
        """
        if await until(lambda: not self.alive(), for_s):
            raise await self._death()

    async def _death(self) -> CaseFailedError:
        await until(lambda: not self._stderr.reading(), 1.0)  # a child that lives on may keep it open
        status = self._started.process.wait()
        if self._started.process.keeper.is_lost:
            return CaseFailedError("died", "the process that had started the server was killed, perhaps by it")
        how = f"ended with exit code {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
        lines = [line for line in self.last_words().splitlines() if line.strip()]
        if lines and (lacking := re.match(r"ModuleNotFoundError: No module named '([\w]+)", lines[-1])):
            raise self._missing(lacking[1])
        said = f"; its last line: {lines[-1].strip()[:300]}" if lines else "; it said nothing on stderr"
        return CaseFailedError("died", f"the server {how} after {self.age_s():.1f} s{said}")

    def _missing(self, package: str) -> CaseFailedError:
        why = self._python.why_missing(package)
        because = f": {why}" if why else "; install it there"
        return CaseFailedError("missing_package", f"Python {self._python.version} lacks the package {package}{because}")

    async def ready(self, session: aiohttp.ClientSession) -> Answer:
        """Its first right answer to a ping.

        Raises:
            CaseFailedError: there is none within 15 s.
        """
        seen = "nothing listens there"
        while self.age_s() < READY_LIMIT_S:
            try:
                answer = await get(session, f"{self.url}/ping", READY_LIMIT_S - self.age_s())
                if answer.is_pong():
                    return answer
                seen = f"GET /ping gives {answer.described()}"
            except aiohttp.ClientConnectorError:
                pass  # it doesn't listen yet
            except CaseFailedError as failed:
                seen = str(failed)
            await asyncio.sleep(LOOK_S)
        raise CaseFailedError("not_ready", f"not ready within {READY_LIMIT_S:.0f} s: {seen}")

    async def stop(self) -> None:
        """Ends it and all that it started, and makes sure that its port is free again."""
        await self._started.stop()
        if not await until(lambda: port_is_free(self.port), 1.0):
            raise CaseFailedError("port_kept", f"port {self.port} is still taken after the server was ended")


@contextlib.asynccontextmanager
async def running(plan: Plan, case: Case, record: Record) -> AsyncIterator[Server]:
    """The server of a case, started; stopped at the end whatever happens, and the record says how long that took."""
    with claimed_port(default_port(case.server.rpartition("/")[2])) as claim:
        server = Server(plan, case, claim.getsockname()[1])
        try:
            yield server
        finally:
            began_s = time.monotonic()
            try:
                await server.stop()
            except CaseFailedError:
                if not _is_being_cancelled():  # or it would be one more failed case, and the run would go on
                    raise
            finally:
                record.stop_s = time.monotonic() - began_s
                record.server_said = server.last_words()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def server_environment() -> dict[str, str]:
    """This process's environment, with `common` importable in any interpreter."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def claimed_port(first: int) -> socket.socket:
    """Claims the first port from `first` on that nobody listens on, until the socket that this returns is closed.

    The socket is the UDP port of the same number: no server feels that, another run on this machine does and passes on,
    and the claim ends with this process, however it ends.
    """
    for port in range(first, 65536):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind((HOST, port))
            if port_is_free(port):
                return claim
        claim.close()
    raise CaseFailedError("no_port", f"every port from {first} on is taken")


def port_is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
