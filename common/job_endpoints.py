"""Handle jobs: `POST /jobs` accepts a job and returns its location; `GET /jobs/ID` returns its state or result.

The resource that the server keeps open has the methods `post(task)`, which returns the id of a new job, and
`find(id, wait_s)`, which waits up to `wait_s` for the result and returns it, the job's state, or None if unknown.
"""

import re

from common.server import task_headers
from common.task import TaskRun
from common.tornado_kit import Handler


class PostJob(Handler):
    """Handle `POST /jobs`: respond with status 202 and the `Location` of the job."""

    async def post(self) -> None:
        name = await self.resource.post(self.task)
        self.send(202, "queued", {"Location": f"/jobs/{name}", "Retry-After": "0"})  # GET can wait for the result


class FindJob(Handler):
    """Handle `GET /jobs/ID`: respond with status 200 and the result, or with status 202 and the state.

    With the header `Prefer: wait=5` (RFC 7240), first wait up to 5 s for the job to finish, at most 10 s.
    """

    async def get(self, name: str) -> None:
        wanted = re.search(r'\bwait="?(\d{1,9})\b', self.request.headers.get("Prefer", ""), re.ASCII)
        wait_s = min(10.0, float(wanted[1])) if wanted else 0.0
        found: TaskRun | str | None = await self.resource.find(name, wait_s)
        if found is None:
            self.send(404, "404 Not Found: no such job; it may have expired", {})
        elif isinstance(found, str):
            self.send(202, found, {"Retry-After": "0" if wait_s else "1"})
        else:
            headers = task_headers(found, found.started_s)
            del headers["Server-Timing"]  # it would say that the job has not waited
            self.send(200, found.answer, headers)


JOBS = [("/jobs", PostJob), ("/jobs/([0-9a-f-]{1,80})", FindJob)]
