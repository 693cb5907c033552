"""What each worker of an embedded Dask cluster does first."""

import logging

from common.worker import follow_server_and_obey


def dask_setup(_worker: object) -> None:
    """Called by Dask because its configuration names this module for `preload`."""
    follow_server_and_obey()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a task that raised is told to the client
