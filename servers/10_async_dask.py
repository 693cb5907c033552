"""On a cluster: Dask runs the task in a worker on this machine, or in the cluster at DASK_SCHEDULER_ADDRESS."""

from common.dask_kit import cluster
from common.job_endpoints import JOBS
from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import usable_cpus


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await self.resource.client.submit(perform, self.task, pure=False))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    serve(LongTask, options, cluster(options), JOBS)
