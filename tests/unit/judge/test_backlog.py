"""Backlogs: work that a server has acknowledged but not finished when the load ends."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from simulated_record import record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.measure import after_load
from under_siege.measure.after_load import watch_drain, watch_new_processes
from under_siege.record.record import Drain, Record


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "SHORT_LOOK_S"):
        monkeypatch.setattr(after_load, name, 0.0)


def with_drain(**values) -> Record:
    drain = {"lasted_s": 5.0, "cpu_s": 0.1, "backlog": None, "is_done": True} | values
    return msgspec.structs.replace(record_of("1_a"), drain=Drain(**drain))


@pytest.mark.parametrize(
    ("drain", "is_flagged"),
    [
        ({}, False),
        ({"cpu_s": 0.5}, False),  # 0.1 s for each of the 5 requests that the load tool abandoned
        ({"cpu_s": 5.0}, True),
        ({"cpu_s": 1.2, "restarts": 5}, False),  # for each abandoned request, a worker was replaced in at least 0.1 s
        ({"cpu_s": 60.0, "restarts": 500}, True),
        ({"backlog": 5}, False),
        ({"backlog": 300}, True),
        ({"cpu_s": None}, False),
    ],
    ids=str,
)
def test_only_work_beyond_that_of_abandoned_requests_is_flagged(drain: dict[str, object], is_flagged: bool) -> None:
    (case,) = summarize(result_of([with_drain(**drain)])).cases
    assert [reason.code for reason in case.reasons if reason.code == "backlog"] == ["backlog"] * is_flagged


@pytest.mark.parametrize(("restarts", "cause"), [(0, "check for background work"), (2, "workers that are recycled")])
def test_the_likely_cause_of_work_after_the_load_is_named(restarts: int, cause: str) -> None:
    (case,) = summarize(result_of([with_drain(cpu_s=60.0, restarts=restarts)])).cases
    (message,) = [reason.message for reason in case.reasons if reason.code == "backlog"]
    assert f"does not include this work; {cause}" in message or f"started {restarts} processes then: {cause}" in message


def drained(cpu_s: Callable[[], float], jobs: Callable[[], Awaitable[float]] | None, limit_s: float) -> Drain:
    record = record_of("1_a")
    asyncio.run(watch_drain(record, cpu_s, jobs, None if jobs is None else 3.0, limit_s))
    assert record.drain is not None
    return record.drain


def test_the_bench_stops_waiting_for_a_busy_server_at_the_time_limit() -> None:
    used_s = itertools.count(100)
    drain = drained(lambda: float(next(used_s)), None, 0.02)
    assert not drain.is_done
    assert (drain.cpu_s or 0) > 0


def test_the_bench_waits_until_the_server_is_idle_or_has_no_jobs_left() -> None:
    left = iter([2.0, 1.0, 0.0])

    async def jobs() -> float:
        return next(left)

    assert drained(lambda: 1.0, None, 30.0).is_done
    drain = drained(lambda: 1.0, jobs, 30.0)
    assert (drain.is_done, drain.backlog) == (True, 3)
    assert list(left) == []


def test_processes_that_a_server_starts_after_the_load_are_found() -> None:
    record, started = record_of("9_pebble", load_s=None), set[int]()

    async def watch() -> None:
        running = {1, 2}
        watching = asyncio.create_task(watch_new_processes(record, lambda: set(running), started))
        await asyncio.sleep(0)
        running.add(3)  # under load
        await asyncio.sleep(0)
        record.load_s = 1.0
        running.symmetric_difference_update({1, 4})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(watch())
    assert started == {4}
