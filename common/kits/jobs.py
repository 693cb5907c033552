"""Jobs: `POST /jobs` takes one and says where its answer will be, `GET /jobs/ID` tells its state or its answer.

The server's resource keeps them: it has a `post` and a `find`, as `Jobs` has.
"""

import re
from dataclasses import dataclass
from typing import Protocol

from common.kits.tornado_kit import Handler
from common.responses import task_headers
from common.task import TaskError, TaskRun

LONGEST_WAIT_S = 10.0
RETRY_S = 1  # when to ask again, of who does not want to wait


@dataclass(frozen=True, slots=True)
class Job:
    """How far one is: its answer, or why there is none, or a word for what it does."""

    state: str = ""
    run: TaskRun | None = None
    error: str = ""


class Jobs(Protocol):
    """Who keeps them."""

    async def post(self, task: str) -> str:
        """Takes one and gives its name; raises RefusedError if that can't be done."""

    async def find(self, name: str, wait_s: float) -> Job | None:
        """The job of that name, as soon as it is done or the time is over; None if there is none (any more)."""


class PostJob(Handler):
    """`POST /jobs`: 202 with its `Location`."""

    allowed = "POST"

    async def post(self) -> None:
        name = await self.resource.post(self.task)
        self.set_status(202)
        self.set_header("Location", f"/jobs/{name}")
        self.set_header("Retry-After", "0")  # one may wait there
        self.finish("queued")


class FindJob(Handler):
    """`GET /jobs/ID`: 200 with the answer, or 202 with the state; `Prefer: wait=5` (RFC 7240) waits for the answer."""

    allowed = "GET, HEAD"

    async def head(self, name: str) -> None:
        """The same without the answer."""
        await self.get(name)

    async def get(self, name: str) -> None:
        wait_s = self._wait_s()
        job: Job | None = await self.resource.find(name, wait_s)
        if job is None:
            self.set_status(404)
            self.finish("404 Not Found: there is no such job, or not any more")
            return
        if job.error:
            raise TaskError(job.error)
        if job.run is None:
            self.set_status(202)
            self.set_header("Retry-After", "0" if wait_s else str(RETRY_S))
            self.finish(job.state)
            return
        headers = task_headers(job.run, job.run.started_s)
        for header in ("X-Worker", "X-Ran"):
            self.set_header(header, headers[header])
        self.finish(job.run.answer)

    def _wait_s(self) -> float:
        wanted = re.search(r'\bwait="?(\d{1,9})\b', self.request.headers.get("Prefer", ""), re.ASCII)
        return min(LONGEST_WAIT_S, float(wanted[1])) if wanted else 0.0


JOBS: dict[str, type[Handler]] = {"/jobs": PostJob, "/jobs/([0-9a-f-]{1,80})": FindJob}
