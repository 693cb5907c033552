"""Provide a Dask cluster for the server: a LocalCluster, or the cluster that Dask's configuration names."""

import asyncio
import contextlib
import time
import uuid
import warnings
from collections.abc import AsyncIterator
from typing import Any

import dask
from distributed import Client, Future

from common.errors import one_line, silence
from common.kits.job_endpoints import Job
from common.lifecycle import unready_while
from common.options import quit_with
from common.parent_watch import exit_with_server
from common.responses import RefusedError, error_text
from common.task import TaskRun, perform

CONNECT_LIMIT_S = 5
MOST_JOBS, KEPT_S = 10_000, 3600  # maximum number of unfinished jobs; how many seconds to keep a job


class Cluster:
    """A Dask client and its jobs, which are known only to this process."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._jobs: dict[str, tuple[float, asyncio.Task[TaskRun]]] = {}  # id → (submission time, job), oldest first
        self._unfinished: set[asyncio.Task[TaskRun]] = set()

    def trouble(self) -> str:
        """Return a one-line reason why the cluster can't work, or an empty string if it can."""
        return "" if self.client.status == "running" else f"the Dask cluster is {self.client.status}"

    async def post(self, task: str) -> str:
        """Accept a job and return its id.

        Raises:
            RefusedError: there is no cluster, or too many jobs are unfinished.
        """
        if self.trouble() or len(self._unfinished) >= MOST_JOBS:
            raise RefusedError(self.trouble() or f"there are already {MOST_JOBS} unfinished jobs")
        self._forget_old_jobs()
        name = uuid.uuid4().hex
        job = asyncio.create_task(result_of(self.client.submit(perform, task, pure=False)))
        self._jobs[name] = time.monotonic(), job
        self._unfinished.add(job)
        job.add_done_callback(self._unfinished.discard)
        return name

    def _forget_old_jobs(self) -> None:
        old_s = time.monotonic() - KEPT_S
        while self._jobs:
            name, (posted_s, job) = next(iter(self._jobs.items()))
            if posted_s > old_s or not job.done():
                return
            del self._jobs[name]

    async def find(self, name: str, wait_s: float) -> Job | None:
        """Wait up to `wait_s` for the job to finish; return the job, or None if it is unknown."""
        _, job = self._jobs.get(name, (0.0, None))
        if job is None:
            return None
        await asyncio.wait([job], timeout=wait_s)
        if not job.done():
            return Job("queued or running")  # only the scheduler can distinguish these states
        error = job.exception()
        return Job(error=error_text(error)) if error else Job(run=job.result())


@contextlib.asynccontextmanager
async def cluster(workers: int) -> AsyncIterator[Cluster]:
    """Connect to the configured scheduler, or start a LocalCluster with one single-threaded process per worker."""
    address = dask.config.get("scheduler-address", None)
    silence("distributed")
    dask.config.set({"distributed.worker.preload": [__name__]})
    local: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    try:
        client = await Client(asynchronous=True, timeout=CONNECT_LIMIT_S, **({} if address else local))
    except (OSError, ValueError) as error:
        warnings.simplefilter("ignore")  # a client that fails to connect warns that it wasn't closed
        if not address:
            quit_with(f"the local Dask cluster did not start: {one_line(error)}")
        quit_with(f"no Dask scheduler at {address!r}: {one_line(error)}; start one, or unset DASK_SCHEDULER_ADDRESS")
    async with client:
        opened = Cluster(client)
        unready_while(opened.trouble)
        yield opened


def dask_setup(_worker: object) -> None:
    """Set up a worker of a LocalCluster. Dask calls this, because `distributed.worker.preload` names this module."""
    exit_with_server()
    silence("distributed")  # the HTTP client gets the task's error, so it needn't be logged


async def result_of(future: Future[TaskRun]) -> TaskRun:
    """Return the result of a Dask future. If this coroutine is cancelled, cancel the future on the cluster."""
    try:
        run: TaskRun = await future
    except asyncio.CancelledError:
        await future.cancel()
        raise
    return run
