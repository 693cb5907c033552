"""Celery's pool of processes, which soon notices when one is lost."""

from typing import Any

from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool

LOOK_S = 0.2  # 5 is Celery's own


class _Processes(AsynPool):  # type: ignore[misc]
    @property
    def timers(self) -> dict[Any, float]:
        """What is done how often, in seconds; what a lost process had is done again when that is noticed."""
        return {self.maintain_pool: LOOK_S}


class Pool(TaskPool):  # type: ignore[misc]
    """As Celery's own, `prefork`."""

    Pool = _Processes
