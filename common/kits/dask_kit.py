"""A Dask cluster for the server: one of its own, or the one that Dask's configuration names."""

import asyncio
import contextlib
import time
import uuid
import warnings
from collections.abc import AsyncIterator
from typing import Any

import dask
from distributed import Client, Future

from common.errors import one_line
from common.kits.jobs import Job
from common.logging_setup import quieten
from common.options import quit_with
from common.responses import RefusedError, unready_while
from common.task import TaskError, TaskRun, perform

CONNECT_LIMIT_S = 5
MOST_JOBS, KEPT_S = 10_000, 3600  # that are not done; and for so long each can be asked for


class Cluster(Client):  # type: ignore[misc]
    """A client with the jobs that it was given; they are gone with it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._jobs: dict[str, tuple[float, asyncio.Task[TaskRun]]] = {}  # with when each was posted, in that order
        self._undone: set[asyncio.Task[TaskRun]] = set()

    def trouble(self) -> str:
        """One line while it can't work; empty if it can."""
        return "" if self.status == "running" else f"the Dask cluster is {self.status}"

    async def post(self, task: str) -> str:
        """Takes a job and gives its name; raises RefusedError: there is no cluster, or it has enough to do."""
        if self.trouble() or len(self._undone) >= MOST_JOBS:
            raise RefusedError(self.trouble() or f"{MOST_JOBS} jobs wait already")
        self._forget_old_ones()
        name, job = uuid.uuid4().hex, asyncio.create_task(outcome(self.submit(perform, task, pure=False)))
        self._jobs[name] = time.monotonic(), job
        self._undone.add(job)
        job.add_done_callback(self._undone.discard)
        return name

    def _forget_old_ones(self) -> None:
        old_s = time.monotonic() - KEPT_S
        while self._jobs:
            name, (posted_s, job) = next(iter(self._jobs.items()))
            if posted_s > old_s or not job.done():
                return
            del self._jobs[name]

    async def find(self, name: str, wait_s: float) -> Job | None:
        """The job of that name, as soon as it is done or the time is over; None if there is none (any more)."""
        _, job = self._jobs.get(name, (0.0, None))
        if job is None:
            return None
        await asyncio.wait([job], timeout=wait_s)
        if not job.done():
            return Job("queued or running")  # which of them only the scheduler knows
        error = job.exception()
        return Job(error=str(error)) if error else Job(run=job.result())


@contextlib.asynccontextmanager
async def cluster(workers: int) -> AsyncIterator[Cluster]:
    """A client of the cluster; one that is embedded has so many workers, each a process with one thread."""
    address = dask.config.get("scheduler-address", None)
    quieten("distributed")
    dask.config.set({"distributed.worker.preload": ["common.kits.dask_worker"]})
    # As long as it has something to do, its scheduler adds every task to one entry of this history, and forgets none.
    dask.config.set({"distributed.diagnostics.computations.max-history": 0})
    # Each worker looks at its stack a hundred times a second, for a dashboard that nobody opens.
    dask.config.set({"distributed.worker.profile.enabled": False})
    # Spawned each of them would import all of this anew.
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    embedded: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    try:
        client: Cluster = await Cluster(asynchronous=True, timeout=CONNECT_LIMIT_S, **({} if address else embedded))
    except (OSError, ValueError) as error:
        warnings.simplefilter("ignore")  # of a client that was never opened and can't be closed properly
        quit_with(f"no Dask scheduler at {address!r}: {one_line(error)}; start one, or unset DASK_SCHEDULER_ADDRESS")
    async with client:
        unready_while(client.trouble)
        yield client


async def outcome(future: Future[TaskRun]) -> TaskRun:
    """What came of a task; if nobody waits for it any more, it is taken back from the cluster.

    Raises:
        TaskError: the cluster lost it, or is gone itself.
    """
    try:
        run: TaskRun = await future
    except TaskError:
        raise
    except asyncio.CancelledError:
        await future.cancel()
        raise
    except Exception as error:
        raise TaskError(f"the Dask cluster lost the task: {one_line(error)}") from None
    return run
