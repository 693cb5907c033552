"""Load a server with jobs: each user posts a job, polls for its result, and posts the next job.

usage: python -P job_load.py ORDER

The JSON file ORDER has the keys `url`, `users`, `timeout_s`, `keep_alive`, `headers` (pairs) and `body` (base64). The
script prints `ready`, and starts when it reads a line. For each finished job, it prints `user,status,seconds,bytes`,
where the seconds count from the post to the result. After SIGTERM, or when stdin is closed, the script drops unfinished
jobs, and prints to stderr how many earlier jobs had no result, as in `lost: 3`.
"""

import asyncio
import base64
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from under_siege.load.http_client import client
from under_siege.load.jobs import job_result
from under_siege.load.request import Request
from under_siege.record.record import CaseFailedError

AFTER_A_LOSS_S = 0.1  # pause of a user after a job without a result
MOST_BYTES = 64_000_000  # maximum size of a result; a job with a longer result counts as lost


class JobLoad:
    """Users that each post one job after another to a URL."""

    def __init__(self, order: dict[str, Any]) -> None:
        headers = tuple((name, value) for name, value in order["headers"])
        self._request = Request("POST", headers, base64.b64decode(order["body"]))
        self._url, self._timeout_s, self.lost = order["url"], order["timeout_s"], 0

    async def visit(self, session: aiohttp.ClientSession, user: int) -> None:
        """Post jobs, one after the other, until cancelled."""
        while True:
            posted_s = time.monotonic()
            try:
                async with asyncio.timeout(self._timeout_s):
                    result = await job_result(session, self._url, self._request, MOST_BYTES)
            except (aiohttp.ClientError, CaseFailedError, ValueError, OSError):  # TimeoutError is an OSError
                self.lost += 1
                await asyncio.sleep(AFTER_A_LOSS_S)
            else:
                took_s = time.monotonic() - posted_s
                os.write(1, f"{user},{result.status},{took_s:.6f},{len(result.body)}\n".encode())


async def _main(order: dict[str, Any]) -> None:
    loop, stop, load = asyncio.get_running_loop(), asyncio.Event(), JobLoad(order)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    os.write(1, b"ready\n")
    if not await asyncio.to_thread(sys.stdin.readline):
        return
    loop.add_reader(0, stop.set)
    gc.freeze()
    async with client(keep_alive=order["keep_alive"]) as session:
        visits = [asyncio.create_task(load.visit(session, user)) for user in range(order["users"])]
        await stop.wait()
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
    sys.stderr.write(f"lost: {load.lost}\n")


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text())))
