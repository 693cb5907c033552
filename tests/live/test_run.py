"""A real run of two strategies: its output, its raw values, and the report of its result."""

import os
import re
import shutil
import stat
from pathlib import Path

import pytest
from command import CommandResult, invoke
from conftest import SUPPORT

from under_siege.record.record import Record
from under_siege.record.requests import CHECK, CORRECT, LOAD, OPEN, Requests
from under_siege.record.result import SCHEMA, Result, load
from under_siege.report import view_of

USERS = 6


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[CommandResult, Path, Result]:
    """Run two strategies with a task of the current directory; return the command, its result file and the result.

    The task prints text without a newline, which must not corrupt the measured results.
    """
    folder = tmp_path_factory.mktemp("measured")
    shutil.copy(SUPPORT / "sample_tasks.py", folder / "my_jobs.py")
    words = ("run", "2", "4", "--rounds", "1", "--time", "1s", "--users", str(USERS), "--workers", "2")
    ran = invoke(*words, "--task", "my_jobs:prints", folder=folder)
    (file,) = (folder / "results").glob("*.json")
    return ran, file, load(file)


def test_a_run_prints_the_table_that_report_prints_and_names_the_file(measured, run_cli, tmp_path: Path) -> None:
    ran, file, result = measured
    assert ran.returncode == view_of(result).exit_code, ran.stderr
    assert ran.stderr.endswith(f"Raw values: results/{file.name}\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z\.json", file.name)
    for server in ("2_async", "4_async_processexecutor", "ceiling"):
        assert re.search(rf"^(→ )?[12]? +{server} +\d", ran.stdout, re.MULTILINE)
    assert run_cli("report", str(file)).stdout == ran.stdout
    assert run_cli("report", str(file), "--out", "table.txt").stdout == ""
    assert (tmp_path / "table.txt").read_text() == ran.stdout


def test_a_result_file_is_readable_by_other_users(measured) -> None:
    assert stat.S_IMODE(measured[1].stat().st_mode) == 0o644


def test_the_result_file_contains_the_environment(measured) -> None:
    result = measured[2]
    assert result.schema == SCHEMA
    assert result.command[:4] == ["bench.py", "run", "2", "4"]
    assert result.environment.tools["siege"].count(".") == 2
    assert result.environment.cpus >= result.environment.usable_cpus >= 1
    (packages,) = result.environment.packages_of.values()
    assert {"tornado", "flask", "aiohttp", "gevent"} <= set(packages)


def test_the_result_file_contains_the_raw_values_of_each_server_and_of_the_ceiling(measured) -> None:
    records = measured[2].records
    assert sorted(record.server for record in records) == ["2_async", "4_async_processexecutor", "bare"]
    for record in records:
        assert (record.failure, record.case.task) == (None, "my_jobs:prints")
        answers = answered(record)
        assert set(answers.user) <= set(range(USERS))
        assert set(answers.size_bytes) == {record.answer_bytes} == {len("after printing")}
        assert set(answers.outcome) == set(record.requests.only(CHECK).outcome) == {CORRECT}
        assert record.load_s >= 1
        assert_the_machine_was_watched(record)


def test_the_record_of_a_server_contains_its_use_of_the_machine_and_the_report_of_siege(measured) -> None:
    for record in measured[2].records:
        if not record.is_ceiling:
            assert set(answered(record).status) == {200}
            assert record.idle_answer_s > 0
            assert 0 < record.machine.busy_s <= record.machine.total_s
            assert record.memory_kind in ("pss", "rss")
            assert record.samples.cpu_s == sorted(record.samples.cpu_s)
            assert record.tool_unknown_lines == []
            counted = int(re.search(r"Transactions:\s+(\d+)", record.tool_report)[1])
            # At its end, siege may count a response that it has not printed, or print one that it has not counted.
            assert abs(len(answered(record)) - counted) <= USERS


def answered(record: Record) -> Requests:
    """Return the requests of the load, without those that the end of the load cut off."""
    load_rows = record.requests.only(LOAD)
    return load_rows.rows(index for index, outcome in enumerate(load_rows.outcome) if outcome != OPEN)


def assert_the_machine_was_watched(record: Record) -> None:
    """Check that speed samples and baseline runs were recorded before and after the load."""
    beats, cpus = record.speed_samples, os.sched_getaffinity(0)
    assert set(beats.cpu) == set(record.cpu_times.busy_s) == cpus
    assert len(beats.at_s) == len(beats.cpu) == len(beats.took_s)
    assert min(record.alone_at_s) < 0 < record.load_s < max(record.alone_at_s)
    assert len(record.alone_wall_s) == len(record.alone_cpu_s) == len(record.alone_on_cpu) == len(record.alone_at_s)
    assert set(record.alone_on_cpu) <= cpus
    assert all(0 < cpu_s <= wall_s for cpu_s, wall_s in zip(record.alone_cpu_s, record.alone_wall_s, strict=True))
    for used_s in record.cpu_times.busy_s.values():
        assert used_s == sorted(used_s)
        assert len(used_s) == len(record.cpu_times.at_s)
