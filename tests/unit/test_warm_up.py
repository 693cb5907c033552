"""Warming up, with a server that is simulated: how many requests it gets at once, and how long they may take."""

import asyncio
from collections.abc import Callable

import pytest
from planned import plan_of

from common.cpus import usable_cpus
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer
from under_siege.model.record import Record
from under_siege.run import warm_up
from under_siege.run.plan import new_record
from under_siege.targets.expectation import Expectation

TASK_S = 10.0


class OneLine:
    """Says that it has so many workers; all requests wait in one line, which takes no time here."""

    load_url, pid = "http://nowhere/", 4711

    def __init__(self, workers: str, named: Callable[[int], str] = "{}/MainThread".format) -> None:
        self.workers, self.named, self.waiting, self.longest, self.asked = workers, named, 0, 0, 0

    def age_s(self) -> float:
        return 1.0

    async def ready(self, _session) -> Answer:
        return Answer(200, b"pong", {"x-workers": self.workers})

    async def while_alive(self, work):
        return await work

    async def get(self, _session, _url: str, limit_s: float, _expected_bytes: int) -> Answer:
        self.waiting += 1
        self.asked += 1
        place = self.longest = self.waiting
        await asyncio.sleep(0)  # until all of them are in the line
        self.waiting -= 1
        if place * TASK_S > limit_s:
            raise CaseFailedError("no_answer", "the line was too long")
        return Answer(200, b"right", {"x-worker": self.named(place)})


def warmed_up(server: OneLine, monkeypatch: pytest.MonkeyPatch) -> Record:
    plan = plan_of("2", users=1)
    record = new_record(plan, plan.cases[0], 1.0, 1)
    monkeypatch.setattr(warm_up, "get", server.get)
    asyncio.run(warm_up.warm_up(server, None, Expectation(b"right", TASK_S, TASK_S), record))
    return record


def test_one_user_and_many_workers_are_given_time_for_the_whole_line(monkeypatch) -> None:
    server = OneLine("40")
    assert warmed_up(server, monkeypatch).workers == 40
    assert server.longest == 80


def test_many_threads_are_warm_once_some_of_their_process_have_worked(monkeypatch) -> None:
    server = OneLine("40", "1/thread_{}".format)
    assert warmed_up(server, monkeypatch).workers == 40
    assert 2 <= server.longest <= server.asked <= 1 + 2 * usable_cpus()


@pytest.mark.parametrize(
    ("worker", "others_are_asked"),
    [("4711/thread_{}", False), ("4711/Interpreter-{}", True), ("4712/MainThread", True), ("", True)],
)
def test_only_the_server_itself_has_no_others_to_wake(worker: str, others_are_asked: bool, monkeypatch) -> None:
    server = OneLine("40", worker.format)
    assert warmed_up(server, monkeypatch).workers == 40
    assert (server.asked > 1) == others_are_asked


def test_threads_of_several_processes_are_asked_until_no_new_process_comes(monkeypatch) -> None:
    first = 1 + 2 * usable_cpus()
    server = OneLine("1000", lambda place: f"{2 if server.asked > 1 else 1}/thread_{place}")
    warmed_up(server, monkeypatch)
    assert first < server.asked < 4 * first


@pytest.mark.parametrize("told", ["", "many", "-1", "0", "²", "٣", "1001", "9" * 5000])
def test_what_can_not_be_a_number_of_workers_is_ignored(told: str, monkeypatch) -> None:
    server = OneLine(told)
    assert warmed_up(server, monkeypatch).workers is None
    assert server.longest <= 2 * usable_cpus()


class OneWorker(OneLine):
    """Says that it has many workers, and is one whose work takes long."""

    def __init__(self, workers: str) -> None:
        super().__init__(workers)
        self.asked = 0

    def age_s(self) -> float:
        return self.asked * TASK_S

    async def get(self, *_) -> Answer:
        self.asked += 1
        return Answer(200, b"right", {"x-worker": "1/MainThread"})


def test_a_server_that_says_more_workers_than_it_has_is_not_asked_for_minutes(monkeypatch) -> None:
    server = OneWorker("40")
    assert warmed_up(server, monkeypatch).workers == 40
    assert server.asked == 1 + 2 * min(40, usable_cpus())


def test_where_work_is_short_all_workers_are_looked_for(monkeypatch) -> None:
    server = OneWorker("3")
    monkeypatch.setattr(server, "age_s", lambda: 1.0)
    warmed_up(server, monkeypatch)
    assert server.asked == 1 + 2 * min(3, usable_cpus()) + (warm_up.BATCHES - 1) * 6
