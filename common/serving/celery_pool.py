"""Celery's pool of processes, and what it has begun, where a process or the broker is lost."""

from typing import Any

from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool
from kombu.transport import redis, virtual

LOOK_S = 0.2  # 5 is Celery's own


class _Processes(AsynPool):  # type: ignore[misc]
    @property
    def timers(self) -> dict[Any, float]:
        """What is done how often, in seconds; what a lost process had is done again when that is noticed."""
        return {self.maintain_pool: LOOK_S}


class Pool(TaskPool):  # type: ignore[misc]
    """As Celery's own, `prefork`."""

    Pool = _Processes


class _Begun(redis.QoS):
    """What can't be acknowledged, because the broker is lost, takes no place any more, or the worker would stand still.

    kombu counts it among those that it has for ever, and asks for no other one.
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


redis.Channel.QoS = _Begun
