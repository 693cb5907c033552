"""Run the load tool, continuously or in bursts; for the ceiling, let the users run the task without a server."""

import asyncio
import contextlib
import math
import os
import pty
import resource
import subprocess
import time
import tty
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import msgspec
import psutil

from under_siege.host.cpu_division import current_division, server_cpus
from under_siege.host.helper_process import helper
from under_siege.host.interpreter import Interpreter
from under_siege.host.limits import Group, Limits, watching_limits
from under_siege.host.machine_speed import watching_machine
from under_siege.host.managed_process import (
    CALM_LOOK_S,
    ManagedProcess,
    Tail,
    how_it_ended,
    last_line,
    reading_lines,
    until,
)
from under_siege.host.ports import claimed_port
from under_siege.host.programs import Tool
from under_siege.host.resource_usage import Wakefulness, sampling, tree_usage, used_cpu_s
from under_siege.load.answer_check import check_interval_s
from under_siege.load.client import Client, ClientOutput, must_be_set_up, setup_line
from under_siege.load.tool import LoadSpec, ToolOutput
from under_siege.measure.siege_length import Length
from under_siege.paths import script
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Record, tool_failure
from under_siege.record.requests import LOAD, OPEN, close_loop
from under_siege.secrets import masked
from under_siege.subprocess_scripts.no_server_baseline import CHECK_USER
from under_siege.suite.expected_response import Expectation

OVERRUN_S = 60.0  # maximum extra time for a burst, if the server is stuck or the tool waits for responses
REQUESTS_LIMIT_S = 3600.0  # timeout of a load with a given number of requests
SHORTEST_S = 1e-3
LONGEST_KEPT_FILE = 4000  # maximum number of characters kept of each result file of a tool
FIRST_PORT = 5557  # first port to try; Locust's default
START_LIMIT_S = 30.0
LEAD_S = 0.25  # delay before the first request of the bench's own client
MOST_MEMORY = 0.5  # maximum share of the available memory for a tool; siege leaks memory with each 503
LIFT_LIMIT_S = 5.0  # timeout for the exit of the tool, which usually takes 0.02 s
UNKNOWN_LINES_KEPT = 20
ERRORS_KEPT = 3  # number of distinct errors of a tool
SPARE_FILES = 20  # number of files that a tool opens besides a connection for each user
RunningTool = tuple[ManagedProcess, int]  # process, and file descriptor of its terminal

# A process for each user would use more memory and give no higher ceiling. With one process per CPU, a CPU would idle
# while all threads of its process wait, even if threads of other processes wait for their GIL.
PROCESSES_PER_CPU = 2
COMPUTING = 0.9  # a task that uses a CPU for this share of its time only computes
# Above this number of users, a ceiling would need minutes until nine of ten users had a result: dozens of threads of a
# process would each compute a part of their task, and finish at about the same time.
MANY_USERS = 100
START_S = 30.0  # maximum seconds for starting Python and importing the task
MOST_SLOWDOWN = 3  # maximum slowdown of a task that runs beside others, compared with its trial


