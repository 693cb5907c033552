"""The Celery application: what the server asks for, and what workers do, wherever they are.

They find their broker in CELERY_BROKER_URL: `celery --app common.kits.celery_app worker`.
"""

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from celery import Celery, Task
from celery.app.amqp import AMQP
from celery.exceptions import Ignore
from kombu.connection import Connection
from kombu.transport import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from common.task import TaskError, UnknownTaskError, resolve
from common.task import perform as perform_here

MOST_CRASHES = 3
KEPT_S = 3600  # for so long an answer can be fetched
UNWANTED = "unwanted-"  # before the name of a job that nobody waits for any more
_BROKER = os.environ.get("CELERY_BROKER_URL", "")


def _unless_closed(parameters: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A channel whose broker was lost says so: where kombu looks for its connection, the AttributeError ends a worker.

    It is asked for what had been begun before, to put it back or to acknowledge it.
    """

    def checked(channel: redis.Channel, *arguments: Any, **options: Any) -> dict[str, Any]:
        if channel.connection is None or channel.connection.client is None:
            raise RedisConnectionError("the broker was lost")
        return parameters(channel, *arguments, **options)

    return checked


redis.Channel._connparams = _unless_closed(redis.Channel._connparams)  # type: ignore[method-assign]


class _Connection(Connection):
    """Tries again soon where the broker is away; kombu's own waits 2, 4, 6, ... s."""

    def ensure_connection(self, *arguments: Any, **options: Any) -> Any:
        """The connection, once there is one."""
        often = {"interval_start": 0.1, "interval_step": 0.1, "interval_max": 0.5}
        return super().ensure_connection(*arguments, **{**often, **options})  # type: ignore[no-untyped-call]


class _Amqp(AMQP):  # type: ignore[misc]
    Connection = _Connection


app = Celery("under_siege", amqp=_Amqp, set_as_current=False)
app.conf.update(
    broker_url=_BROKER,
    result_backend=_BROKER,
    result_expires=KEPT_S,
    result_backend_thread_safe=True,
    result_backend_always_retry=True,  # a job that runs while the broker is away has not failed
    result_backend_max_sleep_between_retries_ms=500,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_default_queue="under_siege",
    task_acks_late=True,  # a task that its worker did not finish is still in the queue
    task_retry_on_worker_lost=True,
    worker_pool="common.kits.celery_pool:Pool",
    worker_lost_wait=0.1,  # for a result that a lost worker may have sent; 10 s is Celery's own
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,  # its subscription can end a worker whose broker is lost
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)


_OPTIONS = {"throws": (TaskError, UnknownTaskError), "max_retries": MOST_CRASHES - 1, "default_retry_delay": 0}


@app.task(bind=True, **_OPTIONS)  # type: ignore[untyped-decorator]
def perform(self: Task, spec: str) -> dict[str, Any]:
    """Performs the task as `common.task.perform` does, and gives what is in a `TaskRun`."""
    if app.backend.get(UNWANTED + self.request.id):
        raise Ignore
    return asdict(perform_here(spec))


@app.task(track_started=True, **_OPTIONS)  # type: ignore[untyped-decorator]
def perform_job(spec: str) -> dict[str, Any]:
    """The same for a job, of which one can ask whether it has begun."""
    return asdict(perform_here(spec))


@app.task  # type: ignore[untyped-decorator]
def trouble_with(spec: str) -> str:
    """One line that says why this worker can't perform the task; empty if it can."""
    try:
        resolve(spec)
    except UnknownTaskError as error:
        return str(error)
    return ""
