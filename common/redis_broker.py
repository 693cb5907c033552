"""A private broker and its workers: a Redis and a Celery worker that run as long as the server does."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from common.options import quit_with
from common.parent_watch import die_with_parent
from common.server_contract import path_of

# Removes the directory when the server has exited for any reason, even by a signal to its process group.
REMOVE = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$1"; } >/dev/null 2>&1 &'
ROOT = Path(__file__).parents[2]
REDIS_POLL_INTERVAL_S, REDIS_START_LIMIT_S = 0.01, 10.0


@contextlib.contextmanager
def private_broker(workers: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Start a Redis that only this user can reach, and a Celery worker with `workers` processes; stop both at the end.

    Redis keeps nothing on disk. Neither is restarted if it exits.

    Returns:
        The broker's URL, and a function that returns one line if Redis or the worker has ended, or an empty string.
    """
    with _directory() as directory, contextlib.ExitStack() as stack:
        socket, log = Path(directory) / "redis.sock", Path(directory) / "log"
        listen = ("--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700")
        in_memory = ("--dir", directory, "--logfile", str(log), "--save", "", "--appendonly", "no")
        program = path_of("redis-server") or "redis-server"
        redis = stack.enter_context(_running([program, *listen, *in_memory], {}))
        _wait_for(redis, socket, log)
        url = f"redis+socket://{socket}"
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = {"CELERY_BROKER_URL": url, "PYTHONPATH": path, "TMPDIR": directory}
        command = [sys.executable, "-P", "-m", "common.kits.celery_worker", str(workers)]
        worker = stack.enter_context(_running(command, variables))

        def trouble() -> str:
            if redis.poll() is not None:
                return "the private Redis has ended; restart the server"
            return "" if worker.poll() is None else "the private Celery worker has ended; restart the server"

        yield url, trouble


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """Make a temporary directory that is removed even if this process is killed."""
    with tempfile.TemporaryDirectory(prefix="under-siege-", ignore_cleanup_errors=True) as directory:
        until_closed, ours = os.pipe()
        try:
            command = ["sh", "-c", REMOVE, "sh", directory]
            subprocess.run(command, stdin=until_closed, start_new_session=True, check=True)
            os.close(until_closed)
            yield directory
        finally:
            os.close(ours)


@contextlib.contextmanager
def _running(command: list[str], variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that exits with this one, but ignores signals to the process group."""
    server = os.getpid()

    def in_child() -> None:
        die_with_parent(server)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    process = subprocess.Popen(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=in_child,  # no thread runs yet
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for(redis: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline_s = time.monotonic() + REDIS_START_LIMIT_S
    while not socket.exists():
        if redis.poll() is not None or time.monotonic() > deadline_s:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            quit_with("; ".join(["redis-server can't be started", *(line[:200] for line in lines[-1:])]))
        time.sleep(REDIS_POLL_INTERVAL_S)
