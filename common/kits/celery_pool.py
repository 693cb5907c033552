"""Celery's pool of processes, where one of them is lost."""

from typing import Any

from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool
from kombu.transport import redis

from common.kits.celery_channel import Channel

LOOK_S = 0.2  # 5 is Celery's own


class _Processes(AsynPool):  # type: ignore[misc]
    @property
    def timers(self) -> dict[Any, float]:
        """What is done how often, in seconds; what a lost process had is done again when that is noticed."""
        return {self.maintain_pool: LOOK_S}


class Pool(TaskPool):  # type: ignore[misc]
    """As Celery's own, `prefork`."""

    Pool = _Processes


redis.Transport.Channel = Channel  # of every worker that has this pool
