"""Sample the stacks of all Python processes of a server with py-spy, which reads their memory from outside.

Three consecutive passes sample threads in any state ("wall"), on a CPU ("cpu"), and holding the GIL ("gil"). Meanwhile,
the bench polls the kernel to find out how often the main thread of each process waits for a lock.
"""

import asyncio
import contextlib
import linecache
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import psutil

from common.task import BUILTIN_TASKS, is_prime
from under_siege.formatting import legible
from under_siege.host.commands import run_to_end
from under_siege.host.managed_process import processes
from under_siege.host.process_tree import descendants
from under_siege.load.background import in_background
from under_siege.paths import ROOT
from under_siege.profile.source_lookup import LIBRARY, is_in_coroutine
from under_siege.record.files import read_limited
from under_siege.record.record import CaseFailedError, Frames, Profile, Stacks, append_row
from under_siege.record.requests import LARGEST_INDEX

RATE_PER_S = 10  # each sample costs about 0.35 ms of CPU time, and each start of py-spy 13 ms
PASSES = {"wall": ["--idle"], "cpu": [], "gil": ["--gil"]}
LONGEST_DELAY_S = 15.0  # how much longer than planned a pass is allowed to take, because the machine may be busy
LOCK_CHECK_INTERVAL_S = 0.05
MOST_BYTES = 64_000_000
MOST_STACKS = 4000
MOST_FRAMES = 120
MOST_LETTERS = 160
_LINE = re.compile(r"thread \((\w+)\)(?:: ([^;]*))?;(.*) (\d+)$")
_INNER = re.compile(r"(\.<locals>)?\.<(genexpr|lambda|\w+comp)>.*")
_FRAME = re.compile(r"(.*) \((.*?)(?::(-?\d+))?\)$")
_OWN_SERVERS = ("servers/", "suites/", "under_siege/drill/task/")
_OWN_TASKS = {*BUILTIN_TASKS, is_prime.__name__}  # functions in common/task.py
_PYTHON = {"", ".py", ".pyw", ".pyx"}
_PERMISSION = (
    "py-spy is not allowed to read the memory of other processes: run as root, set kernel.yama.ptrace_scope to 0 "
    "(sudo sysctl kernel.yama.ptrace_scope=0), or start the container with --cap-add SYS_PTRACE"
)


class Frame(NamedTuple):
    """A frame of a stack: a line of a function."""

    function: str
    file: str
    line: int
    kind: str  # "library"; or, for the application, "app", "async" (a coroutine), or "await" (it awaits the next frame)
    source: str  # text of the line; empty for libraries

    @property
    def name(self) -> str:
        """Return the display name of the function; a comprehension or lambda has that of its enclosing function."""
        return _INNER.sub("", self.function).replace("<locals>.", "")

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


async def sample(pid: int, time_s: float, folder: Path, profile: Profile) -> None:
    """Sample the process and its descendants, and add the stacks to the profile.

    Args:
        folder: directory of the application; file names become relative to this directory.

    Raises:
        CaseFailedError: no process could be sampled.
    """
    used_s = cpu_times_s(python_processes(pid))
    if not used_s:
        raise CaseFailedError("not_python", "none of the server's processes runs CPython, so none can be profiled")
    counts: dict[tuple[int, str, str], Counter[str]] = {}
    for name, options in PASSES.items():
        pids, duration_s = processes_for(name, pid, used_s), pass_s(time_s)
        profile.samples[name] = duration_s * RATE_PER_S
        with TemporaryDirectory() as directory:
            files = [Path(directory) / str(each) for each in pids]
            async with in_background(_watch_locks(profile, pids)):
                recordings = [_record(each, options, duration_s, file) for each, file in zip(pids, files, strict=True)]
                errors = await asyncio.gather(*recordings)
            if error := next(filter(None, errors), None) if all(errors) else None:
                raise error
            for each, file in zip(pids, files, strict=True):
                _count(name, each, file, counts)
    if not counts:
        raise CaseFailedError("no_samples", "py-spy returned no samples; the server's processes may have ended")
    _add(profile, counts, folder)


