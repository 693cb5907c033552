"""What the server tells the broker: mostly on a thread of its own, because it may have to wait for that."""

import contextlib
import json

from celery.canvas import Signature
from redis.asyncio import Redis

from common.kits.celery_app import KEPT_S, UNWANTED, app
from common.responses import RefusedError

ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
MOST_JOBS = 10_000  # that wait
SENT = "SENT"  # the state of a job that no worker has begun; Celery itself knows none of that
KEY = "celery-task-meta-"  # where Celery keeps a result, and the channel on which it tells of it


def send(job: Signature, name: str) -> None:
    """Has it performed under that name."""
    job.apply_async(task_id=name, retry=True, retry_policy=ONCE_MORE)


def post(job: Signature, name: str) -> None:
    """The same for one of which it can be told from now on that it is there."""
    with app.backend.client.pipeline() as pipe:
        pipe.llen(app.conf.task_default_queue)
        pipe.set(KEY + name, json.dumps({"task_id": name, "status": SENT, "result": None}), ex=KEPT_S)
        if pipe.execute()[0] >= MOST_JOBS:
            app.backend.client.delete(KEY + name)
            raise RefusedError(f"{MOST_JOBS} jobs wait already")
    send(job, name)


def take_back(name: str) -> None:
    """Notes that nobody wants it any more; what a worker has begun goes on."""
    with contextlib.suppress(Exception):
        app.backend.set(UNWANTED + name, "1", max_retries=0)


async def forget(redis: "Redis", fetched: list[str], given_up: list[str]) -> None:
    """Has it keep no answer that was fetched, and no worker begin what was given up; asks it whether it is there."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.ping()
        if fetched:
            pipe.unlink(*fetched)
        for name in given_up:
            pipe.setex(UNWANTED + name, KEPT_S, "1")
        told = len(fetched), len(given_up)
        await pipe.execute()
    del fetched[: told[0]], given_up[: told[1]]
