"""Run the load tool: for an exact time if it reports every answer, or in several bursts if it reports totals."""

import asyncio
import contextlib
import math
import os
import pty
import subprocess
import time
import tty
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import psutil

from under_siege.environments.tool_install import Tool
from under_siege.errors import CaseFailedError
from under_siege.load_tools.tool import LoadSpec, ToolOutput, ToolResponse, Totals
from under_siege.model.record import Bursts, Record
from under_siege.model.suite import Load
from under_siege.monitors.resource_usage import Wakefulness, tree_usage, used_cpu_s
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, until
from under_siege.processes.ports import claimed_port
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.run.duration import Length

OVERRUN_S = 60.0  # that a burst may take longer than it was told: a stuck server, or a tool that waits for answers
REQUESTS_LIMIT_S = 3600.0  # within which a number of requests has to be sent
SHORTEST_S = 1e-3
MOST_KEPT = 4000  # characters of what a tool has written
FIRST_PORT = 5557  # Locust's own
START_LIMIT_S = 30.0
LIFT_LIMIT_S = 5.0  # how long the tool may take to end; 0.02 s is usual
UNKNOWN_LINES_KEPT = 20
Paths = Sequence[tuple[str, int]]
Running = tuple[ManagedProcess, int]  # and where its lines come


def order_of(
    load: Load, users: int, time_s: float = 0.0, url: str = "", paths: Paths = (), folder: str = ""
) -> LoadSpec:
    """Return what a tool has to do for a load.

    Args:
        paths: to be asked for at random in place of that of the URL, each with the bytes of its answer.
        folder: of the target, for a script; empty where there is none.
    """
    words = load.requests, load.keep_alive, load.threads, load.options, tuple(paths), load.script, folder
    return LoadSpec(users, time_s, url, *words)


@contextlib.asynccontextmanager
async def at_the_start(tool: Tool, order: LoadSpec, record: Record) -> AsyncIterator[Running | None]:
    """Start a tool that takes long to start, and yield it waiting for its line; yield None for any other tool.

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
    """Send the load to the URL for that length and write the results into the record.

    Args:
        tell: called for each answer, if the tool reports single ones.
        running: from `at_the_start`.

    Raises:
        CaseFailedError: the tool ended by itself, or reported nothing.
    """
    record.tool, record.tool_step_s = tool.driver.name, tool.driver.step_s
    record.keep_alive, record.tool_cpus = order.keep_alive, tool.driver.cpus(order)
    if not tool.driver.streams_responses:
        await _drive_in_bursts(tool, order, record, length)
        return
    async with contextlib.nullcontext(running) if running else at_the_start(tool, order, record) as started:
        await _drive_and_listen(tool, order, record, length, tell, started)


async def _drive_and_listen(
    tool: Tool, order: LoadSpec, record: Record, length: Length, tell: Callable[[], None], running: Running | None
) -> None:
    name, began_s, counts = tool.driver.name, record.load_began_s, order.requests is not None
    assert began_s is not None

    def take(line: str, arrived_s: float) -> None:
        arrival = tool.driver.parse_line(line)
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
    """Send the tool the line that it waits for; return the CPU seconds that its start took."""
    start_s = _cpu_s(process.pid) or 0.0
    assert process.process.stdin is not None
    process.process.stdin.write(b"go\n")
    process.process.stdin.flush()
    return start_s


@contextlib.asynccontextmanager
async def _process(tool: Tool, order: LoadSpec, record: Record) -> AsyncIterator[Running]:
    """Start the tool with a terminal as its stdout, because it would write to a pipe in blocks."""
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


async def _drive_in_bursts(tool: Tool, order: LoadSpec, record: Record, length: Length) -> None:
    """Run the tool as often as there is time for, and write the totals of each run into the record.

    Raises:
        CaseFailedError: the tool reported nothing, or did not end.
    """
    assert record.load_began_s is not None
    count, each_s = (1, order.time_s) if order.requests else length.bursts(tool.driver.least_s)
    length.end_s = REQUESTS_LIMIT_S if order.requests else count * (each_s + tool.driver.start_s)
    record.tool_cpu_s = 0.0
    for _ in range(count):
        await _burst(tool, replace(order, time_s=each_s), record)
    record.load_s = time.monotonic() - record.load_began_s
    length.end_s = record.load_s if order.requests else length.end_s


async def _burst(tool: Tool, order: LoadSpec, record: Record) -> None:
    """Run the tool once; if it has several processes, they talk over a port which no other run takes meanwhile."""
    with contextlib.nullcontext() if order.threads == 1 else claimed_port(FIRST_PORT) as claim:
        port = claim.getsockname()[1] if claim else None
        await _burst_with(tool, replace(order, port=port), record)


async def _burst_with(tool: Tool, order: LoadSpec, record: Record) -> None:
    limit_s = REQUESTS_LIMIT_S if order.requests else order.time_s + tool.driver.start_s + OVERRUN_S
    command = await asyncio.to_thread(tool.command, order)  # it may write many paths, which must not delay a ping
    record.tool_command = [Path(word).name if word == tool.program else word for word in command]
    began_s = time.monotonic()
    process = ManagedProcess(command, environment=tool.environment(), may_hide=False)
    stdout, stderr = Tail(process.process.stdout), Tail(process.process.stderr)
    try:
        awake = await _watched(process, began_s + limit_s)
        ended_s = time.monotonic()
        if not process.ended():
            raise CaseFailedError(f"{tool.driver.name}_failed", f"{tool.driver.name} did not end in {limit_s:.0f} s")
        await until(lambda: not stdout.reading() and not stderr.reading(), 1.0)
        used = await asyncio.to_thread(tree_usage, process.pid, memory=False)  # it is there until it is reaped
        output = ToolOutput(process.process.poll() or 0, stdout.text(), stderr.text(), tool.results())
    finally:
        await process.stop(grace_s=0)
        texts = stdout.text(), stderr.text(), *(text[:MOST_KEPT] for text in tool.results().values())
        record.tool_report = "\n".join(filter(None, [record.tool_report, *texts]))
    totals = tool.driver.totals(output, order)
    if totals is None:
        raise CaseFailedError(f"{tool.driver.name}_failed", _last_words(tool.driver.name, output))
    took_s = max(SHORTEST_S, totals.took_s or ended_s - began_s)
    _append_totals(record.bursts, totals, ended_s - took_s - (record.load_began_s or 0.0), took_s)
    record.bursts.tool_cpu_s.append(round(used.cpu_s if used else 0.0, 4))
    record.bursts.tool_awake.append(awake.cpus(took_s))
    record.tool_cpu_s = sum(record.bursts.tool_cpu_s)


async def _watched(process: ManagedProcess, deadline_s: float) -> Wakefulness:
    """Return how long it was awake until it ended."""
    awake = Wakefulness(process.pid)
    while not process.ended() and time.monotonic() < deadline_s:
        awake.look()
        await process.wait(CALM_LOOK_S, CALM_LOOK_S / 2)
    return awake


def _last_words(name: str, output: ToolOutput) -> str:
    lines = [line.strip() for line in f"{output.stdout}\n{output.stderr}".splitlines() if line.strip()]
    said = f"its last line: {lines[-1][:300]}" if lines else "it said nothing"
    return f"{name} ended with exit code {output.status} and without any figures; {said}"


def _append_totals(columns: Bursts, totals: Totals, began_s: float, took_s: float) -> None:
    columns.began_s.append(round(began_s, 6))
    columns.took_s.append(round(took_s, 6))
    for field in fields(totals):
        if field.name != "took_s":
            getattr(columns, field.name).append(getattr(totals, field.name))
