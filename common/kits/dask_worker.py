"""What each worker of an embedded Dask cluster does first."""

from common.logging_setup import quieten
from common.parent_watch import follow_server_and_obey


def dask_setup(_worker: object) -> None:
    """Called by Dask because its configuration names this module for `preload`."""
    follow_server_and_obey()
    quieten("distributed")  # a task that raised is told to the client
