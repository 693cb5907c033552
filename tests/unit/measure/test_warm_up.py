"""The warm-up of a simulated server: the number of concurrent requests and their timeout."""

import asyncio
from collections.abc import Callable

import pytest
from plans import plan_of

from common.workers import usable_cpus
from under_siege.load.http_client import HttpResponse
from under_siege.load.request import Load
from under_siege.measure import warm_up
from under_siege.measure.bench_user import BenchUser
from under_siege.measure.plan import new_record
from under_siege.record.record import CaseFailedError, Record
from under_siege.suite.expected_response import Expectation

TASK_S = 10.0


class SingleQueueServer:
    """A simulated server that has a single queue and reports a given number of workers; its task takes no real time."""

    load_url, pid = "http://nowhere/", 4711
    user = BenchUser(Load(), load_url, load_url)

    def __init__(self, workers: str, named: Callable[[int], str] = "{}/MainThread".format) -> None:
        self.workers, self.named, self.waiting, self.longest, self.requests = workers, named, 0, 0, 0

    def age_s(self) -> float:
        return 1.0

    async def until_ready(self, _server, _session) -> HttpResponse:
        return HttpResponse(200, b"pong", {"x-workers": self.workers})

    async def while_alive(self, work):
        return await work

    async def fetch(self, _session, _url: str, limit_s: float, _right: bytes, _request: object) -> HttpResponse:
        self.waiting += 1
        self.requests += 1
        place = self.longest = self.waiting
        await asyncio.sleep(0)  # wait for all requests to be queued
        self.waiting -= 1
        if place * TASK_S > limit_s:
            raise CaseFailedError("no_answer", "the queue was too long")
        return HttpResponse(200, b"right", {"x-worker": self.named(place)})


def warmed_up(server: SingleQueueServer, monkeypatch: pytest.MonkeyPatch) -> Record:
    plan = plan_of("2", users=1)
    record = new_record(plan, plan.cases[0], 1.0, 1)
    monkeypatch.setattr(warm_up, "fetch", server.fetch)
    monkeypatch.setattr(warm_up, "until_ready", server.until_ready)
    asyncio.run(warm_up.warm_up(server, None, Expectation(b"right", TASK_S, TASK_S), record))
    return record


def test_the_timeout_of_the_warm_up_covers_the_whole_queue(monkeypatch) -> None:
    server = SingleQueueServer("40")
    assert warmed_up(server, monkeypatch).workers == 40
    assert server.longest == 80


def test_the_warm_up_of_a_threaded_process_does_not_wait_for_all_threads(monkeypatch) -> None:
    server = SingleQueueServer("40", "1/thread_{}".format)
    assert warmed_up(server, monkeypatch).workers == 40
    assert 2 <= server.longest <= server.requests <= 1 + 2 * usable_cpus()


@pytest.mark.parametrize(
    ("worker", "sends_more"),
    [("4711/thread_{}", False), ("4711/Interpreter-{}", True), ("4712/MainThread", True), ("", True)],
)
def test_the_warm_up_ends_if_a_thread_of_the_started_process_responds(
    worker: str, sends_more: bool, monkeypatch
) -> None:
    server = SingleQueueServer("40", worker.format)
    assert warmed_up(server, monkeypatch).workers == 40
    assert (server.requests > 1) == sends_more


def test_the_warm_up_continues_until_no_new_process_responds(monkeypatch) -> None:
    first = 1 + 2 * usable_cpus()
    server = SingleQueueServer("1000", lambda place: f"{2 if server.requests > 1 else 1}/thread_{place}")
    warmed_up(server, monkeypatch)
    assert first < server.requests < 4 * first


@pytest.mark.parametrize("header", ["", "many", "-1", "0", "²", "٣", "1001", "9" * 5000])
def test_an_invalid_number_of_workers_reported_by_the_server_is_ignored_in_the_warm_up(
    header: str, monkeypatch
) -> None:
    server = SingleQueueServer(header)
    assert warmed_up(server, monkeypatch).workers is None
    assert server.longest <= 2 * usable_cpus()


class SlowSingleWorker(SingleQueueServer):
    """A simulated server that reports many workers but has a single slow worker."""

    def __init__(self, workers: str) -> None:
        super().__init__(workers)
        self.requests = 0

    def age_s(self) -> float:
        return self.requests * TASK_S

    async def fetch(self, *_) -> HttpResponse:
        self.requests += 1
        return HttpResponse(200, b"right", {"x-worker": "1/MainThread"})


def test_the_warm_up_stops_early_if_a_server_has_fewer_workers_than_it_reports(monkeypatch) -> None:
    server = SlowSingleWorker("40")
    assert warmed_up(server, monkeypatch).workers == 40
    assert server.requests == 1 + 2 * min(40, usable_cpus())
