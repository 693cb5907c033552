"""On a cluster: Dask runs the task in a worker on this machine, or in the cluster at DASK_SCHEDULER_ADDRESS."""

from common.cpus import usable_cpus as default_workers
from common.kits.dask_kit import cluster, result_of
from common.kits.job_endpoints import JOBS
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.task import perform


class LongTask(TaskHandler):
    async def get(self) -> None:
        future = self.resource.client.submit(perform, self.task, pure=False)
        self.answer(await self.cancel_on_disconnect(result_of(future)))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(LongTask, options, cluster(options.workers), JOBS)
