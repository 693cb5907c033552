"""Post jobs (`POST`, 202, `Location`) and poll for their results, in a check or as a load tool."""

import asyncio
import base64
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp

from under_siege.load.http_client import HttpResponse, case_fails, open_request, read_response
from under_siege.load.request import GET, JOBS, Request
from under_siege.load.tool import Driver, LoadSpec
from under_siege.paths import script
from under_siege.record.record import CaseFailedError

ACCEPTED, BUSY = 202, 503  # states of a job: unfinished, and unknown because the server is busy
PREFER = ("Prefer", "wait=10")  # RFC 7240; a server that ignores it responds immediately, usually with Retry-After
POLL_S, SOONEST_S, LATEST_S = 0.05, 0.01, 60.0  # pause before the next poll of a check, minimum and maximum
_ORDER = "order.json"


class JobsTool(Driver):
    """The bench's own client: each user posts a job (`POST`, 202, `Location`) and polls for its result."""

    name, program = JOBS, sys.executable
    version_options = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    response_line = re.compile(
        r"(?P<user>\d{1,6}),(?P<status>\d{3}),(?P<took_s>\d{1,6}\.\d{6}),(?P<size>\d{1,15})", re.ASCII
    )
    streams_responses = waits_to_begin = True
    fixed_threads = "one thread"
    least_s = start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        return "the jobs tool accepts no load-tool options; remove `options`" if spec.options else super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        order = {
            "url": spec.url,
            "users": spec.users,
            "timeout_s": spec.timeout_s,
            "keep_alive": spec.keep_alive,
            "headers": list(spec.request.headers),
            "body": base64.b64encode(spec.request.body).decode(),
        }
        return {_ORDER: json.dumps(order)}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:  # noqa: ARG002
        return [program, *script("job_load"), str(home / _ORDER)]

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        match = re.search(r"^lost: (\d{1,9})\s*$", report, re.MULTILINE | re.ASCII)
        return int(match[1]) if match else 0


async def fetch_job(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None = None,
    expected_bytes: int = 0,
    request: Request = GET,
) -> HttpResponse:
    """Post a job and return the response with its result; raise the same errors as `fetch`."""
    with case_fails(f"POST {url}", f"the job posted to {url} did not finish", limit_s):
        async with asyncio.timeout(limit_s):
            return await job_result(session, url, request, expected_bytes, POLL_S)


async def job_result(
    session: aiohttp.ClientSession, url: str, request: Request, expected_bytes: int, usual_pause_s: float = 1.0
) -> HttpResponse:
    """Post a job, and poll until it is done; return the response with its result.

    Args:
        usual_pause_s: the pause before the next poll, if the server does not ask for another one.

    Raises:
        CaseFailedError: a response is too long, or the job is on another server.
        aiohttp.ClientError, ValueError: a response did not arrive, or is not HTTP.
    """
    async with open_request(session, url, replace(request, method="POST")) as response:
        posted = await read_response(response, expected_bytes)
    if posted.status != ACCEPTED:
        return posted
    job_url = urljoin(url, posted.headers.get("location", "nowhere:"))
    if urlsplit(job_url)[:2] != urlsplit(url)[:2]:
        raise CaseFailedError("wrong_answer", f"POST {url}: the Location header is missing or names another server")
    kept = [header for header in request.headers if header[0].lower() != "content-type"]
    poll = Request(headers=(*kept, PREFER))
    while True:
        async with open_request(session, job_url, poll) as response:
            answer = await read_response(response, expected_bytes)
        if answer.status not in (ACCEPTED, BUSY):
            return answer
        await asyncio.sleep(pause_s(answer.headers.get("retry-after", ""), usual_pause_s))


def pause_s(retry_after: str, usual_s: float) -> float:
    """Return the pause that Retry-After asks for (RFC 9110, 10.2.3), or `usual_s` if it is missing or a date."""
    seconds = float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else usual_s
    return min(LATEST_S, max(SOONEST_S, seconds))
