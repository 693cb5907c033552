"""In a job queue: Celery takes the task over Redis to a worker process, here or behind CELERY_BROKER_URL."""

from common.cpus import usable_cpus as default_workers
from common.serving.celery import job_queue
from common.serving.celery_app import perform
from common.serving.jobs import JOBS
from common.serving.options import server_options
from common.serving.tornado import TaskHandler, serve

REQUIRES = "redis-server"


class LongTask(TaskHandler):
    async def get(self) -> None:
        job = self.resource.result_of(perform.s(self.task))
        self.answer(await self.unless_client_leaves(job))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(LongTask, options, job_queue(options), JOBS)
