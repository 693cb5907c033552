"""A private broker and its workers: a Redis and Celery's processes, kept running as long as the server does."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from common.options import quit_with
from common.server_contract import path_of

# The folder goes with its server, whoever ends that: this is no child of it, and not of its group, to be ended first.
REMOVE = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$1"; } >/dev/null 2>&1 &'
FOLLOWER = Path(__file__).with_name("pdeathsig_exec.py")
ROOT = Path(__file__).parents[1]
PAUSE_S = 0.2  # before a process that has ended is started again
LOOK_S, START_LIMIT_S = 0.01, 10.0


@contextlib.asynccontextmanager
async def private_broker(workers: int) -> AsyncIterator[str]:
    """The address of a Redis that only this user can reach, with so many processes behind it that do what is asked.

    It keeps nothing on disk: with the server goes what is in it.
    """
    with _folder() as folder:
        socket, log = Path(folder) / "redis.sock", Path(folder) / "log"
        program = path_of("redis-server") or "redis-server"
        settings = {"port": "0", "unixsocket": str(socket), "unixsocketperm": "700", "dir": folder, "logfile": str(log)}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        address = f"redis+socket://{socket}"
        redis = [program, *words, "--save", "", "--appendonly", "no", "--databases", "1"]
        worker = [sys.executable, "-P", "-m", "common.kits.celery_worker", str(workers)]
        async with _kept(redis, {}) as process:
            await _listening(process, socket, log)
            async with _kept(worker, {"CELERY_BROKER_URL": address, "PYTHONPATH": _with_ours()}):
                yield address


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """One that is gone when this process is."""
    with tempfile.TemporaryDirectory(prefix="under-siege-", ignore_cleanup_errors=True) as folder:
        until_closed, ours = os.pipe()
        try:
            words = ["sh", "-c", REMOVE, "sh", folder]
            subprocess.run(words, stdin=until_closed, start_new_session=True, check=True)
            os.close(until_closed)
            yield folder
        finally:
            os.close(ours)


def _with_ours() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


async def _listening(process: asyncio.subprocess.Process, socket: Path, log: Path) -> None:
    deadline_s = asyncio.get_running_loop().time() + START_LIMIT_S
    while not os.path.exists(socket):  # noqa: ASYNC240, PTH110 (quick)
        if process.returncode is not None or asyncio.get_running_loop().time() > deadline_s:
            quit_with(f"redis-server can't be started{_last_line(log)}")
        await asyncio.sleep(LOOK_S)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return f": {lines[-1][:200]}" if lines else ""


@contextlib.asynccontextmanager
async def _kept(words: list[str], environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program, started again whenever it ends."""

    async def started() -> asyncio.subprocess.Process:
        follower = [sys.executable, "-I", "-S", str(FOLLOWER), str(os.getpid())]
        return await asyncio.create_subprocess_exec(
            *follower, *words, env={**os.environ, **environment}, stdin=asyncio.subprocess.DEVNULL
        )

    process = await started()

    async def keep() -> None:
        nonlocal process
        while True:
            await process.wait()
            await asyncio.sleep(PAUSE_S)
            process = await started()

    keeping = asyncio.create_task(keep())
    try:
        yield process
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