class LoadRun:
    """One run of a load tool, whose results go to a record."""

    def __init__(self, tool: Tool, spec: LoadSpec, record: Record) -> None:
        self._tool = tool
        self._spec = spec
        self._record = record
        self._running: RunningTool | None = None
        self._own: ClientOutput | None = None  # what the bench's own client reports

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Start a tool that is slow to start before the load, and stop it when the context ends.

        Raises:
            CaseFailedError: the tool does not start.
        """
        if not self._tool.driver.waits_to_begin:
            yield
            return
        async with self._started() as self._running:
            yield

    @property
    def lead_s(self) -> float:
        """Return how long before the start of the load the bench's own client gets its order, to begin on time.

        Meanwhile, the monitors start. Otherwise, the load of users who pause would seem lower at its beginning.
        """
        return LEAD_S if self._tool.driver.waits_to_begin else 0.0

    async def drive(self, length: Length, tell: Callable[[], None]) -> None:
        """Run the load tool for the length of the siege, and write its results to the record.

        Args:
            tell: called for each response, if the tool reports them individually.

        Raises:
            CaseFailedError: the tool exited early or did not finish in time, or reported nothing.
        """
        driver, record = self._tool.driver, self._record
        record.tool, record.tool_step_s = driver.name, driver.step_s
        record.keep_alive, record.tool_cpus = self._spec.load.keep_alive, driver.cpus(self._spec)
        record.load_cpus = len(current_division().load)
        if not driver.streams_responses:
            await self._drive_in_bursts(length)
            return
        async with contextlib.nullcontext(self._running) if self._running else self._started() as (process, terminal):
            await self._listen(length, tell, process, terminal)

    @contextlib.asynccontextmanager
    async def _started(self) -> AsyncIterator[RunningTool]:
        """Start a tool that reports every response, wait until it is ready, and stop it at the end.

        Its stdout is a terminal, because the tool would buffer its output to a pipe.
        """
        driver, record = self._tool.driver, self._record
        command = self._command(self._spec)
        terminal, theirs = pty.openpty()
        try:
            tty.setraw(theirs)
            with os.fdopen(theirs, "wb") as stdout:
                stdin = subprocess.PIPE if driver.waits_to_begin else subprocess.DEVNULL
                process = self._process(command, stdin=stdin, stdout=stdout)
            report = Tail(process.stderr)
            try:
                if driver.waits_to_begin:
                    await _until_ready(process, terminal, driver.name)
                if self._spec.load.setup:
                    await _set_up(process, terminal, self._spec)
                yield process, terminal
            finally:
                await process.stop(grace_s=0)
                await report.read_to_end()
                record.tool_report = report.text()
                record.tool_errors = (self._problems() or driver.errors(report.all_kept()))[:ERRORS_KEPT]
                rows = record.requests.only(LOAD)
                record.unlisted_losses = driver.failures(record.tool_report, rows.status)
                if driver.drops_open_requests and record.load_s and self._spec.load.requests is None:
                    close_loop(record.requests, self._spec.users, record.load_s)
        finally:
            os.close(terminal)

    def _command(self, spec: LoadSpec) -> list[str]:
        """Return the command that generates this load; record it without the path of the program."""
        command = self._tool.command(spec)
        self._record.tool_command = [Path(word).name if word == self._tool.program else word for word in command]
        return with_open_files(command, spec.users)

    def _process(
        self, command: list[str], stdin: int = subprocess.DEVNULL, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> ManagedProcess:
        environment = self._tool.environment()
        return ManagedProcess(
            command, environment=environment, stdin=stdin, stdout=stdout, may_hide=False, is_load=True
        )

    async def _listen(self, length: Length, tell: Callable[[], None], process: ManagedProcess, terminal: int) -> None:
        name = self._tool.driver.name
        record = self._record
        has_count = self._spec.load.requests is not None
        began_s, most_bytes = record.load_began_s or 0.0, MOST_MEMORY * psutil.virtual_memory().available
        if has_count:
            length.last_until(REQUESTS_LIMIT_S)
        start_cpu_s = self._let_begin(process) if self._tool.driver.waits_to_begin else 0.0

        def is_over() -> bool:
            _check_memory(process.pid, most_bytes, record)
            return process.ended() or length.is_over(time.monotonic() - began_s)

        with reading_lines(terminal, self._recorder(length, tell)) as read_the_rest:
            await until(is_over, math.inf, CALM_LOOK_S)
            if process.ended() is not has_count:
                limit = f"did not finish within {REQUESTS_LIMIT_S:.0f} s"
                why = limit if has_count else "exited before the siege was over"
                raise CaseFailedError(tool_failure(name), f"{name} {why}")
            record.load_s = time.monotonic() - began_s
            used_s = _cpu_s(process.pid)
            record.tool_cpu_s = None if used_s is None else used_s - start_cpu_s
            process.terminate()  # siege stops and prints its summary
            await process.wait(LIFT_LIMIT_S)
            read_the_rest()
            if self._own:
                record.reconnected, record.client_stalls_s = self._own.reconnected, self._own.stalls_s
        if has_count:
            length.end_s = record.load_s = max(record.requests.only(LOAD).ended_s, default=record.load_s)

    def _recorder(self, length: Length, tell: Callable[[], None]) -> Callable[[str, float], None]:
        """Return a function that parses a line of the tool's output, given its arrival time, and records it."""
        record = self._record
        began_s = record.load_began_s or 0.0
        indexes = self._indexes()
        if self._tool.driver.is_own:
            self._own = own = ClientOutput(record.requests, began_s, has_streams=bool(self._spec.load.stream))

            def take_row(line: str, _arrived_s: float) -> None:
                if (ended := own.take(msgspec.json.decode(line))) and ended[2] != OPEN:
                    length.answer(ended[0], ended[1])
                    tell()

            return take_row

        def take(line: str, arrived_s: float) -> None:
            at_s = arrived_s - began_s
            if (response := self._tool.driver.parse_line(line)) is not None:
                index = indexes.get(response.path, -1) if indexes else 0
                record.requests.add(
                    LOAD,
                    user=response.user,
                    request=index,
                    sent_s=at_s - response.took_s,
                    ended_s=at_s,
                    status=response.status,
                    size_bytes=response.size_bytes,
                    outcome=record.outcome_of(response.status, response.size_bytes, index),
                )
                length.answer(response.user, at_s)
                tell()
            elif line.strip():
                record.tool_unknown += 1
                if len(record.tool_unknown_lines) < UNKNOWN_LINES_KEPT:
                    record.tool_unknown_lines.append(masked(line.strip())[:200])

        return take

    def _problems(self) -> list[str]:
        return self._own.problems if self._own else []

    def _let_begin(self, process: ManagedProcess) -> float:
        """Send its order to the bench's own client, and return the CPU seconds that it had used by then."""
        start_cpu_s = _cpu_s(process.pid) or 0.0
        driver, stdin = self._tool.driver, process.stdin
        assert stdin is not None
        assert isinstance(driver, Client)
        stdin.write(driver.order(self._spec, max(self._record.load_began_s or 0.0, time.monotonic())))
        stdin.flush()
        return start_cpu_s

    def _indexes(self) -> dict[str, int]:
        """Return the index of each request by this index, which the bench's client reports, and by its path or URL.

        siege reports the path of a GET request, and otherwise the URL.
        """
        indexes = {str(index): index for index in range(len(self._record.mix))}
        for index, sent in sorted(enumerate(self._record.mix), key=lambda pair: pair[1].method != "GET"):
            for reported in (sent.path,) if sent.method == "GET" else (self._spec.url_of(sent.path), sent.path):
                indexes.setdefault(reported, index)
        return indexes

    async def _drive_in_bursts(self, length: Length) -> None:
        """Run the tool repeatedly until the time is over, and record the totals of each run."""
        spec = self._spec
        driver = self._tool.driver
        record = self._record
        assert record.load_began_s is not None
        count, each_s = (1, spec.time_s) if spec.load.requests else length.bursts(driver.least_s)
        length.end_s = REQUESTS_LIMIT_S if spec.load.requests else count * (each_s + driver.start_s)
        record.tool_cpu_s = 0.0
        # The processes of a tool communicate over a port, which no other run may use.
        with contextlib.nullcontext() if spec.load.threads == 1 else claimed_port(FIRST_PORT) as claim:
            burst = replace(spec, time_s=each_s, port=claim.getsockname()[1] if claim else None)
            for _ in range(count):
                await self._run_burst(burst)
        record.load_s = time.monotonic() - record.load_began_s
        length.end_s = record.load_s if spec.load.requests else length.end_s

    async def _run_burst(self, spec: LoadSpec) -> None:
        driver, record = self._tool.driver, self._record
        limit_s = REQUESTS_LIMIT_S if spec.load.requests else spec.time_s + driver.start_s + OVERRUN_S
        command = await asyncio.to_thread(self._command, spec)  # writing many paths must not delay a ping
        began_s, process = time.monotonic(), self._process(command)
        stdout = Tail(process.stdout)
        stderr = Tail(process.stderr)
        awake = Wakefulness(process.pid)
        try:
            while not process.ended() and time.monotonic() < began_s + limit_s:
                awake.sample()
                await process.wait(CALM_LOOK_S, CALM_LOOK_S / 2)
            ended_s = time.monotonic()
            if not process.ended():
                raise CaseFailedError(tool_failure(driver.name), f"{driver.name} did not finish within {limit_s:.0f} s")
            await stdout.read_to_end()
            await stderr.read_to_end()
            used = await asyncio.to_thread(tree_usage, process.pid, memory=False)  # it exists until it is reaped
            output = ToolOutput(process.poll() or 0, stdout.text(), stderr.text(), self._tool.results())
        finally:
            await process.stop(grace_s=0)
            texts = stdout.text(), stderr.text(), *(text[:LONGEST_KEPT_FILE] for text in self._tool.results().values())
            record.tool_report = "\n".join(filter(None, [record.tool_report, *texts]))
        self._record_totals(output, spec, ended_s, ended_s - began_s, used.cpu_s if used else 0.0, awake)

    def _record_totals(
        self, output: ToolOutput, spec: LoadSpec, ended_s: float, lasted_s: float, cpu_s: float, awake: Wakefulness
    ) -> None:
        """Add the totals of a burst to the record; raise CaseFailedError if the tool has printed none."""
        driver, record = self._tool.driver, self._record
        errors = driver.errors("\n".join([output.stdout, output.stderr, *output.files.values()]))
        record.tool_errors = list(dict.fromkeys([*record.tool_errors, *errors]))[:ERRORS_KEPT]
        totals = driver.totals(output, spec)
        if totals is None:
            quoted = last_line(output.stdout, output.stderr)
            why = f"{driver.name} ended with exit code {output.status} and printed no results; {quoted}"
            raise CaseFailedError(tool_failure(driver.name), why)
        took_s = max(SHORTEST_S, totals.took_s or lasted_s)
        row = {**asdict(totals), "requests": list(totals.requests), "took_s": round(took_s, 6)}
        row["began_s"] = round(ended_s - took_s - (record.load_began_s or 0.0), 6)
        row |= {"tool_cpu_s": round(cpu_s, 4), "tool_awake": awake.cpus(took_s)}
        for column, value in row.items():
            getattr(record.bursts, column).append(value)
        record.tool_cpu_s = sum(record.bursts.tool_cpu_s)


