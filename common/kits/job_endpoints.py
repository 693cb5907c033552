"""Handle jobs: `POST /jobs` accepts a job and returns its location; `GET /jobs/ID` returns its state or result.

The server's resource must implement `Jobs`.
"""

import re
from dataclasses import dataclass
from typing import Protocol

from common.kits.tornado_kit import Handler
from common.responses import task_headers
from common.task import TaskError, TaskRun

LONGEST_WAIT_S = 10.0
RETRY_S = 1  # Retry-After for a request without `Prefer: wait`


@dataclass(frozen=True, slots=True)
class Job:
    """The state of an unfinished job, the result of a finished job, or the one-line error of a failed job."""

    state: str = ""
    run: TaskRun | None = None
    error: str = ""


class Jobs(Protocol):
    """A queue of jobs."""

    async def post(self, task: str) -> str:
        """Accept a job and return its id; raise RefusedError if the queue can't accept a job now."""

    async def find(self, name: str, wait_s: float) -> Job | None:
        """Wait up to `wait_s` for the job to finish; return the job, or None if it is unknown or has expired."""


class PostJob(Handler):
    """Handle `POST /jobs`: respond with status 202 and the `Location` of the job."""

    allowed = "POST"

    async def post(self) -> None:
        name = await self.resource.post(self.task)
        self.set_status(202)
        self.set_header("Location", f"/jobs/{name}")
        self.set_header("Retry-After", "0")  # GET can wait for the result
        self.finish("queued")


class FindJob(Handler):
    """Handle `GET /jobs/ID`: respond with status 200 and the result, or with status 202 and the state.

    With the header `Prefer: wait=5` (RFC 7240), first wait up to 5 s for the job to finish.
    """

    allowed = "GET, HEAD"

    async def head(self, name: str) -> None:
        """Respond like GET, but without a body."""
        await self.get(name)

    async def get(self, name: str) -> None:
        wait_s = self._wait_s()
        job: Job | None = await self.resource.find(name, wait_s)
        if job is None:
            self.set_status(404)
            self.finish("404 Not Found: no such job; it may have expired")
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