def pass_s(time_s: float) -> int:
    """Return the duration of each pass in whole seconds, as py-spy requires."""
    return max(1, round(time_s / len(PASSES)))


def python_processes(pid: int) -> list[int]:
    """Return the Python processes among a process and its descendants."""
    found = []
    for process in processes([pid, *descendants(pid)]):
        with contextlib.suppress(psutil.Error, OSError):
            maps = Path(f"/proc/{process.pid}/maps")
            if Path(process.exe()).name.startswith("python") or "/libpython3" in maps.read_text():
                found.append(process.pid)
    return found


def cpu_times_s(pids: Sequence[int]) -> dict[int, float]:
    """Return the CPU time of each process that still exists."""
    times_s = dict[int, float]()
    for process in processes(pids):
        with contextlib.suppress(psutil.Error):
            times_s[process.pid] = sum(process.cpu_times()[:2])
    return times_s


def processes_for(name: str, pid: int, used_s: Mapping[int, float]) -> list[int]:
    """Return the Python processes to sample in a pass, given their CPU times before the first pass.

    The CPU and GIL passes skip processes that have used no CPU time since then, such as a forkserver.
    """
    now_s = cpu_times_s(python_processes(pid))
    return [each for each, time_s in now_s.items() if name == "wall" or time_s != used_s.get(each)]


def record_command(pid: int, options: list[str], duration_s: int, file: Path) -> list[str]:
    """Return the command that samples a process and writes a line for each distinct stack."""
    # With --subprocesses, py-spy would read the parent of every process of the machine ten times a second.
    every = ["--threads", "--full-filenames", "--format", "raw", "--rate", str(RATE_PER_S)]
    these = ["--pid", str(pid), "--duration", str(duration_s), "--output", str(file)]
    return [py_spy(), "record", *every, *these, *options]


async def _record(pid: int, options: list[str], duration_s: int, file: Path) -> CaseFailedError | None:
    """Write the stacks of a process to a file; return None, or the error if that failed."""
    command = record_command(pid, options, duration_s, file)
    run = await run_to_end(command, duration_s + LONGEST_DELAY_S, may_hide=False)
    if "ermission" in run.stderr.text():
        return CaseFailedError("no_permission", _PERMISSION)
    if file.exists():  # noqa: ASYNC240 (a local file)
        return None
    error = re.search(r"Error: (.*)", f"{run.stdout.text()}\n{run.stderr.text()}")
    reason = legible(error[1][:MOST_LETTERS]) if error else "it wrote no samples"
    if run.status is None:
        reason = "it did not finish in time"
    return CaseFailedError("profiler_failed", f"py-spy failed: {reason}")


def py_spy() -> str:
    """Return the path of py-spy, next to this Python or on the PATH.

    Raises:
        CaseFailedError: py-spy is missing.
    """
    beside = Path(sys.executable).with_name("py-spy")
    if path := str(beside) if beside.exists() else shutil.which("py-spy"):
        return path
    raise CaseFailedError("no_profiler", f"py-spy is missing; install it with: {sys.executable} -m pip install py-spy")


async def _watch_locks(profile: Profile, pids: Sequence[int]) -> None:
    """Check the main threads repeatedly; count all checks, and the checks in which a thread waits for a lock."""
    while True:
        for pid in pids:
            with contextlib.suppress(OSError):
                looks = profile.waits.setdefault(pid, [0, 0])
                channel = Path(f"/proc/{pid}/task/{pid}/wchan").read_text(encoding="ascii")  # noqa: ASYNC240 (see proc(5))
                looks[0] += 1
                looks[1] += "futex" in channel
        await asyncio.sleep(LOCK_CHECK_INTERVAL_S)


