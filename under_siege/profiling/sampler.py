"""Sample the stacks of all Python processes of a server with py-spy, which reads their memory from outside.

Three passes, one after the other, tell what a thread does: in any state ("wall"), on a CPU ("cpu"), and holding the GIL
("gil"). Meanwhile the kernel says how often the main thread of each process waits for a lock.
"""

import ast
import asyncio
import contextlib
import linecache
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from under_siege.model.profile import Frames, Profile, Stacks
from under_siege.model.record import CaseFailedError, append_row
from under_siege.model.result_file import legible, read_limited
from under_siege.paths import ROOT
from under_siege.processes.managed_process import ManagedProcess, Tail, offspring

RATE_PER_S = 20  # for each sample, the process stands still for about 0.7 ms
PASSES = {"wall": ["--idle"], "cpu": [], "gil": ["--gil"]}
LATEST_S = 15.0  # how much longer than planned a pass may take on a busy machine
LOOK_S = 0.02
MOST_BYTES, MOST_STACKS, MOST_FRAMES, MOST_LETTERS = 64_000_000, 4000, 120, 160
_LINE = re.compile(r'.*process (\d+):".*";thread \((\w+)\)(?:: ([^;]*))?;(.*) (\d+)$')
_FRAME = re.compile(r"(.*) \((.*?)(?::(\d+))?\)$")
_LIBRARY = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[^/]*/|(?=<)")
_OWN_SERVERS = ("servers/", "suites/", "common/task/builtin", "common/task/drill_tasks")
_PERMISSION = (
    "py-spy may not read the memory of other processes: run as root, set kernel.yama.ptrace_scope to 0 "
    "(sudo sysctl kernel.yama.ptrace_scope=0), or start the container with --cap-add SYS_PTRACE"
)


class Frame(NamedTuple):
    """A line of a function."""

    function: str
    file: str
    line: int
    kind: str  # "app", "async" (a coroutine function of the application), or "library"
    source: str  # the line itself, only of the application


async def sample(pid: int, time_s: float, folder: Path, profile: Profile) -> None:
    """Sample the process and its descendants, and add the stacks to the profile.

    Args:
        folder: the directory of the application, which its files are named relative to.

    Raises:
        CaseFailedError: no process could be sampled.
    """
    roots = _python_processes(pid)
    if not roots:
        raise CaseFailedError("not_python", "none of its processes runs CPython, so there is nothing to profile")
    counts: dict[tuple[int, str, str], Counter[str]] = {}
    with TemporaryDirectory() as directory, _watching_locks(profile, pid):
        short_s = max(1, int(time_s / 3))  # py-spy counts in whole seconds
        for name, options in PASSES.items():
            duration_s = short_s if name != "wall" else max(1, round(time_s) - 2 * short_s)
            profile.samples[name] = duration_s * RATE_PER_S
            files = [Path(directory) / f"{name}-{root}" for root in roots]
            await asyncio.gather(
                *(_record(root, options, duration_s, file) for root, file in zip(roots, files, strict=True))
            )
            for match in filter(None, (_LINE.match(line) for file in files for line in _lines(file))):
                process, number, thread, stack, count = match.groups()
                thread = "MainThread" if number == process else thread or number  # gevent hides the names
                counts.setdefault((int(process), thread, stack), Counter())[name] += int(count)
    if not counts:
        raise CaseFailedError("no_samples", "py-spy returned no samples; its processes may have ended")
    _add(profile, counts, folder)


def _python_processes(pid: int) -> list[int]:
    """Return the Python processes below a process, itself included, that are not below another Python process."""
    found: list[int] = []
    for process in [psutil.Process(pid), *offspring(pid)]:
        with contextlib.suppress(psutil.Error, OSError):
            parents = {parent.pid for parent in process.parents()}
            maps = Path(f"/proc/{process.pid}/maps")
            is_python = Path(process.exe()).name.startswith("python") or "/libpython3" in maps.read_text()
            if is_python and not parents & set(found):
                found.append(process.pid)
    return found


def record_command(pid: int, options: list[str], duration_s: int, file: Path) -> list[str]:
    """Return the command that samples a process and its descendants, and writes a line for each distinct stack."""
    every = ["--subprocesses", "--threads", "--full-filenames", "--format", "raw", "--rate", str(RATE_PER_S)]
    return [
        py_spy(),
        "record",
        "--pid",
        str(pid),
        *every,
        "--duration",
        str(duration_s),
        "--output",
        str(file),
        *options,
    ]


