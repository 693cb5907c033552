"""What each worker of an embedded Dask cluster does first."""

from common.serving.quiet import quieten
from common.worker import follow_server


def dask_setup(_worker: object) -> None:
    """Called by Dask because its configuration names this module for `preload`."""
    follow_server()
    quieten("distributed")  # a task that raised is told to the client
