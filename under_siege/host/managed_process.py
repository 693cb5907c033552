"""Start processes in their own sessions, read their output, and stop all of them, even after a signal."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from under_siege.formatting import legible
from under_siege.host.cpu_division import cpus_of_process
from under_siege.host.log_text import plain
from under_siege.host.process_tree import descendants, exit_status, inherited, is_resource_tracker, pids_with_variable
from under_siege.host.supervisor import TRACKER_LIMIT_S
from under_siege.host.supervisor_client import current_supervisor
from under_siege.record.record import CaseFailedError
from under_siege.secrets import masked

LONGEST_LINE_BYTES = 65536  # maximum length of a line; the rest is dropped
LONGEST_ERROR = 200  # maximum number of characters of an error
LONGEST_QUOTE = 300  # maximum number of characters of a quoted line
_TRACEBACK = re.compile(r"^(?P<before>.*?)Traceback \(most recent call last\):\s*$", re.MULTILINE)

MARK = "UNDER_SIEGE_PROCESS"  # an environment variable that all descendants inherit
GRACE_S = 5.0
LOOK_S = 0.01  # polling interval
CALM_LOOK_S = 0.05  # polling interval during a measurement; more frequent polling would disturb it


class Tail:
    """Read a stream to its end on a thread, so that the process never blocks, and keep the last lines."""

    LINES = 40
    SHOWN = 4000
    KEPT_BYTES = 65536
    BREATH_S = 0.005

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._kept = b""
        self.lines = 0  # number of lines read so far
        self._fd = os.dup(stream.fileno())  # a duplicate stays open until it is read to its end
        self._thread = threading.Thread(target=self._read, name="tail", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.closing(os.fdopen(self._fd, "rb", buffering=0)) as stream:
            while chunk := stream.read(self.KEPT_BYTES):
                self.lines += chunk.count(b"\n")
                self._kept = (self._kept + chunk)[-self.KEPT_BYTES :]
                if len(chunk) > 4096:
                    time.sleep(self.BREATH_S)  # reading a flood of output must not disturb the measurement

    async def read_to_end(self) -> None:
        """Wait until the stream is closed, but at most 1 s, because a child of an ended process may keep it open."""
        await until(lambda: not self._thread.is_alive(), 1.0)

    def all_kept(self) -> str:
        return self._kept.decode(errors="replace")

    def text(self) -> str:
        """Return the last lines."""
        text = "\n".join(self.all_kept().splitlines()[-self.LINES :])
        return text if len(text) <= self.SHOWN else masked(text)[-self.SHOWN :]  # half a secret can't be masked


@contextlib.contextmanager
def reading_lines(
    fd: int, take: Callable[[str, float], None], most_bytes: int = LONGEST_LINE_BYTES
) -> Iterator[Callable[[], None]]:
    """Call `take(line, time.monotonic())` for each line; yield a function that reads all available data now."""
    rest = bytearray()

    def read() -> bool:
        nonlocal rest
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # no data, or (EIO) the other end of a terminal was closed
            chunk = b""
        arrived_s = time.monotonic()
        rest += chunk
        if b"\n" in chunk:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                take(line[:most_bytes].decode(errors="replace"), arrived_s)
        del rest[most_bytes:]  # a stream without line ends must not fill the memory
        if not chunk:
            loop.remove_reader(fd)  # at the end of a stream, asyncio would call `read` again and again
        return bool(chunk)

    def read_all() -> None:
        while read():
            pass

    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, read)
    try:
        yield read_all
    finally:
        loop.remove_reader(fd)


def last_error(stderr: str) -> str:
    """Return the last line of the last traceback, such as `KeyError: 'x'`, or an empty string if there is none."""
    stderr = plain(stderr)
    heads = list(_TRACEBACK.finditer(stderr))
    if not heads:
        return ""
    # An exception group has bars before all of its lines; a logger's prefix precedes only the first line.
    margin = heads[-1]["before"] if re.fullmatch(r"[\s|+]*", heads[-1]["before"]) else ""
    for line in stderr[heads[-1].end() :].splitlines()[1:]:
        text = line[len(margin) :]
        if text.strip() and not text.startswith((" ", "\t")):
            error = legible(masked(text.strip()))
            return error if len(error) <= LONGEST_ERROR else f"{error[: LONGEST_ERROR - 1]}…"
    return ""


def final_line(output: str) -> str:
    """Return the last line that is not blank, or an empty string if there is none."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")


def last_line(*outputs: str) -> str:
    """Quote the last line of the first output that contains words, for an error."""
    for output in outputs:
        # Skip empty lines and separators.
        if lines := [line.strip() for line in plain(output).splitlines() if re.search(r"\w", line)]:
            return f"its last line: {masked(lines[-1])[:LONGEST_QUOTE]}"
    return "it printed nothing"


def how_it_ended(status: int) -> str:
    """Describe an exit status: `ended with exit code 1` or, if it is negative, `was terminated by SIGKILL`."""
    return f"ended with exit code {status}" if status >= 0 else f"was terminated by {signal.Signals(-status).name}"


