"""In a job queue: Celery sends the task through Redis to a worker, on this machine or elsewhere (CELERY_BROKER_URL)."""

from common.celery_kit import job_queue
from common.job_endpoints import JOBS
from common.options import server_options
from common.tornado_kit import TaskHandler, serve
from common.workers import usable_cpus

REQUIRES = "redis-server"


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await self.resource.perform(self.task))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    serve(LongTask, options, job_queue(options), JOBS)