async def _record(pid: int, options: list[str], duration_s: int, file: Path) -> None:
    command = record_command(pid, options, duration_s, file)
    process = ManagedProcess(command, environment=os.environ, may_hide=False)
    stdout, stderr = Tail(process.process.stdout), Tail(process.process.stderr)
    try:
        has_ended = await process.wait(duration_s + LATEST_S)
    finally:
        await process.stop(grace_s=0)
    if "ermission" in stderr.text():
        raise CaseFailedError("no_permission", _PERMISSION)
    if not file.exists():  # noqa: ASYNC240 (a local file)
        error = re.search(r"Error: (.*)", f"{stdout.text()}\n{stderr.text()}")
        reason = legible(error[1][:MOST_LETTERS]) if has_ended and error else "it did not end"
        raise CaseFailedError("profiler_failed", f"py-spy failed: {reason}")


def py_spy() -> str:
    """Return the path of py-spy, which is installed next to this Python.

    Raises:
        CaseFailedError: it is missing.
    """
    beside = Path(sys.executable).with_name("py-spy")
    if path := str(beside) if beside.exists() else shutil.which("py-spy"):
        return path
    raise CaseFailedError("no_profiler", f"py-spy is missing; install it with: {sys.executable} -m pip install py-spy")


@contextlib.contextmanager
def _watching_locks(profile: Profile, pid: int) -> Iterator[None]:
    """Look at the main thread of each process from time to time: does the kernel let it wait for a lock?"""

    async def look() -> None:
        while True:
            for process in (pid, *(child.pid for child in offspring(pid))):
                with contextlib.suppress(OSError):
                    channel = _waiting_channel(process)
                    looks = profile.waits.setdefault(process, [0, 0])
                    looks[0] += 1
                    looks[1] += "futex" in channel
            await asyncio.sleep(LOOK_S)

    looking = asyncio.ensure_future(look())
    try:
        yield
    finally:
        looking.cancel()


def _waiting_channel(pid: int) -> str:
    """Return the kernel function in which the main thread of a process waits, see proc(5)."""
    return Path(f"/proc/{pid}/task/{pid}/wchan").read_text(encoding="ascii")


def _lines(file: Path) -> list[str]:
    return read_limited(file, most_bytes=MOST_BYTES).decode(errors="replace").splitlines()


def _add(profile: Profile, counts: dict[tuple[int, str, str], Counter[str]], folder: Path) -> None:
    """Add the most frequent stacks to the profile, each with its outermost and innermost frames."""
    profile.frames, profile.stacks, indices = Frames(), Stacks(), dict[Frame, int]()
    for (pid, thread, stack), of_pass in sorted(counts.items(), key=lambda item: -item[1].total())[:MOST_STACKS]:
        texts = stack.split(";")
        texts = texts if len(texts) <= MOST_FRAMES else texts[: MOST_FRAMES // 2] + texts[-MOST_FRAMES // 2 :]
        frames = [_frame(text, folder) for text in texts]
        for frame in dict.fromkeys(frames):
            if indices.setdefault(frame, len(indices)) == len(profile.frames.line):
                append_row(profile.frames, *frame)
        row = [indices[frame] for frame in frames]
        append_row(profile.stacks, pid, legible(thread)[:MOST_LETTERS], row, *(of_pass[name] for name in PASSES))


@cache
def _frame(text: str, folder: Path) -> Frame:
    match = _FRAME.match(text)
    function, path, line = match.groups() if match else (text, "", None)
    number, library = int(line or 0), _LIBRARY.match(path)
    inside = path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else ""
    if not path or (
        not inside.startswith(_OWN_SERVERS) and (library or inside.startswith(("common/", "under_siege/")))
    ):
        file = path[library.end() :] if library else inside
        return Frame(legible(function)[:MOST_LETTERS], legible(file)[-MOST_LETTERS:], number, "library", "")
    file = inside or path
    with contextlib.suppress(ValueError):
        file = str(Path(path).relative_to(folder))
    kind = "async" if _is_in_coroutine(path, number) else "app"
    source = legible(linecache.getline(path, number).strip())[:MOST_LETTERS]
    return Frame(legible(function)[:MOST_LETTERS], legible(file)[-MOST_LETTERS:], number, kind, source)


def _is_in_coroutine(path: str, line: int) -> bool:
    """Return whether the innermost function around a line is an `async def`."""
    around = [node for node in _functions(path) if node.lineno <= line <= (node.end_lineno or 0)]
    return bool(around) and isinstance(max(around, key=lambda node: node.lineno), ast.AsyncFunctionDef)


@cache
def _functions(path: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(read_limited(Path(path), most_bytes=2_000_000))
        return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return []
