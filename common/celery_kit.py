"""Define the Celery application of 12_async_celery, and connect the server to its broker.

CELERY_BROKER_URL contains the URL of the broker. To start a worker, run `celery --app common.celery_kit worker`.
Without this variable, the server starts a private Redis and a private worker, which exit with it.
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

from celery import Celery, signals, states
from celery.exceptions import TimeoutError as NotFinishedError
from celery.result import AsyncResult
from celery.utils import uuid

from common.errors import one_line
from common.options import Options, quit_with
from common.task import TaskError, TaskRun
from common.task import perform as perform_here
from common.workers import exit_with_server

ROOT = Path(__file__).parents[1]
START_LIMIT_S, POLL_INTERVAL_S = 20.0, 0.01
OWN_START_LIMIT_S = 60.0  # for a worker that this server starts, because its imports are slow on a busy machine
LOOK_S = 0.5  # how often a thread that waits for a result checks whether the server is shutting down
POSTED = "POSTED"  # state of a job that no worker has started; Celery itself can't tell it from an unknown id
T = TypeVar("T")
_URL = os.environ.get("CELERY_BROKER_URL", "")

app = Celery("under_siege", broker=_URL, backend=_URL, set_as_current=False)
app.conf.update(
    task_default_queue="under_siege",
    task_acks_late=True,  # the broker keeps a task until its worker has finished it
    task_reject_on_worker_lost=True,
    task_retry_on_worker_lost=True,  # so max_retries also limits a task that always kills its process
    task_track_started=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_backend_transport_options={"retry_policy": {"timeout": 5.0}},
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)


@app.task(max_retries=2, default_retry_delay=0)  # type: ignore[untyped-decorator]
def perform(spec: str) -> dict[str, Any]:
    """Perform the task and return the fields of its `TaskRun`."""
    return asdict(perform_here(spec))


signals.worker_process_init.connect(lambda **_: exit_with_server(), weak=False)


class JobQueue:
    """Send tasks to the broker, and wait for each result on a separate thread with `AsyncResult.get`."""

    def __init__(self, ended: Callable[[], str]) -> None:
        self.broken, self._is_open = ended, True
        self._threads = ThreadPoolExecutor(1000, "celery")  # each request waits for its result in a thread

    def close(self) -> None:
        self._is_open = False
        self._threads.shutdown(cancel_futures=True)  # before Redis ends, because Celery would try to reconnect

    async def perform(self, task: str) -> TaskRun:
        """Send the task to a worker and return its result; raise TaskError if it failed."""
        return await self._on_thread(lambda: self._result(perform.delay(task)))

    async def post(self, task: str) -> str:
        """Send a job, and return its id once the broker has accepted the job."""
        job_id: str = uuid()
        await self._on_thread(lambda: app.backend.store_result(job_id, None, POSTED))
        await self._on_thread(lambda: perform.apply_async((task,), task_id=job_id))
        return job_id

    async def find(self, name: str, wait_s: float) -> TaskRun | str | None:
        """Wait up to `wait_s` for the job; return its result, its state, or None if it is unknown or has expired."""
        result = AsyncResult(name, app=app)
        state = await self._on_thread(lambda: result.state)
        if state == states.PENDING:
            return None
        try:
            return await self._on_thread(lambda: self._result(result, wait_s))
        except NotFinishedError:
            app.backend.remove_pending_result(result)  # otherwise, each poll would leave a pending result
            return "running" if state == states.STARTED else "queued"

    async def _on_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _result(self, result: AsyncResult, wait_s: float = float("inf")) -> TaskRun:
        deadline_s = time.monotonic() + wait_s
        while self._is_open:
            with contextlib.suppress(NotFinishedError):
                return TaskRun(**result.get(timeout=max(0.0, min(deadline_s - time.monotonic(), LOOK_S))))
            if time.monotonic() >= deadline_s:
                raise NotFinishedError
        result.backend = None  # otherwise, it would unsubscribe at its end, when Redis has ended, too
        raise TaskError("the server is shutting down")


@contextlib.asynccontextmanager
async def job_queue(options: Options) -> AsyncIterator[JobQueue]:
    """Open a job queue on the Redis at CELERY_BROKER_URL, or by default on a private Redis with a private worker."""
    for library in ("celery", "kombu", "redis"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        ended: Callable[[], str] = str
        if not _URL:
            url, ended = stack.enter_context(private_broker(options.workers))
            app.conf.update(broker_url=url, result_backend=url)
        queue = stack.enter_context(contextlib.closing(JobQueue(ended)))
        await asyncio.to_thread(_wait_for_worker, ended)
        yield queue


def _wait_for_worker(ended: Callable[[], str]) -> None:
    """Exit with a one-line error unless a worker answers in time."""
    deadline_s = time.monotonic() + (START_LIMIT_S if _URL else OWN_START_LIMIT_S)
    try:
        while not app.control.ping(timeout=1.0, limit=1):
            if ended() or time.monotonic() > deadline_s:
                quit_with(ended() or "no Celery worker answers; start one: celery --app common.celery_kit worker")
    except Exception as error:  # redis and kombu raise various errors
        quit_with(f"no Redis at CELERY_BROKER_URL={_URL!r}: {one_line(error)}; start one, or unset the variable")


@contextlib.contextmanager
def private_broker(workers: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Run a private Redis and a Celery worker; yield the URL, and a function that says which of them has exited."""
    program = which("redis-server", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")
    if program is None:
        quit_with("needs redis-server, which is not installed; install it, or run scripts/setup")
    with tempfile.TemporaryDirectory(prefix="under-siege-", ignore_cleanup_errors=True) as folder:
        socket, url = Path(folder, "redis.sock"), f"redis+socket://{folder}/redis.sock"
        in_memory = ("--dir", folder, "--logfile", f"{folder}/log", "--save", "", "--appendonly", "no")
        with _running(url, program, "--port", "0", "--unixsocket", str(socket), *in_memory) as redis:
            deadline_s = time.monotonic() + START_LIMIT_S
            while not socket.exists():
                if redis.poll() is not None or time.monotonic() > deadline_s:
                    quit_with("redis-server can't be started; run it by hand to see why")
                time.sleep(POLL_INTERVAL_S)
            celery = (sys.executable, "-P", "-W", "ignore", "-m", "celery", "--quiet", "--app", "common.celery_kit")
            alone = ("--without-gossip", "--without-mingle", "--without-heartbeat")  # there are no other workers
            how = ("worker", "--loglevel", "CRITICAL", "--concurrency", str(workers), *alone)
            with _running(url, *celery, *how) as worker:

                def ended() -> str:
                    for name, process in (("Redis", redis), ("Celery worker", worker)):
                        if process.poll() is not None:
                            return f"the server's own {name} has exited; restart the server"
                    return ""

                yield url, ended


@contextlib.contextmanager
def _running(url: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in its own process group; stop it at the end, or when this process is killed."""
    # Celery inserts the current directory at the front of sys.path, unless sys.path contains it.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), str(Path.cwd())])
    environment = {**os.environ, "PYTHONPATH": path, "CELERY_BROKER_URL": url}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=exit_with_server
    )
    try:
        yield process
    finally:
        process.kill()  # its tasks are those of this server, whose clients are gone
        process.wait()
