"""A pool of worker processes that survives its workers."""

from multiprocessing import get_context

from pebble import ProcessPool
from pebble.common.types import CONSTS
from pebble.pool.base_pool import Task
from pebble.pool.process import task_worker_lookup

from common.worker import follow_server_and_obey


def worker_pool(workers: int) -> ProcessPool:
    """A pebble pool whose workers end with the server, and which goes on whichever of them is lost."""
    CONSTS.sleep_unit = 0.02  # how often it looks after its workers, in seconds; 0.1 is long for a client that has left
    pool = ProcessPool(workers, initializer=follow_server_and_obey, context=get_context("forkserver"))
    tasks = pool._pool_manager.task_manager.tasks

    def task_of(worker: int) -> Task:
        return task_worker_lookup(tuple(tasks.values()), worker)

    # Pebble's own gives up the whole pool if a worker is lost while no task is running.
    pool._pool_manager.find_expired_task = task_of  # type: ignore[assignment,method-assign]
    return pool
