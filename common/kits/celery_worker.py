"""Run the server's private Celery worker without Celery's banner and logs.

Usage: `python -m common.kits.celery_worker PROCESSES`, with the broker's URL in CELERY_BROKER_URL.
"""

import sys
import warnings
from typing import Any

from celery import signals
from celery.exceptions import SecurityWarning

from common.errors import silence
from common.kits.celery_app import app

NO_PEERS = ("--without-gossip", "--without-mingle", "--without-heartbeat")  # there are no other workers


def _log_nothing(**_: Any) -> None:
    """Keep Celery from configuring logging, which it does only if this signal has no receiver."""


if __name__ == "__main__":
    silence("celery", "kombu", "multiprocessing")
    warnings.simplefilter("ignore", SecurityWarning)  # about running as root; this worker accepts only JSON
    signals.setup_logging.connect(_log_nothing)
    app.worker_main(["--quiet", "worker", "--concurrency", sys.argv[1], *NO_PEERS])
