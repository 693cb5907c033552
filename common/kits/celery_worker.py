"""Run the private Celery worker of the server: Celery's own worker, without banner and log.

`python -m common.kits.celery_worker PROCESSES`, with the broker's URL in CELERY_BROKER_URL.
"""

import sys
import warnings
from typing import Any

from celery import signals
from celery.exceptions import SecurityWarning

from common.errors import silence
from common.kits.celery_app import app

NO_PEERS = ("--without-gossip", "--without-mingle", "--without-heartbeat")  # no other worker exists


def _log_nothing(**_: Any) -> None:
    """Keep Celery from configuring logging, which it does unless this signal has a receiver."""


if __name__ == "__main__":
    silence("celery", "kombu", "multiprocessing")
    warnings.simplefilter("ignore", SecurityWarning)  # about pickle and root; this application accepts only JSON
    signals.setup_logging.connect(_log_nothing)
    app.worker_main(["--quiet", "worker", "--concurrency", sys.argv[1], *NO_PEERS])
