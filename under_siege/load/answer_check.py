"""Check responses during the load."""

import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from under_siege.load.background import open_loop
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import LATE, OPEN, Outcome, Requests


def check_interval_s(task_s: float) -> float:
    """Return the check interval: 1 s, or more for long tasks, so that checks use at most 10 % of one worker."""
    return max(1.0, 10 * task_s)


class AnswerCheck:
    """Request the task and verify the responses, because siege only counts their bytes.

    In a saturated closed loop, the rate includes these requests, because they are also work for the server. The first
    is sent when the users start, so that the queue doesn't grow in the middle of the measurement. If `is_cut`, checks
    without a response are `open` at the end of the load.
    """

    def __init__(
        self,
        verify: Callable[[int], Awaitable[object]],
        requests: Requests,
        began_s: float,
        *,
        is_cut: bool = False,
    ) -> None:
        self._verify = verify
        self._requests = requests
        self._began_s = began_s
        self._is_cut = is_cut

    async def check(self, in_a_row: int = 1) -> None:
        """Send `in_a_row` requests on one connection, verify the last response, and record the outcome."""
        sent_s = time.monotonic() - self._began_s
        outcome: Outcome = OPEN if self._is_cut else LATE
        problem = "" if self._is_cut else "the response check was not answered"
        try:
            await self._verify(in_a_row)
            outcome, problem = "correct", ""
        except CaseFailedError as failed:
            outcome, problem = "wrong" if failed.code == "wrong_answer" else "lost", str(failed)
        finally:
            ended_s = time.monotonic() - self._began_s
            self._requests.add("check", sent_s=sent_s, ended_s=ended_s, outcome=outcome, problem=problem)

    def checking(self, every_s: float, end_s: Callable[[], float]) -> AbstractAsyncContextManager[None]:
        """Send checks at a fixed rate until `end_s()`, which may change; then wait for pending responses."""
        after_s = itertools.takewhile(lambda at_s: at_s < end_s(), (number * every_s for number in itertools.count()))
        times_s = (self._began_s + at_s for at_s in after_s)
        return open_loop(lambda _: self.check(), times_s, timeout_s=0.0 if self._is_cut else None)