def with_open_files(command: list[str], users: int) -> list[str]:
    """Return the command, changed so that the tool can open a connection for each user, if the soft limit is lower.

    Raises:
        CaseFailedError: the hard limit is lower, too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = users + SPARE_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return command
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise CaseFailedError(
            "open_files",
            f"{users:,} users need {needed:,} open files, but the hard limit is {hard:,} (ulimit -Hn); use fewer users",
        )
    return ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(needed), *command]


async def _until_ready(process: ManagedProcess, terminal: int, name: str) -> None:
    lines: list[str] = []
    with reading_lines(terminal, lambda line, _: lines.append(line)):
        await until(lambda: bool(lines) or process.ended(), START_LIMIT_S)
    if not lines or process.ended():
        raise CaseFailedError(tool_failure(name), f"{name} did not start")


async def _set_up(process: ManagedProcess, terminal: int, spec: LoadSpec) -> None:
    """Let the bench's own client send the requests of the setup; raise CaseFailedError if one fails."""
    assert process.stdin is not None
    parts, users, lines = urlsplit(spec.url), 0 if spec.load.arrivals_per_s else spec.users, list[str]()
    with reading_lines(terminal, lambda line, _: lines.append(line)):
        process.stdin.write(setup_line(spec.load.setup, f"{parts.scheme}://{parts.netloc}", users))
        process.stdin.flush()
        await until(lambda: bool(lines) or process.ended(), math.inf)
    must_be_set_up(msgspec.json.decode(lines[0]) if lines else {})


