"""The Celery worker of a server with a broker of its own: a process that takes tasks, and some that perform them."""

import multiprocessing
import os
import sys
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import signals
from celery.exceptions import SecurityWarning

from common.kits.celery_app import app
from common.kits.celery_channel import put_back
from common.logging_setup import quieten
from common.pdeathsig_exec import end_with


def _end_with_worker(**_: Any) -> None:
    end_with(os.getppid())


def _log_nothing(**_: Any) -> None:
    """Whoever sets up logging keeps Celery from doing it."""


def _put_back_what_a_lost_worker_had() -> None:
    """There is no other worker here; else one would have to wait until their time is over (an hour)."""
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        for tag in channel.client.zrange(channel.unacked_index_key, 0, -1):
            channel.qos.restore_by_tag(tag, leftmost=True)
        put_back(channel.client, app.conf.task_default_queue)


def _keep_files_where_the_broker_is() -> None:
    """Nobody removes those of a process that is killed, but that folder is removed."""
    this: Any = multiprocessing.current_process()
    this._config["tempdir"] = str(Path(urlsplit(app.conf.broker_url).path).parent)


def main(processes: int) -> None:
    """Works until it is killed."""
    _keep_files_where_the_broker_is()
    quieten("celery", "kombu", "amqp", "multiprocessing")
    warnings.simplefilter("ignore", SecurityWarning)  # of root, for whom pickle would be dangerous; here all is JSON
    signals.setup_logging.connect(_log_nothing)
    signals.worker_process_init.connect(_end_with_worker)
    _put_back_what_a_lost_worker_had()
    quiet = {"quiet": True, "without_gossip": True, "without_mingle": True, "without_heartbeat": True}
    app.Worker(concurrency=processes, optimization="fair", **quiet).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
