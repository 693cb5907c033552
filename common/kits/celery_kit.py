"""Connect the server to Celery; by default, start a private Redis and a private worker, which exit with the server."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from celery import states
from celery.canvas import Signature
from celery.exceptions import TimeoutError as NotFinishedError
from celery.result import AsyncResult
from celery.utils import uuid

from common.errors import one_line, silence
from common.kits.celery_app import TIMEOUT_S, app, perform_job, trouble_with
from common.kits.job_endpoints import Job
from common.lifecycle import unready_while
from common.options import Options, quit_with
from common.parent_watch import die_with_parent
from common.responses import RefusedError
from common.server_contract import path_of
from common.task import TaskError, TaskRun, UnknownTaskError

# This shell command removes the directory once the server exits, even if a signal to the process group ends the server.
REMOVE = 'exec 3<&0; { read -r _ <&3; rm -rf -- "$1"; } >/dev/null 2>&1 &'
ROOT = Path(__file__).parents[2]
REDIS_POLL_INTERVAL_S, REDIS_START_LIMIT_S = 0.01, 10.0

POLL_INTERVAL_S = 0.5  # how often to check whether the broker answers and whether clients still wait for results
START_LIMIT_S = 20.0
MOST_THREADS = 1000  # each thread waits for one result
POSTED = "POSTED"  # this server's own state for a job that no worker has started; Celery has no such state
_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
FAIL_SOON = {  # short timeouts, so that clients soon get a 503 and can retry elsewhere; workers keep Celery's defaults
    "broker_transport_options": {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S, **_RETRY},
    "task_publish_retry_policy": _RETRY,
    "result_backend_transport_options": {"retry_policy": _RETRY},
    "result_backend_always_retry": False,
}
_AWAY = "the broker does not answer"


@contextlib.contextmanager
def private_broker(workers: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Start a Redis that only this user can reach, and a Celery worker with `workers` processes; stop both at the end.

    Redis stores nothing on disk. If Redis or the worker exits, it is not restarted.

    Yields:
        The broker's URL, and a function that returns a message if either has exited, or an empty string while both
        run.
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
                return "the server's own Redis has exited; restart the server"
            return "" if worker.poll() is None else "the server's own Celery worker has exited; restart the server"

        yield url, trouble


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """Create a temporary directory that is removed even if this process is killed."""
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
    """Run a process in its own process group; kill it at the end of the context, or if this process exits."""
    server = os.getpid()

    def in_child() -> None:
        die_with_parent(server)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    process = subprocess.Popen(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=in_child,  # safe, because no other thread runs yet
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


@contextlib.asynccontextmanager
async def job_queue(options: Options) -> AsyncIterator["JobQueue"]:
    """Open a job queue on the Redis at CELERY_BROKER_URL, or by default on a private Redis with a private worker."""
    silence("celery", "kombu", "redis")
    sys.unraisablehook = lambda _: None  # without a broker, AsyncResult.__del__ would print a traceback
    async with contextlib.AsyncExitStack() as stack:
        given_url = os.environ.get("CELERY_BROKER_URL")
        url, ended = (given_url, str) if given_url else stack.enter_context(private_broker(options.workers))
        app.conf.update(broker_url=url, result_backend=url, **FAIL_SOON)
        try:
            await asyncio.to_thread(app.backend.client.ping)
        except Exception as error:
            if not given_url:
                quit_with(f"the private Redis does not respond: {one_line(error)}")
            quit_with(f"no Redis at CELERY_BROKER_URL={url!r}: {one_line(error)}; start one, or unset the variable")
        queue = stack.enter_context(JobQueue(ended))
        watching = asyncio.create_task(queue.watch())
        stack.callback(watching.cancel)
        await queue.require_worker(options.task)
        yield queue


class JobQueue:
    """Send tasks to the broker, and wait for each result on a separate thread with `AsyncResult.get`."""

    def __init__(self, ended: Callable[[], str]) -> None:
        self._ended, self._trouble = ended, ""
        self._wanted: set[str] = set()  # ids of tasks whose clients are still waiting
        self._threads = ThreadPoolExecutor(MOST_THREADS, "celery")
        unready_while(lambda: self._trouble)

    def __enter__(self) -> "JobQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self._trouble = "the server is shutting down"  # stops the threads that wait for results
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def watch(self) -> None:
        """Repeatedly check the broker and the processes that the server started, until this coroutine is cancelled."""
        while True:
            self._trouble = self._ended() or await asyncio.to_thread(_why_no_answer)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def require_worker(self, task: str) -> None:
        """Exit with a one-line error unless a worker answers and can perform the task."""
        check = trouble_with.s(task).set(expires=START_LIMIT_S)
        try:
            trouble = await asyncio.wait_for(self._outcome(check), START_LIMIT_S)
        except (TimeoutError, RefusedError):
            remedy = "no Celery worker answers; start one: celery --app common.kits.celery_app worker"
            quit_with(self._trouble or remedy)
        if trouble:
            quit_with(f"a Celery worker reports: {trouble}")

    async def result_of(self, task: Signature) -> TaskRun:
        """Send a task to a worker and return its result; if this coroutine is cancelled, revoke the task.

        Raises:
            TaskError: the task raised an exception, or its process exited too often.
            RefusedError: the queue can't be used now, for example because the broker does not answer.
        """
        return TaskRun(**await self._outcome(task))

    async def _outcome(self, task: Signature) -> Any:
        task_id = uuid()
        self._wanted.add(task_id)
        try:
            return await self._on_thread(self._perform, task, task_id)
        except asyncio.CancelledError:
            self._threads.submit(app.control.revoke, task_id)
            raise
        finally:
            self._wanted.discard(task_id)

    def _perform(self, task: Signature, task_id: str) -> Any:
        result = task.apply_async(task_id=task_id)
        while task_id in self._wanted and not self._trouble:
            with contextlib.suppress(NotFinishedError):
                returned = result.get(timeout=POLL_INTERVAL_S, propagate=False)
                result.forget()
                return _value(returned)
        raise RefusedError(self._trouble)

    async def post(self, task: str) -> str:
        """Send a job, and return its id once the broker has accepted the job.

        Raises:
            RefusedError: the queue can't be used now, for example because the broker does not answer.
        """
        job_id: str = await self._on_thread(_post, task)
        return job_id

    async def find(self, name: str, wait_s: float) -> Job | None:
        """Wait up to `wait_s` for the job to finish; return the job, or None if it is unknown or has expired.

        Raises:
            RefusedError: the queue can't be used now, for example because the broker does not answer.
        """
        deadline_s = time.monotonic() + wait_s
        while True:
            left_s = max(0.0, deadline_s - time.monotonic())
            job: Job | None = await self._on_thread(_find, name, min(left_s, POLL_INTERVAL_S))
            if job is None or not job.state or not left_s:
                return job

    async def _on_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._trouble:
            raise RefusedError(self._trouble)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        except (TaskError, RefusedError):
            raise
        except Exception:  # redis, kombu and celery raise various errors if the broker does not answer
            raise RefusedError(_AWAY) from None


def _why_no_answer() -> str:
    try:
        app.backend.client.ping()
    except Exception:  # redis and its socket raise various errors
        return _AWAY
    return ""


def _post(task: str) -> str:
    job_id: str = uuid()
    app.backend.store_result(job_id, None, POSTED)  # distinguishes a queued job from an unknown id
    perform_job.apply_async((task,), task_id=job_id)
    return job_id


def _find(job_id: str, wait_s: float) -> Job | None:
    result = AsyncResult(job_id, app=app)
    if result.state == states.PENDING:
        return None
    try:
        return Job(run=TaskRun(**_value(result.get(timeout=wait_s, propagate=False))))
    except NotFinishedError:
        app.backend.remove_pending_result(result)  # otherwise, each poll of an endless job would leave a pending result
        return Job("running" if result.state == states.STARTED else "queued")
    except TaskError as error:
        return Job(error=str(error))


def _value(returned: Any) -> Any:
    """Return the value, or raise TaskError if the value is the exception of a failed task."""
    if isinstance(returned, BaseException):
        is_one_line = isinstance(returned, TaskError | UnknownTaskError)
        raise TaskError(str(returned) if is_one_line else one_line(returned))
    return returned