def _cpu_s(pid: int) -> float | None:
    try:
        return used_cpu_s(psutil.Process(pid))
    except psutil.Error:
        return None


def _check_memory(pid: int, most_bytes: float, record: Record) -> None:
    with contextlib.suppress(psutil.Error):
        if psutil.Process(pid).memory_info().rss > most_bytes:
            why = f"{record.tool} used {MOST_MEMORY:.0%} of the free memory and was stopped"
            if record.tool == "siege":
                why += ': siege 4.0 leaks 20 KB with each 503; use tool = "wrk" in a suite, or a longer queue'
            raise CaseFailedError(tool_failure(record.tool, "memory"), why)


def processes_for(users: int, computing_cpus: float | None = None) -> int:
    """Return how many processes run the task for this number of users.

    Args:
        computing_cpus: the CPU quota, if it limits a task that only computes. Then there are no more processes than can
            use it, in which users take turns: the kernel gives a part of the quota to each CPU on which a thread wakes,
            and two threads of the same core are slower, so more processes would do less work.
    """
    return min(users, PROCESSES_PER_CPU * server_cpus() if computing_cpus is None else math.ceil(computing_cpus))


def take_turns(users: int, quota: float | None, expected: Expectation) -> bool:
    """Return whether the users of a process run the task one at a time, which gives the same rate if it only computes.

    Args:
        quota: the CPU quota, if it limits the users.
    """
    return (quota is not None or users > MANY_USERS) and expected.cpu_s > COMPUTING * expected.task_s


