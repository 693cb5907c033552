"""A server that accepts jobs and handles them as the environment variable JOBS_ARE specifies."""

import asyncio
import contextlib
import dataclasses
import os
import uuid

from common.job_endpoints import JOBS, FindJob, PostJob
from common.options import server_options
from common.task import TaskRun, perform
from common.tornado_kit import Handler, TaskHandler, serve

ARE = os.environ.get("JOBS_ARE", "right")


class JobStore:
    """A job store that runs jobs as tasks of the event loop."""

    def __init__(self) -> None:
        self.jobs: dict[str, asyncio.Task[TaskRun]] = {}

    async def post(self, task: str) -> str:
        name = uuid.uuid4().hex
        work = asyncio.Event().wait() if ARE == "never" else asyncio.to_thread(perform, task)
        self.jobs[name] = asyncio.create_task(work)
        return name

    async def find(self, name: str, wait_s: float) -> TaskRun | str | None:
        await asyncio.wait([job := self.jobs[name]], timeout=wait_s)
        if ARE == "lost":
            return None
        if not job.done():
            return "running"
        return dataclasses.replace(job.result(), answer="42") if ARE == "wrong" else job.result()


@contextlib.asynccontextmanager
async def kept():
    yield JobStore()


class Impatient(FindJob):
    """A job endpoint that ignores the Prefer header."""

    def prepare(self) -> None:
        self.request.headers.pop("Prefer", None)


class Elsewhere(PostJob):
    async def post(self) -> None:
        await self.resource.post(self.task)
        self.set_status(202)
        self.set_header("Location", "http://127.0.0.1:1/jobs")


class Posted(Handler):
    """An endpoint that returns how many jobs have been posted, including those that timed out."""

    def get(self) -> None:
        self.finish(str(len(self.resource.jobs)))


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await asyncio.to_thread(perform, self.task))


if __name__ == "__main__":
    options = server_options()
    (jobs, _), (job, _) = JOBS
    handlers = [
        (jobs, Elsewhere if ARE == "elsewhere" else PostJob),
        (job, Impatient if ARE == "impatient" else FindJob),
        ("/posted", Posted),
    ]
    serve(LongTask, options, kept(), handlers)
