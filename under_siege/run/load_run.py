"""Driving the load: runs the tool, for an exact time where it tells of each answer, whose lines are stamped then."""

import contextlib
import math
import os
import pty
import subprocess
import time
import tty
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import psutil

from under_siege.environments.tool_install import Tool
from under_siege.errors import CaseFailedError
from under_siege.load_tools.tool import LoadSpec, ToolResponse
from under_siege.model.record import Record
from under_siege.model.suite import Load
from under_siege.monitors.resource_usage import used_cpu_s
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, until
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.run.batch_runs import REQUESTS_LIMIT_S, drive_in_bursts
from under_siege.run.duration import Length

START_LIMIT_S = 30.0
LIFT_LIMIT_S = 5.0  # how long the tool may take to end; 0.02 s is usual
UNKNOWN_LINES_KEPT = 20
Paths = Sequence[tuple[str, int]]
Running = tuple[ManagedProcess, int]  # and where its lines come


def order_of(
    load: Load, users: int, time_s: float = 0.0, url: str = "", paths: Paths = (), folder: str = ""
) -> LoadSpec:
    """What a tool is told to do for a load.

    Args:
        paths: to be asked for at random in place of that of the URL, each with the bytes of its answer.
        folder: of the target, for a script; empty where there is none.
    """
    words = load.requests, load.keep_alive, load.threads, load.options, tuple(paths), load.script, folder
    return LoadSpec(users, time_s, url, *words)


@contextlib.asynccontextmanager
async def at_the_start(tool: Tool, order: LoadSpec, record: Record) -> AsyncIterator[Running | None]:
    """The tool, waiting for its line, if it takes long to start; else none, and `drive` starts it.

    Raises:
        CaseFailedError: it does not start.
    """
    if not tool.driver.waits_to_begin:
        yield None
        return
    async with _process(tool, order, record) as running:
        lines: list[str] = []
        with reading_lines(running[1], lambda line, _: lines.append(line)):
            if not await until(lambda: bool(lines) or running[0].ended(), START_LIMIT_S) or running[0].ended():
                raise CaseFailedError(f"{tool.driver.name}_failed", f"{tool.driver.name} did not start")
        yield running


async def drive(
    tool: Tool,
    order: LoadSpec,
    record: Record,
    length: Length,
    tell: Callable[[], None],
    running: Running | None = None,
) -> None:
    """Puts the load on the URL for that length and writes what comes of it into the record.

    Args:
        tell: called for each answer, if the tool tells of single ones.
        running: from `at_the_start`.

    Raises:
        CaseFailedError: the tool ended by itself, or told nothing.
    """
    record.tool, record.tool_step_s = tool.driver.name, tool.driver.step_s
    record.keep_alive, record.tool_cpus = order.keep_alive, tool.driver.cpus(order)
    if not tool.driver.streams_responses:
        await drive_in_bursts(tool, order, record, length)
    elif running is None and tool.driver.waits_to_begin:
        async with at_the_start(tool, order, record) as running:
            await _drive_and_listen(tool, order, record, length, tell, running)
    else:
        await _drive_and_listen(tool, order, record, length, tell, running)


async def _drive_and_listen(
    tool: Tool, order: LoadSpec, record: Record, length: Length, tell: Callable[[], None], running: Running | None
) -> None:
    name, began_s, counts = tool.driver.name, record.load_began_s, order.requests is not None
    assert began_s is not None

    def take(line: str, arrived_s: float) -> None:
        arrival = tool.driver.arrival(line)
        if arrival is not None:
            _append(record, arrival, arrived_s - began_s)
            length.answer(arrival.user, arrived_s - began_s)
            tell()
        elif line.strip():
            record.tool_unknown += 1
            if len(record.tool_unknown_lines) < UNKNOWN_LINES_KEPT:
                record.tool_unknown_lines.append(line.strip()[:200])

    if counts:
        length.end_s = REQUESTS_LIMIT_S
    async with contextlib.nullcontext(running) if running else _process(tool, order, record) as (process, terminal):
        start_s = _let_begin(process) if running else 0.0
        with reading_lines(terminal, take) as read_the_rest:
            await until(lambda: process.ended() or time.monotonic() >= began_s + length.end_s, math.inf, CALM_LOOK_S)
            if process.ended() is not counts:
                why = "did not end in" if counts else "ended before"
                raise CaseFailedError(f"{name}_failed", f"{name} {why} its time")
            record.load_s = time.monotonic() - began_s
            record.tool_cpu_s = _cpu_s(process.pid, start_s)
            process.process.terminate()  # siege lifts the siege at once and prints its summary
            await process.wait(LIFT_LIMIT_S)
            read_the_rest()
    if counts:
        length.end_s = record.load_s = max(record.transactions.finished_s, default=record.load_s)


def _let_begin(process: ManagedProcess) -> float:
    """Gives the tool the line that it waits for; how many CPU seconds it has started for, none of them the server's."""
    start_s = _cpu_s(process.pid) or 0.0
    assert process.process.stdin is not None
    process.process.stdin.write(b"go\n")
    process.process.stdin.flush()
    return start_s


@contextlib.asynccontextmanager
async def _process(tool: Tool, order: LoadSpec, record: Record) -> AsyncIterator[Running]:
    """The tool, writing to a terminal of ours, because into a pipe it would write its lines in blocks."""
    command = tool.command(order)
    record.tool_command = [Path(word).name if word == tool.program else word for word in command]
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        with os.fdopen(theirs, "wb") as stdout:
            stdin = subprocess.PIPE if tool.driver.waits_to_begin else subprocess.DEVNULL
            process = ManagedProcess(
                command, environment=tool.environment(), stdin=stdin, stdout=stdout, may_hide=False
            )
        report = Tail(process.process.stderr)
        try:
            yield process, ours
        finally:
            await process.stop(grace_s=0)
            await until(lambda: not report.reading(), 1.0)
            record.tool_report = report.text()
            record.socket_failures = tool.driver.failures(record.tool_report, record.transactions.status)
    finally:
        os.close(ours)


def _append(record: Record, arrival: ToolResponse, at_s: float) -> None:
    columns = record.transactions
    columns.finished_s.append(round(at_s, 6))
    columns.took_s.append(arrival.took_s)
    columns.status.append(arrival.status)
    columns.size_bytes.append(arrival.size_bytes)
    columns.user.append(arrival.user)


def _cpu_s(pid: int, before_s: float = 0.0) -> float | None:
    try:
        return used_cpu_s(psutil.Process(pid)) - before_s
    except psutil.Error:
        return None