def ready_limit_s(processes: int, expected: Expectation) -> float:
    """Return the timeout in seconds for all processes to import the task and to perform it once.

    The processes share the CPUs, and each one imports and performs the task itself.
    """
    in_line = math.ceil((processes + 1) / server_cpus())  # + 1 for the process that runs the checks
    return START_S + in_line * START_S + MOST_SLOWDOWN * (expected.task_s + in_line * expected.cpu_s)


async def run_ceiling(
    case: Case,
    python: Interpreter,
    expected: Expectation,
    record: Record,
    length: Length,
    tell: Callable[[], None],
    folder: Path | None = None,
    group: Group | None = None,
) -> None:
    """Let all users run the task, without a server, for the length of the siege; record every completed task.

    Raises:
        CaseFailedError: the processes of the users did not get ready, or exited early.
    """
    record.load_cpus = len(current_division().load)
    started_s, began_s = time.monotonic(), 0.0
    quota = Limits.of(case).cpus
    quota = None if quota is None or quota >= server_cpus() else quota
    in_turn = take_turns(case.users, quota, expected)
    processes = processes_for(case.users, quota if in_turn else None)
    arguments = {"task": case.task, "users": case.users, "processes": processes, "in_turn": in_turn}
    arguments["check_interval_s"] = check_interval_s(expected.task_s)
    command = [python.path, *script("no_server_baseline", **arguments)]

    def take(value: Any) -> None:
        nonlocal began_s
        if isinstance(value, dict):
            record.load_began_s = began_s = value["go_s"]
            return
        user, sent_s, ended_s, size_bytes = value
        times = {"sent_s": sent_s - began_s, "ended_s": ended_s - began_s}
        if user == CHECK_USER:
            record.requests.add("check", **times, outcome="correct")
            return
        outcome = record.outcome_of(200, size_bytes)
        record.requests.add(LOAD, user=user, **times, status=200, size_bytes=size_bytes, outcome=outcome)
        length.answer(user, times["ended_s"])
        tell()

    async with helper(group.command(command) if group else command, take, folder=folder) as running:
        process, limit_s = running.process, ready_limit_s(processes, expected)
        if not await until(lambda: began_s > 0 or process.ended(), limit_s):
            raise CaseFailedError("not_ready", f"{case.users} users were not ready within {limit_s:.0f} s")
        record.ready_s = record.warm_s = time.monotonic() - started_s
        async with sampling(process.pid, record, began_s, memory=False), watching_machine(record):
            with watching_limits(group, record):
                await until(
                    lambda: process.ended() or length.is_over(time.monotonic() - began_s), math.inf, CALM_LOOK_S
                )
        if process.ended():
            why = f"{how_it_ended(process.reap())}; its last line: {await running.failure()}"
            raise CaseFailedError("died", f"the process that measures the ceiling {why}")
        record.load_s = time.monotonic() - began_s
        close_loop(record.requests, case.users, record.load_s)
