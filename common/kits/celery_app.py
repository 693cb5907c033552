"""Define the Celery application of 12_async_celery, which the server and all workers import.

The environment variable CELERY_BROKER_URL contains the URL of the broker. To start a worker, run
`celery --app common.kits.celery_app worker`.
"""

import os
from dataclasses import asdict
from typing import Any

from celery import Celery, signals

from common.parent_watch import die_with_parent
from common.task import UnknownTaskError, resolve
from common.task import perform as perform_here

TIMEOUT_S = 1.0  # timeout of each command to the broker
_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "")

app = Celery("under_siege", broker=_BROKER_URL, backend=_BROKER_URL, set_as_current=False)
app.conf.update(
    task_default_queue="under_siege",
    task_acks_late=True,  # the broker keeps a task until its worker has finished it
    task_reject_on_worker_lost=True,
    task_retry_on_worker_lost=True,  # so max_retries also limits a task that always kills its process
    worker_prefetch_multiplier=1,
    result_expires=3600,
    result_backend_always_retry=True,  # no result is lost if the broker is briefly unavailable
    broker_connection_retry_on_startup=True,
    redis_socket_timeout=TIMEOUT_S,
    redis_socket_connect_timeout=TIMEOUT_S,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)
_RETRY = {"max_retries": 2, "default_retry_delay": 0}


@app.task(**_RETRY)  # type: ignore[untyped-decorator]
def perform(spec: str) -> dict[str, Any]:
    """Perform the task and return the fields of its `TaskRun`."""
    return asdict(perform_here(spec))


@app.task(track_started=True, **_RETRY)  # type: ignore[untyped-decorator]
def perform_job(spec: str) -> dict[str, Any]:
    """Perform the task and record its start, so that `GET /jobs/ID` can tell `running` from `queued`."""
    return asdict(perform_here(spec))


@app.task  # type: ignore[untyped-decorator]
def trouble_with(spec: str) -> str:
    """Return a one-line reason why this worker can't perform the task, or an empty string if it can."""
    try:
        resolve(spec)
    except UnknownTaskError as error:
        return str(error)
    return ""


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _die_with_worker(**_: Any) -> None:
    die_with_parent(os.getppid())
