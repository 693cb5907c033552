"""Servers whose tasks hold the GIL still shed load in time."""

import asyncio
import http.client
import math
import time
from collections import Counter

import pytest
from conftest import LIMIT_S, ROOT, Served, receive, serving

from common import admission_queue
from common.admission_queue import AdmissionQueue, ArrivalBurst
from common.options import Options

REQUESTS, CLIENT_TIMEOUT_S = 800, 8.0
TIMED_OUT = 0


def statuses_of_simultaneous_requests(served: Served) -> list[int]:
    """Send all requests at once; return the status of each response, or TIMED_OUT."""
    deadline_s = time.monotonic() + CLIENT_TIMEOUT_S
    connections = [served.send("/") for _ in range(REQUESTS)]
    return [status_until(deadline_s, connection) for connection in connections]


def status_until(deadline_s: float, connection: http.client.HTTPConnection) -> int:
    connection.sock.settimeout(max(0.001, deadline_s - time.monotonic()))
    try:
        answer = receive(connection)
    except TimeoutError:
        return TIMED_OUT
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) > 0
    return answer.status


@pytest.mark.measures
def test_threads_that_hold_the_gil_do_not_delay_503_responses() -> None:
    with serving(ROOT / "servers" / "11_fastapi.py", "--workers", "20", "--queue", "2") as served:
        assert served.request("/").status == 200
        statuses = statuses_of_simultaneous_requests(served)
        assert set(statuses) == {200, 503}, Counter(statuses)
        assert served.request("/").status == 200


def burst_with(connections: int) -> ArrivalBurst:
    """Return an `ArrivalBurst` for a server that admits at most three requests at once."""
    line = AdmissionQueue(Options("name", "127.0.0.1", 8000, "primes", workers=2, queue=1))
    line.connections = lambda: connections
    return ArrivalBurst(line)


def tasks_start_while_requests_arrive(ours: ArrivalBurst) -> None:
    async def arrive() -> None:
        ours.note_arrival()
        waiting = asyncio.create_task(asyncio.to_thread(ours.wait_for_end))
        while not waiting.done():
            ours.note_arrival()
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(arrive(), LIMIT_S))


def test_tasks_start_during_a_burst_of_requests_if_all_clients_fit_in_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission_queue, "MOST_HOLD_S", math.inf)
    tasks_start_while_requests_arrive(burst_with(connections=3))


def test_a_flood_of_requests_delays_tasks_only_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_queue, "MOST_HOLD_S", admission_queue.PAUSE_S)
    tasks_start_while_requests_arrive(burst_with(connections=4))


def test_tasks_do_not_start_until_a_burst_of_requests_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_queue, "MOST_HOLD_S", math.inf)

    async def arrive() -> None:
        ours = burst_with(connections=4)
        ours.note_arrival()
        waiting = asyncio.create_task(asyncio.to_thread(ours.wait_for_end))
        for _ in range(3 * admission_queue.QUIET_PAUSES):
            ours.note_arrival()
            await asyncio.wait([waiting], timeout=admission_queue.PAUSE_S)
            assert not waiting.done()
        await waiting

    asyncio.run(asyncio.wait_for(arrive(), LIMIT_S))
