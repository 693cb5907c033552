"""Handle jobs: `POST /jobs` accepts a job and returns its location; `GET /jobs/ID` returns its state or result.

The resource that the server keeps open has the methods `post(task)`, which returns the id of a new job, and
`find(id, wait_s)`, which waits up to `wait_s` for the job to finish, and returns a `Job`, or None if the id is unknown.
"""

import re
from dataclasses import dataclass

from common.server import task_headers
from common.task import TaskError, TaskRun
from common.tornado_kit import Handler

LONGEST_WAIT_S = 10.0
RETRY_S = 1  # Retry-After for a request without `Prefer: wait`


@dataclass(frozen=True, slots=True)
class Job:
    """The state of an unfinished job, the result of a finished job, or the one-line error of a failed job."""

    state: str = ""
    run: TaskRun | None = None
    error: str = ""


class PostJob(Handler):
    """Handle `POST /jobs`: respond with status 202 and the `Location` of the job."""

    async def post(self) -> None:
        name = await self.resource.post(self.task)
        self.send(202, "queued", {"Location": f"/jobs/{name}", "Retry-After": "0"})  # GET can wait for the result


class FindJob(Handler):
    """Handle `GET /jobs/ID`: respond with status 200 and the result, or with status 202 and the state.

    With the header `Prefer: wait=5` (RFC 7240), first wait up to 5 s for the job to finish.
    """

    async def get(self, name: str) -> None:
        wanted = re.search(r'\bwait="?(\d{1,9})\b', self.request.headers.get("Prefer", ""), re.ASCII)
        wait_s = min(LONGEST_WAIT_S, float(wanted[1])) if wanted else 0.0
        job: Job | None = await self.resource.find(name, wait_s)
        if job is None:
            self.send(404, "404 Not Found: no such job; it may have expired", {})
        elif job.error:
            raise TaskError(job.error)
        elif job.run is None:
            self.send(202, job.state, {"Retry-After": "0" if wait_s else str(RETRY_S)})
        else:
            headers = task_headers(job.run, job.run.started_s)
            del headers["Server-Timing"]  # it would say that the job has not waited
            self.send(200, job.run.answer, headers)


JOBS = [("/jobs", PostJob), ("/jobs/([0-9a-f-]{1,80})", FindJob)]