def _count(name: str, pid: int, file: Path, counts: dict[tuple[int, str, str], Counter[str]]) -> None:
    """Update `counts`, whose keys are process, thread and stack, with the samples of one process in one pass."""
    text = read_limited(file, most_bytes=MOST_BYTES).decode(errors="replace") if file.exists() else ""
    for number, thread, stack, count in (match.groups() for match in map(_LINE.match, text.splitlines()) if match):
        thread = "MainThread" if number == str(pid) else thread or number  # gevent hides thread names
        counts.setdefault((pid, thread, stack), Counter())[name] += int(count)


def _add(profile: Profile, counts: dict[tuple[int, str, str], Counter[str]], folder: Path) -> None:
    """Add the most frequent stacks to the profile, without the middle frames of very deep stacks."""
    profile.frames = Frames()
    profile.stacks = Stacks()
    indices = dict[Frame, int]()
    for (pid, thread, stack), of_pass in sorted(counts.items(), key=lambda item: -item[1].total())[:MOST_STACKS]:
        texts = stack.split(";")
        texts = texts if len(texts) <= MOST_FRAMES else texts[: MOST_FRAMES // 2] + texts[-MOST_FRAMES // 2 :]
        frames = _frames(texts, folder)
        for frame in dict.fromkeys(frames):
            if indices.setdefault(frame, len(indices)) == len(profile.frames.line):
                append_row(profile.frames, *frame)
        row = [indices[frame] for frame in frames]
        append_row(profile.stacks, pid, legible(thread)[:MOST_LETTERS], row, *(of_pass[name] for name in PASSES))


def _frames(texts: Sequence[str], folder: Path) -> list[Frame]:
    """Return the frames of a stack; the innermost frame of the application is marked if it awaits what it calls."""
    frames = [_frame(text, folder) for text in texts]
    own = max((index for index, frame in enumerate(frames) if frame.kind != "library"), default=-1)
    if own >= 0 and frames[own].kind == "async":
        callee = _FRAME.match(texts[own + 1]) if own + 1 < len(texts) else None
        awaits = is_in_coroutine(callee[2], int(callee[3] or 0)) if callee else "await " in frames[own].source
        frames[own] = frames[own]._replace(kind="await" if awaits else "async")
    return frames


Row = tuple[int, str, list[Frame], int, int, int]


def frames_of(frames: Frames) -> list[Frame]:
    return list(map(Frame, *msgspec.structs.astuple(frames)))


def stacks_of(profile: Profile) -> list[Row]:
    """Return a row for each stack: process, thread, frames, and its samples in any state, on a CPU and with the GIL."""
    table = frames_of(profile.frames)
    return [
        (pid, thread, [table[index] for index in indices], *counts)
        for pid, thread, indices, *counts in zip(*msgspec.structs.astuple(profile.stacks), strict=True)
    ]


@cache
def _frame(text: str, folder: Path) -> Frame:
    match = _FRAME.match(text)
    function, path, line = match.groups() if match else (text, "", None)
    number, library = int(line or 0), LIBRARY.match(path)
    if not library and Path(path).suffix not in _PYTHON:  # a compiled template, whose lines are not those of the file
        file = f"jinja2/{Path(path).name}"
        return Frame(legible(function)[:MOST_LETTERS], legible(file)[:MOST_LETTERS], 0, "library", "")
    number = number if 0 <= number <= LARGEST_INDEX else 0  # py-spy sometimes misreads frames
    inside = path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else ""
    is_own = inside.startswith(_OWN_SERVERS) or (inside == "common/task.py" and function.split(".")[0] in _OWN_TASKS)
    if not path or (not is_own and (library or inside.startswith(("common/", "under_siege/")))):
        file = path[library.end() :] if library else inside
        return Frame(legible(function)[:MOST_LETTERS], legible(file)[-MOST_LETTERS:], number, "library", "")
    file = inside or path
    with contextlib.suppress(ValueError):
        file = str(Path(path).relative_to(folder))
    kind = "async" if is_in_coroutine(path, number) else "app"
    source = legible(linecache.getline(path, number).strip())[:MOST_LETTERS]
    return Frame(legible(function)[:MOST_LETTERS], legible(file)[-MOST_LETTERS:], number, kind, source)
