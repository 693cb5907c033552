"""Driving the load: runs siege for an exact time and stamps each line of it as it comes."""

import contextlib
import math
import os
import pty
import time
import tty
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil

from common.harness.failures import CaseFailedError
from common.harness.length import Length
from common.harness.lines import reading_lines
from common.harness.processes import CALM_LOOK_S, Started, until
from common.harness.tail import Tail
from common.load.siege import Siege, Transaction, parse, socket_failures
from common.model.record import Record

LIFT_LIMIT_S = 5.0  # how long siege may take to end; 0.02 s is usual
UNKNOWN_LINES_KEPT = 20


async def besiege(
    siege: Siege, url: str, record: Record, began_s: float, length: Length, tell: Callable[[], None]
) -> None:
    """Puts the URL under siege for that length and writes every answer into the record as it comes.

    Args:
        began_s: the `time.monotonic` that times in the record count from.
        tell: called for each answer.

    Raises:
        CaseFailedError: siege ended by itself.
    """

    def take(line: str, arrived_s: float) -> None:
        transaction = parse(line)
        if transaction is not None:
            _append(record, transaction, arrived_s - began_s)
            length.answer(transaction.user, arrived_s - began_s)
            tell()
        elif line.strip():
            record.siege_unknown += 1
            if len(record.siege_unknown_lines) < UNKNOWN_LINES_KEPT:
                record.siege_unknown_lines.append(line.strip()[:200])

    command = siege.command(record.users, length.end_s, url)
    record.siege_command = [Path(word).name if word == siege.path else word for word in command]
    async with _siege_process(siege, command, record) as (process, terminal):
        with reading_lines(terminal, take) as read_the_rest:
            await until(lambda: process.ended() or time.monotonic() >= began_s + length.end_s, math.inf, CALM_LOOK_S)
            if process.ended():
                raise CaseFailedError("siege_failed", "siege ended before its time")
            record.siege_s = time.monotonic() - began_s
            record.siege_cpu_s = _cpu_s(process.pid)
            process.process.terminate()  # siege lifts the siege at once and prints its summary
            await process.wait(LIFT_LIMIT_S)
            read_the_rest()


@contextlib.asynccontextmanager
async def _siege_process(siege: Siege, command: list[str], record: Record) -> AsyncIterator[tuple[Started, int]]:
    """Siege, writing to a terminal of ours, because into a pipe it would write its lines in blocks."""
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        with os.fdopen(theirs, "wb") as stdout:
            environment = {**os.environ, "HOME": str(siege.home)}
            process = Started(command, environment=environment, stdout=stdout, may_hide=False)
        summary = Tail(process.process.stderr)
        try:
            yield process, ours
        finally:
            await process.stop(grace_s=0)
            await until(lambda: not summary.reading(), 1.0)
            _read_summary(record, summary.text())
    finally:
        os.close(ours)


def _read_summary(record: Record, text: str) -> None:
    record.siege_report = text
    answered_5xx = sum(status >= 500 for status in record.transactions.status)
    record.socket_failures = max(0, socket_failures(text) - answered_5xx)


def _append(record: Record, transaction: Transaction, at_s: float) -> None:
    columns = record.transactions
    columns.finished_s.append(round(at_s, 6))
    columns.siege_s.append(transaction.siege_s)
    columns.status.append(transaction.status)
    columns.size_bytes.append(transaction.size_bytes)
    columns.user.append(transaction.user)


def _cpu_s(pid: int) -> float | None:
    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return used.user + used.system
