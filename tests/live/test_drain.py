"""Backlogs that a server reports. Which work counts as a backlog is tested in tests/unit/judge/test_backlog.py."""

from pathlib import Path

from bench_runs import run_once
from scripted_server import write_suite

REPORTED = '[drain]\npath = "/echo"\njson = "number"\nlimit = "500ms"\n'  # its number of requests, which is never 0


def test_a_reported_backlog_is_recorded_until_the_time_limit(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "/slow/0.05", load="users = 1", more=REPORTED)
    result, ran = run_once(tmp_path, str(suite), "--time", "1s")
    drain = result.records[0].drain
    assert drain is not None, ran.stderr
    assert (drain.backlog, drain.is_done) == (2, False)
    assert drain.lasted_s >= 0.5
    assert (drain.cpu_s or 0) > 0


def test_a_reported_backlog_that_is_not_a_number_fails_the_case_before_the_load(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "/slow/0.05", more=REPORTED.replace('"number"', '"gone"'))
    result, _ = run_once(tmp_path, str(suite), "--time", "1s")
    (record,) = result.records
    assert record.failure is not None
    assert record.failure.code == "no_backlog"
    assert record.load_began_s is None
