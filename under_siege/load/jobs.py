"""Post jobs (`POST`, 202, `Location`) and poll for their results, in a check or as a load tool."""

import asyncio
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

import aiohttp

from under_siege.load.client import Client
from under_siege.load.http_client import HttpResponse, case_fails, open_request, read_response
from under_siege.load.request import GET, JOBS, Request
from under_siege.record.record import CaseFailedError

ACCEPTED, BUSY = 202, 503  # states of a job: unfinished, and unknown because the server is busy
PREFER = ("Prefer", "wait=10")  # RFC 7240; a server that ignores it responds immediately, usually with Retry-After
POLL_S = 0.05  # pause before the next poll of a check
SOONEST_S = 0.01  # the shortest pause
LATEST_S = 60.0  # the longest pause


class JobsTool(Client):
    """The bench's own client: each user posts a job (`POST`, 202, `Location`) and polls for its result."""

    name = JOBS
    counts_requests = sends_mixes = can_pause = sends_arrivals = False


async def fetch_job(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None = None,
    right: bytes | None = None,
    request: Request = GET,
) -> HttpResponse:
    """Post a job and return the response with its result; raise the same errors as `fetch`."""
    with case_fails(f"POST {url}", f"the job posted to {url} did not finish", limit_s):
        async with asyncio.timeout(limit_s):
            return await job_result(session, url, request, right, POLL_S)


async def job_result(
    session: aiohttp.ClientSession, url: str, request: Request, right: bytes | None, usual_pause_s: float = 1.0
) -> HttpResponse:
    """Post a job, and poll until it is done; return the response with its result.

    Args:
        right: as in `read_response`.
        usual_pause_s: the pause before the next poll, if the server does not ask for another one.

    Raises:
        CaseFailedError: a response is too long, or the job is on another server.
        aiohttp.ClientError, ValueError: a response did not arrive, or is not HTTP.
    """
    async with open_request(session, url, replace(request, method="POST")) as response:
        posted = await read_response(response, right)
    if posted.status != ACCEPTED:
        return posted
    job_url = urljoin(url, posted.headers.get("location", "nowhere:"))
    if urlsplit(job_url)[:2] != urlsplit(url)[:2]:
        raise CaseFailedError("wrong_answer", f"POST {url}: the Location header is missing or names another server")
    kept = [header for header in request.headers if header[0].lower() != "content-type"]
    poll = Request(headers=(*kept, PREFER))
    while True:
        async with open_request(session, job_url, poll) as response:
            answer = await read_response(response, right)
        if answer.status not in (ACCEPTED, BUSY):
            return answer
        await asyncio.sleep(pause_s(answer.headers.get("retry-after", ""), usual_pause_s))


def pause_s(retry_after: str, usual_s: float) -> float:
    """Return the pause that Retry-After asks for (RFC 9110, 10.2.3), or `usual_s` if it is missing or a date."""
    seconds = float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else usual_s
    return min(LATEST_S, max(SOONEST_S, seconds))
