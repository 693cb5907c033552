"""Run the bench's own client in a process of its own, for loads that are not part of a siege."""

import contextlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import psutil

from under_siege.host.helper_process import Helper, helper
from under_siege.host.managed_process import last_line, until
from under_siege.host.resource_usage import Wakefulness, used_cpu_s
from under_siege.load.client import (
    AFTER_A_FAILURE_S,
    COMMAND,
    SETUP,
    ClientOutput,
    Order,
    SentRequest,
    line_of,
    must_be_set_up,
    setup_line,
)
from under_siege.load.request import SetupRequest
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import OPEN, Requests
from under_siege.suite.expected_response import Expectation

NO_LIMIT_S = 3600.0
START_S = 30.0  # timeout for the generator's start
END_S = 5.0  # timeout for its exit
LAST_LINES_S = 0.05  # timeout for its last lines


class Generator:
    """A process of the bench's own client that sends one series of requests and adds them to the table of a record."""

    def __init__(self, running: Helper) -> None:
        self._helper, self._process = running, running.process
        self.awake = Wakefulness(self._process.pid)
        self._output: ClientOutput | None = None
        self.ready = False
        self._set_up: dict[str, str] = {}  # what the generator reports after the setup
        self.ended = 0
        self._asked = 0

    def take(self, value: Any) -> None:
        """Note what the generator reports."""
        self.ready = True
        if isinstance(value, dict) and SETUP in value:
            self._set_up = value
        elif self._output and (ended := self._output.take(value)) and ended[2] != OPEN:
            self.ended += 1

    async def until_ready(self) -> None:
        """Wait until the generator can start the load; raise CaseFailedError if it does not become ready."""
        if not await until(lambda: self.ready or self._process.ended(), START_S) or self._process.ended():
            raise CaseFailedError(
                "generator_failed", f"the load generator did not start; {last_line(self._helper.errors.text())}"
            )

    async def set_up(self, setup: Sequence[SetupRequest], url: str, users: int) -> None:
        """Wait until the generator is ready, and let each user send the requests of its setup to the server at `url`.

        Args:
            users: 0 for an open loop.

        Raises:
            CaseFailedError: the generator does not start, or a request fails.
        """
        await self.until_ready()
        if setup:
            await self._helper.send(setup_line(setup, url, users))
            await until(lambda: bool(self._set_up) or self._process.ended(), math.inf)
            must_be_set_up(self._set_up)

    async def begin(
        self,
        requests: Requests,
        began_s: float,
        url: str,
        expected: Expectation,
        *,
        turns: Sequence[int] = (),
        due_s: Sequence[float] = (),
        users: int = 0,
        keep_alive: bool = False,
        timeout_s: float = NO_LIMIT_S,
        failure_pause_s: float = AFTER_A_FAILURE_S,
    ) -> None:
        """Start the load, and add its requests to the table.

        Args:
            began_s: the start of the load, as a time of `time.monotonic`.
            turns: the order of the requests of a mix; empty: that of the expectation.
            due_s: when each request of an open loop is due; empty for a closed loop of `users`.
            timeout_s: timeout of a response; of a stream: of each of its events.

        Raises:
            CaseFailedError: the generator does not start.
        """
        await self.until_ready()
        self._asked = len(due_s)
        self._output = ClientOutput(requests, began_s, has_streams=bool(expected.stream))
        given = Order(
            requests=[
                SentRequest(each_url, each.request, each.right.to_json()) for each_url, each in expected.each(url)
            ],
            begin_s=began_s,
            turns=turns or (expected.mix.order if expected.mix else (0,)),
            due_s=due_s,
            users=users,
            keep_alive=keep_alive,
            timeout_s=timeout_s,
            failure_pause_s=failure_pause_s,
            is_precise=True,
        )
        await self._helper.send(line_of(given))

    def sample(self) -> None:
        """Sample the CPU use of the generator; raise CaseFailedError if it has exited."""
        self.awake.sample()
        if self._process.poll() is not None:
            quoted = last_line(self._helper.errors.text())
            raise CaseFailedError("generator_failed", f"the load generator exited; {quoted}")

    def cpu_s(self) -> float | None:
        """Return the CPU time that the generator has used since it started, or None if it is unknown."""
        with contextlib.suppress(psutil.Error):
            return used_cpu_s(psutil.Process(self._process.pid))
        return None

    async def end(self) -> None:
        """Tell the generator to abandon unanswered requests, report them and exit."""
        self._helper.end_input()
        await until(self._process.ended, END_S)
        await until(lambda: self.ended >= self._asked, LAST_LINES_S)


@contextlib.asynccontextmanager
async def generator() -> AsyncIterator[Generator]:
    """Start the load generator, and stop it when the context ends."""

    async with helper(
        COMMAND, lambda value: sending.take(value), reads_lines=True, may_hide=False, is_load=True
    ) as one:
        sending = Generator(one)
        yield sending
