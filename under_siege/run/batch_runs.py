"""The load of a tool that tells only totals: it is run several times, back to back, and each time is a burst."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from under_siege.environments.tool_install import Tool
from under_siege.errors import CaseFailedError
from under_siege.load_tools.tool import LoadSpec, ToolOutput, Totals
from under_siege.model.record import Record
from under_siege.monitors.resource_usage import Wakefulness, tree_usage
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, until
from under_siege.processes.ports import claimed_port
from under_siege.processes.process_output import Tail
from under_siege.run.duration import Length

OVERRUN_S = 60.0  # that a burst may take longer than it was told: a stuck server, or a tool that waits for answers
REQUESTS_LIMIT_S = 3600.0  # within which a number of requests has to be sent
SHORTEST_S = 1e-3
MOST_KEPT = 4000  # characters of what a tool has written
FIRST_PORT = 5557  # Locust's own


async def drive_in_bursts(tool: Tool, order: LoadSpec, record: Record, length: Length) -> None:
    """Runs the tool as often as there is time for, and writes the totals of each time into the record.

    Raises:
        CaseFailedError: the tool told nothing, or did not end.
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
    with _port_for(order) as port:
        await _burst_with(tool, replace(order, port=port), record)


@contextlib.contextmanager
def _port_for(order: LoadSpec) -> Iterator[int | None]:
    """One over which several processes of a tool can talk, which no other run takes meanwhile."""
    if order.threads == 1:
        yield None
        return
    with claimed_port(FIRST_PORT) as claim:
        yield claim.getsockname()[1]


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
        told = ToolOutput(process.process.poll() or 0, stdout.text(), stderr.text(), tool.results())
    finally:
        await process.stop(grace_s=0)
        said = stdout.text(), stderr.text(), *(text[:MOST_KEPT] for text in tool.results().values())
        record.tool_report = "\n".join(filter(None, [record.tool_report, *said]))
    totals = tool.driver.totals(told, order)
    if totals is None:
        raise CaseFailedError(f"{tool.driver.name}_failed", _last_words(tool.driver.name, told))
    took_s = max(SHORTEST_S, totals.took_s or ended_s - began_s)
    _append(record, totals, ended_s - took_s - (record.load_began_s or 0.0), took_s)
    record.bursts.tool_cpu_s.append(round(used.cpu_s if used else 0.0, 4))
    record.bursts.tool_awake.append(awake.cpus(took_s))
    record.tool_cpu_s = sum(record.bursts.tool_cpu_s)


async def _watched(process: ManagedProcess, deadline_s: float) -> Wakefulness:
    """How long it was awake until it ended."""
    awake = Wakefulness(process.pid)
    while not process.ended() and time.monotonic() < deadline_s:
        awake.look()
        await process.wait(CALM_LOOK_S, CALM_LOOK_S / 2)
    return awake


def _last_words(name: str, told: ToolOutput) -> str:
    lines = [line.strip() for line in f"{told.stdout}\n{told.stderr}".splitlines() if line.strip()]
    said = f"its last line: {lines[-1][:300]}" if lines else "it said nothing"
    return f"{name} ended with exit code {told.status} and without any figures; {said}"


def _append(record: Record, totals: Totals, began_s: float, took_s: float) -> None:
    columns = record.bursts
    columns.began_s.append(round(began_s, 6))
    columns.took_s.append(round(took_s, 6))
    columns.right.append(totals.right)
    columns.wrong_status.append(totals.wrong_status)
    columns.unanswered.append(totals.unanswered)
    columns.connect_errors.append(totals.connect_errors)
    columns.p50_s.append(totals.p50_s)
    columns.p95_s.append(totals.p95_s)
    columns.p99_s.append(totals.p99_s)
    columns.max_s.append(totals.max_s)
    columns.kept_alive.append(totals.kept_alive)
    columns.body_bytes.append(totals.body_bytes)
    columns.wrong_contents.append(totals.wrong_contents)
    columns.odd_bytes.append(totals.odd_bytes)
