"""The load generator of the capacity search, with a server that answers with a given status."""

import asyncio
import json
import sys
import time
from collections import Counter

import pytest

from under_siege.paths import script

ENOUGH = 12  # number of responses to wait for


async def outcomes_of(statuses: list[int], users: int) -> tuple[Counter[str], int]:
    """Return the outcomes of the responses, and the largest number of requests that were in progress at once."""
    inside, most, number = 0, 0, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal inside, most, number
        await reader.readuntil(b"\r\n\r\n")
        inside, number = inside + 1, number + 1
        most, status = max(most, inside), statuses[number % len(statuses)]
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 4\r\nConnection: close\r\n\r\npong" % status)
        inside -= 1
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pipe = asyncio.subprocess.PIPE
    async with server, asyncio.timeout(60):
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        process = await asyncio.create_subprocess_exec(sys.executable, *script("open_load"), stdin=pipe, stdout=pipe)
        assert await process.stdout.readline() == b"ready\n"
        request = {"method": "GET", "headers": [], "body": "", "status": 200, "rule": {}, "answer": "cG9uZw=="}
        order = {"requests": [{**request, "url": url}], "order": [0], "keep_alive": False, "headers": []}
        due_s = [] if users else [0.0] * ENOUGH
        order |= {"begin_s": time.monotonic(), "due_s": due_s, "users": users}
        process.stdin.write(json.dumps(order).encode() + b"\n")
        lines = [(await process.stdout.readline()).decode().strip() for _ in range(ENOUGH)]
        process.stdin.close()
        await process.stdout.read()
        assert await process.wait() == 0
    return Counter(line.split(",")[3] for line in lines), most


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, ""), (503, "refused"), (429, "limited"), (404, "wrong"), (500, "wrong")]
)
def test_refusals_rate_limits_and_wrong_responses_have_different_outcomes(status: int, outcome: str) -> None:
    outcomes, _ = asyncio.run(outcomes_of([status], users=3))
    assert outcomes == {outcome: ENOUGH}


def test_users_in_a_closed_loop_wait_for_each_response() -> None:
    _, most = asyncio.run(outcomes_of([200], users=3))
    assert most == 3


def test_an_open_loop_does_not_wait_for_responses() -> None:
    _, most = asyncio.run(outcomes_of([200], users=0))
    assert most > 3
