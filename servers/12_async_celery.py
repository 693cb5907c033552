"""In a job queue: Celery sends the task through Redis to a worker, on this machine or elsewhere (CELERY_BROKER_URL)."""

from common.cpus import usable_cpus as default_workers
from common.kits.celery_app import perform
from common.kits.celery_kit import job_queue
from common.kits.job_endpoints import JOBS
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options

REQUIRES = "redis-server"


class LongTask(TaskHandler):
    async def get(self) -> None:
        job = self.resource.result_of(perform.s(self.task))
        self.answer(await self.cancel_on_disconnect(job))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(LongTask, options, job_queue(options), JOBS)
