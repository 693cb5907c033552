"""Load a server with jobs: each user posts a job, polls for its result, and posts the next job.

The script prints `ready`, and starts when it reads a line. For each finished job, it prints
`user,status,seconds,bytes`, where the seconds count from the post to the result. After SIGTERM, or when stdin is
closed, the script drops unfinished jobs, and prints to stderr how many earlier jobs had no result, as in `lost: 3`.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp

PREFER = {"Prefer": "wait=10"}  # RFC 7240; a server that ignores it responds immediately, usually with Retry-After
SOONEST_S, USUAL_S, LATEST_S = 0.01, 1.0, 60.0  # pause before the next poll: minimum, default, maximum
AFTER_A_LOSS_S = 0.1  # pause of a user after a job without a result
MOST_BYTES = 64_000_000  # maximum size of a result; a job with a longer result counts as lost
JobOutcome = tuple[int, int]  # status, and size of the body in bytes


class JobLoad:
    """Users that each post one job after another to a URL."""

    def __init__(self, url: str, timeout_s: float, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self._url, self._timeout_s, self.lost = url, timeout_s, 0
        self._headers, self._body = headers or {}, body or None
        kept = {name: value for name, value in self._headers.items() if name.lower() != "content-type"}
        self._headers_of_polls = kept | PREFER

    async def visit(self, session: aiohttp.ClientSession, user: int) -> None:
        """Post jobs, one after the other, until cancelled."""
        while True:
            posted_s, outcome = time.monotonic(), None
            with contextlib.suppress(aiohttp.ClientError, ValueError, OSError):  # TimeoutError is an OSError
                async with asyncio.timeout(self._timeout_s):
                    outcome = await self._job(session)
            if outcome is None:
                self.lost += 1
                await asyncio.sleep(AFTER_A_LOSS_S)
            else:
                status, size = outcome
                os.write(1, f"{user},{status},{time.monotonic() - posted_s:.6f},{size}\n".encode())

    async def _job(self, session: aiohttp.ClientSession) -> JobOutcome:
        """Post a job, and poll until it is done; raise ValueError if `Location` names another server."""
        async with session.post(self._url, headers=self._headers, data=self._body, allow_redirects=False) as posted:
            if posted.status != 202:
                return await _read(posted)
            job_url = urljoin(self._url, posted.headers.get("Location", "nowhere:"))
            if urlsplit(job_url)[:2] != urlsplit(self._url)[:2]:
                raise ValueError(f"the job is on another server: {job_url}")
            await posted.read()
        while True:
            async with session.get(job_url, headers=self._headers_of_polls, allow_redirects=False) as response:
                outcome = await _read(response)
                if response.status not in (202, 503):  # 503: the server is busy, so the state of the job is unknown
                    return outcome
                pause_s = _pause_s(response.headers.get("Retry-After", ""))
            await asyncio.sleep(pause_s)


async def _read(response: aiohttp.ClientResponse) -> JobOutcome:
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError(f"the response has more than {MOST_BYTES:,} bytes")
    return response.status, size


def _pause_s(retry_after: str) -> float:
    """Return the pause that Retry-After asks for (RFC 9110, 10.2.3), or the default if it is missing or a date."""
    seconds = float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else USUAL_S
    return min(LATEST_S, max(SOONEST_S, seconds))


async def _main(load: JobLoad, users: int, *, keep_alive: bool) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    os.write(1, b"ready\n")
    if not await asyncio.to_thread(sys.stdin.readline):
        return
    loop.add_reader(0, stop.set)
    gc.freeze()
    connector = aiohttp.TCPConnector(limit=0, force_close=not keep_alive)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        visits = [asyncio.create_task(load.visit(session, user)) for user in range(users)]
        await stop.wait()
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
    sys.stderr.write(f"lost: {load.lost}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--keep-alive", action="store_true")
    parser.add_argument("--headers", type=Path, help="a JSON file")
    parser.add_argument("--body", type=Path)
    parser.add_argument("url")
    options = parser.parse_args()
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(BrokenPipeError):
        headers = json.loads(options.headers.read_text()) if options.headers else None
        body = options.body.read_bytes() if options.body else b""
        jobs = JobLoad(options.url, options.timeout, headers, body)
        asyncio.run(_main(jobs, options.users, keep_alive=options.keep_alive))
