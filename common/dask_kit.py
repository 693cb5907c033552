"""Provide a Dask cluster for the server: a LocalCluster, or the cluster that Dask's configuration names."""

import asyncio
import contextlib
import logging
import tempfile
import time
import uuid
import warnings
from collections.abc import AsyncIterator
from typing import Any

import cryptography  # noqa: F401 (Dask makes its certificates with it)
import dask
from distributed import Client

from common.errors import one_line
from common.options import Options, quit_with
from common.task import TaskRun, perform

KEPT_S = 3600  # how long to keep the result of a job


class Cluster:
    """A Dask client and its jobs, which are known only to this process."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._jobs: dict[str, tuple[float, asyncio.Future[TaskRun]]] = {}  # id → (time of submission, result)

    def broken(self) -> str:
        """Return the reason why the cluster can't work, or an empty string if it can."""
        return "" if self.client.status == "running" else f"the Dask cluster is {self.client.status}"

    async def post(self, task: str) -> str:
        """Accept a job and return its id."""
        old_s = time.monotonic() - KEPT_S
        self._jobs = {name: job for name, job in self._jobs.items() if job[0] > old_s or not job[1].done()}
        name = uuid.uuid4().hex
        self._jobs[name] = time.monotonic(), asyncio.ensure_future(self.client.submit(perform, task, pure=False))
        return name

    async def find(self, name: str, wait_s: float) -> TaskRun | str | None:
        """Wait up to `wait_s` for the job; return its result, its state, or None if it is unknown."""
        if name not in self._jobs:
            return None
        _, job = self._jobs[name]
        await asyncio.wait([job], timeout=wait_s)
        return job.result() if job.done() else "queued or running"  # only the scheduler can distinguish these states


@contextlib.asynccontextmanager
async def cluster(options: Options) -> AsyncIterator[Cluster]:
    """Connect to the configured scheduler, or start a LocalCluster with one single-threaded process per worker."""
    address = dask.config.get("scheduler-address", None)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="under-siege-", ignore_cleanup_errors=True) as folder:
        dask.config.set({"temporary-directory": folder})  # workers import from it; other users can write to /tmp
        local: dict[str, Any] = {
            "n_workers": options.workers,
            "threads_per_worker": 1,
            "security": True,  # TLS with a certificate of its own: whoever can connect to a cluster can run code in it
            "dashboard_address": "127.0.0.1:0",
            "silence_logs": logging.CRITICAL,
            "preload": "from common.workers import exit_with_server; exit_with_server()",
        }
        try:
            client = await Client(asynchronous=True, timeout=5, **({} if address else local))
        except (OSError, ValueError) as error:
            warnings.simplefilter("ignore")  # a client that fails to connect warns that it wasn't closed
            if not address:
                quit_with(f"the local Dask cluster did not start: {one_line(error)}")
            quit_with(
                f"no Dask scheduler at {address!r}: {one_line(error)}; start one, or unset DASK_SCHEDULER_ADDRESS"
            )
        async with client:
            yield Cluster(client)
