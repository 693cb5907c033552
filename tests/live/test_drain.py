"""Backlogs: work that a server has acknowledged but not finished when the load ends."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from bench_runs import run_once, without_a_ceiling
from conftest import TESTS
from simulated_record import record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.load.pings import watch_drain
from under_siege.record.record import Drain, Record


@pytest.mark.parametrize("suite", ["threads.toml", "reporting.toml"], ids=["CPU time", "reported jobs"])
def test_background_work_left_after_the_load_is_flagged_as_a_backlog(suite: str, tmp_path: Path) -> None:
    result, ran = run_once(tmp_path, str(TESTS / "suites/background" / suite), "--time", "1s")
    (case,) = summarize(result).cases
    assert [reason.code for reason in case.reasons if reason.code == "backlog"], ran.stdout + ran.stderr
    assert case.rank is None
    drain = result.records[0].drain
    assert drain is not None
    assert drain.lasted_s > 0
    assert (drain.backlog is not None) == (suite == "reporting.toml")


def test_a_reported_backlog_that_is_not_a_number_fails_the_case_before_the_load(tmp_path: Path) -> None:
    text = (TESTS / "suites/background/reporting.toml").read_text().replace('json = "pending"', 'json = "gone"')
    suite = tmp_path / "suite.toml"
    suite.write_text(f'folder = "{TESTS / "suites/background"}"\n' + text)
    result, _ = run_once(tmp_path, str(suite), "--time", "1s")
    (record,) = result.records
    assert record.failure is not None
    assert record.failure.message.startswith("/metrics has no number at 'gone'")
    assert record.load_began_s is None


def test_replacing_the_workers_of_abandoned_requests_is_not_flagged_as_a_backlog(tmp_path: Path) -> None:
    with without_a_ceiling():
        result, _ = run_once(tmp_path, "9", "--time", "2s")
    case = next(case for case in summarize(result).cases if case.server == "9_async_pebble")
    drain = next(record.drain for record in result.records if record.drain)
    assert drain.restarts > 0
    assert [reason for reason in case.reasons if reason.code == "backlog"] == []


def with_drain(**values) -> Record:
    drain = {"lasted_s": 5.0, "cpu_s": 0.1, "backlog": None, "is_done": True} | values
    return msgspec.structs.replace(record_of("1_a"), drain=Drain(**drain))


@pytest.mark.parametrize(
    ("drain", "message"),
    [
        ({}, ""),
        ({"cpu_s": 0.5}, ""),  # 0.1 s for each of the 5 requests that the load tool abandoned
        ({"cpu_s": 5.0}, "after the load, the server was busy for 5.0 s and"),
        ({"cpu_s": 5.0, "is_done": False}, "after the load, the server was busy for 5.0 s or longer and"),
        (
            {"cpu_s": 1.2, "restarts": 5},
            "",
        ),  # for each abandoned request, a worker was replaced, which takes at least 0.1 s
        ({"cpu_s": 60.0, "restarts": 500}, "after the load, the server was busy for 5.0 s and"),
        ({"backlog": 5}, ""),
        ({"backlog": 300}, "300 jobs were still queued when the load ended and took another 5.0 s"),
        ({"cpu_s": None}, ""),
    ],
    ids=str,
)
def test_only_work_beyond_that_of_abandoned_requests_is_flagged_as_a_backlog(
    drain: dict[str, object], message: str
) -> None:
    (case,) = summarize(result_of([with_drain(**drain)])).cases
    messages = [reason.message for reason in case.reasons if reason.code == "backlog"]
    assert bool(messages) == bool(message)
    assert all(message in text for text in messages)


def test_the_bench_stops_waiting_for_the_backlog_at_the_time_limit() -> None:
    record = record_of("1_a")
    used_s = iter(range(100, 1000))
    asyncio.run(watch_drain(record, lambda: float(next(used_s)), None, None, 0.5))
    assert record.drain is not None
    assert not record.drain.is_done
    assert record.drain.cpu_s is not None
    assert record.drain.cpu_s > 0
