"""Preloaded by each worker process of a LocalCluster: exit with the server, and log nothing."""

from common.logging_setup import quieten
from common.parent_watch import follow_server


def dask_setup(_worker: object) -> None:
    """Dask calls this, because its configuration names this module in `distributed.worker.preload`."""
    follow_server()
    quieten("distributed")  # the client gets the error of a task
