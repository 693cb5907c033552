"""A Dask cluster for the server: one of its own, or the one that Dask's configuration names."""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator
from typing import Any

import dask
from distributed import Client, Future

from common.errors import one_line
from common.serving.options import quit_with
from common.serving.quiet import quieten
from common.serving.readiness import unready_while
from common.task import TaskError, TaskRun

CONNECT_LIMIT_S = 5


@contextlib.asynccontextmanager
async def cluster(workers: int) -> AsyncIterator[Client]:
    """A client of the cluster; one that is embedded has so many workers, each a process with one thread."""
    address = dask.config.get("scheduler-address", None)
    quieten("distributed")
    dask.config.set({"distributed.worker.preload": ["common.serving.dask_worker"]})
    # As long as it has something to do, its scheduler adds every task to one entry of this history, and forgets none.
    dask.config.set({"distributed.diagnostics.computations.max-history": 0})
    # Each worker looks at its stack a hundred times a second, for a dashboard that nobody opens.
    dask.config.set({"distributed.worker.profile.enabled": False})
    embedded: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    try:
        client: Client = await Client(asynchronous=True, timeout=CONNECT_LIMIT_S, **({} if address else embedded))
    except (OSError, ValueError) as error:
        warnings.simplefilter("ignore")  # of a client that was never opened and can't be closed properly
        quit_with(f"no Dask scheduler at {address!r}: {one_line(error)}; start one, or unset DASK_SCHEDULER_ADDRESS")
    async with client:
        unready_while(lambda: "" if client.status == "running" else f"the Dask cluster is {client.status}")
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