class ManagedProcess:
    """A process that leads its own session, as a child of the supervisor.

    `stdin`, `stdout` and `stderr` are the bench's ends of its pipes, or None. `returncode` is None until `reap`.
    With `is_load`, the process runs on the CPUs of the load tool, if there are any.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        may_hide: bool = True,
        folder: Path | None = None,
        is_load: bool = False,
    ) -> None:
        self._mark, self._may_hide = uuid.uuid4().hex, may_hide
        self.supervisor = current_supervisor()
        self.returncode: int | None = None
        with contextlib.ExitStack() as theirs:
            self.stdin, reads = _stream(stdin, theirs, we_write=True)
            self.stdout, writes = _stream(stdout, theirs)
            self.stderr, complains = _stream(subprocess.PIPE, theirs)
            try:
                own_environment, streams = {**environment, MARK: self._mark}, [reads, writes, complains]
                cpus = cpus_of_process(is_load=is_load)
                self.pid = self.supervisor.start(command, own_environment, streams, folder, cpus)
            except BaseException:
                self._close()
                raise
        self._began_s = psutil.Process(self.pid).create_time()  # the process exists until it is reaped

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs; don't reap it, so that its pid can't be reused.

        If the supervisor was killed, return the status of a killed process.
        """
        if self.returncode is None and self.supervisor.is_lost():
            return -signal.SIGKILL
        return exit_status(self.pid) if self.returncode is None else self.returncode

    def reap(self) -> int:
        """Wait for the end of the process, let the system reuse its pid, and return its exit status."""
        while self.returncode is None:
            if (status := self.poll()) is None:
                time.sleep(LOOK_S)
            else:
                self.returncode = status
                self.supervisor.reap(self.pid)
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM, unless the process has been reaped.

        Raises:
            CaseFailedError: the process belongs to another user, as that of sudo does.
        """
        if self.returncode is None:
            try:
                os.kill(self.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            except PermissionError:
                why = f"process {self.pid} belongs to another user, so the bench can't stop it"
                how = f"stop it with sudo kill {self.pid}, and start the server without sudo"
                raise CaseFailedError("not_stopped", f"{why}; {how}") from None

    def ended(self) -> bool:
        return self.poll() is not None

    async def wait(self, limit_s: float, look_s: float = LOOK_S) -> bool:
        """Wait for the end of the process; return whether it ended within the limit."""
        return await until(self.ended, limit_s, look_s)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Send SIGTERM, wait, then send SIGKILL to the process group and to processes that left it."""
        if not self.ended():
            self.terminate()
            await self.wait(grace_s)
        left = self._left() if self._may_hide else []
        # Python's resource trackers remove the semaphores of the other processes once those have ended.
        if trackers := [process for process in left if is_resource_tracker(process.pid)]:
            _kill(process for process in left if process not in trackers)
            await until(lambda: not any(map(_works, trackers)), TRACKER_LIMIT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.reap()
        deadline_s = time.monotonic() + GRACE_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            _kill(left)
            await until(lambda: not any(map(_works, left)), deadline_s - time.monotonic())
        self._close()
        self.supervisor.end_if_idle()

    def _close(self) -> None:
        """Close the bench's ends of the pipes."""
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # the process did not read everything
                    stream.close()

    def _left(self) -> list[psutil.Process]:
        """Return the processes that have the mark, and unmarked orphans that are younger than this process.

        Unmarked orphans have cleared their environment, so it is unknown which process started them. They are ignored
        if `may_hide` is False, because then this process never hides its children.
        """
        left = processes(pids_with_variable(MARK, self._mark))
        if self._may_hide:
            for orphan in self.supervisor.orphans():
                with contextlib.suppress(psutil.Error):
                    if orphan.create_time() >= self._began_s and inherited(orphan.pid, MARK) is None:
                        left += [orphan, *offspring(orphan.pid)]
        return [process for process in left if _works(process)]


def _stream(wanted: int | IO[bytes], theirs: contextlib.ExitStack, *, we_write: bool = False) -> tuple[Any, int]:
    """Return the bench's end of a pipe, if any, and the process's descriptor, which `theirs` closes if it is new."""
    if not isinstance(wanted, int):
        return None, wanted.fileno()
    if wanted == subprocess.DEVNULL:
        null = os.open(os.devnull, os.O_RDWR)
        theirs.callback(os.close, null)
        return None, null
    reads, writes = os.pipe()
    theirs.callback(os.close, reads if we_write else writes)
    return (os.fdopen(writes, "wb"), reads) if we_write else (os.fdopen(reads, "rb"), writes)


def offspring(pid: int) -> list[psutil.Process]:
    """Return those descendants of a process that still exist."""
    return processes(descendants(pid))


def processes(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes that still exist."""
    existing = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            existing.append(psutil.Process(pid))
    return existing


def _kill(targets: Iterable[psutil.Process]) -> None:
    for process in targets:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _works(process: psutil.Process) -> bool:
    """Return whether the process exists and is not a zombie, which only its parent can remove."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def until(condition: Callable[[], bool], limit_s: float, look_s: float = LOOK_S) -> bool:
    """Poll until the condition is true; return whether it became true within the limit (which may be `math.inf`)."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(look_s, left_s))
    return True


def until_signal(work: Coroutine[Any, Any, None]) -> int | None:
    """Run the coroutine; cancel it at the first SIGINT or SIGTERM, and return the number of that signal.

    Cancellation takes effect only where the coroutine awaits, so no process is started without being recorded. A
    second signal is ignored, so it does not interrupt the cleanup.
    """
    stopped_by: list[int] = []

    async def supervised() -> None:
        task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not stopped_by:
                stopped_by.append(number)
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            await task
        except asyncio.CancelledError:
            if not stopped_by:
                raise

    asyncio.run(supervised())
    return stopped_by[0] if stopped_by else None
