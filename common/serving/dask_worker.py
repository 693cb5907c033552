"""What each worker of an embedded Dask cluster does first."""

from common.serving.quiet import quieten
from common.worker import follow_server_and_obey


def dask_setup(_worker: object) -> None:
    """Called by Dask because its configuration names this module for `preload`."""
    follow_server_and_obey()
    quieten("distributed")  # a task that raised is told to the client
