"""The ceiling: the same users with no server at all. What no server can exceed, measured in every round."""

import math
import time
from collections.abc import Callable

from common.alone.bare import CHECKER
from common.harness.failures import CaseFailedError
from common.harness.length import Length
from common.harness.lines import reading_lines
from common.harness.plan import Case
from common.harness.processes import CALM_LOOK_S, Started, until
from common.harness.server import OURS_FIRST, server_environment
from common.harness.tail import Tail
from common.record import Record

READY_LIMIT_S = 60.0  # for as many processes as there are users, each of which imports the task


async def compute_bare(
    case: Case, check_every_s: float, record: Record, length: Length, tell: Callable[[], None]
) -> None:
    """Lets all users compute for that length and writes every task that was done into the record.

    Raises:
        CaseFailedError: they could not begin, or ended by themselves.
    """
    bare = _Bare(record, length, tell)
    options = ["--task", case.task, "--users", str(case.users), "--check-every", str(check_every_s)]
    started_s = time.monotonic()
    process = Started([case.python.path, *OURS_FIRST, "common.alone.bare", *options], environment=server_environment())
    errors = Tail(process.process.stderr)
    try:
        assert process.process.stdout is not None
        with reading_lines(process.process.stdout.fileno(), bare.take):
            if not await until(lambda: bare.began_s > 0 or process.ended(), READY_LIMIT_S):
                raise CaseFailedError("not_ready", f"{case.users} processes were not ready in {READY_LIMIT_S:.0f} s")
            record.ready_s = record.warm_s = time.monotonic() - started_s
            await until(
                lambda: process.ended() or time.monotonic() >= bare.began_s + length.end_s, math.inf, CALM_LOOK_S
            )
            if process.ended():
                words = errors.text().splitlines() or ["it said nothing on stderr"]
                raise CaseFailedError("died", f"the bare case ended by itself; its last line: {words[-1]}")
            record.siege_s = time.monotonic() - bare.began_s
    finally:
        stopping_s = time.monotonic()
        await process.stop(grace_s=0)
        record.stop_s = time.monotonic() - stopping_s


class _Bare:
    """Takes in what `common.alone.bare` prints."""

    def __init__(self, record: Record, length: Length, tell: Callable[[], None]) -> None:
        self._record, self._length, self._tell = record, length, tell
        self.began_s = 0.0

    def take(self, line: str, _arrived_s: float) -> None:
        words = line.split(",")
        if words[0] == "go":
            self._record.siege_began_s = self.began_s = float(words[1])
        elif len(words) == 4 and words[0].lstrip("-").isdigit():  # anything else was printed by the task itself
            self._task_done(int(words[0]), float(words[1]), float(words[2]), int(words[3]))

    def _task_done(self, user: int, began_s: float, ended_s: float, size_bytes: int) -> None:
        at_s = round(ended_s - self.began_s, 6)
        if user == CHECKER:
            self._record.checks.sent_s.append(round(began_s - self.began_s, 6))
            self._record.checks.answered_s.append(at_s)
            self._record.checks.code.append("")
            self._record.checks.problem.append("")
            return
        columns = self._record.transactions
        columns.finished_s.append(at_s)
        columns.siege_s.append(round(ended_s - began_s, 6))
        columns.status.append(200)
        columns.size_bytes.append(size_bytes)
        columns.user.append(user)
        self._length.answer(user, at_s)
        self._tell()
