"""Run bench.py with the servers in tests/servers, and return the record and summary of each case."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import CommandResult, invoke
from conftest import SUPPORT, TESTS

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.record import Record
from under_siege.record.result import Result, load
from under_siege.report import view_of
from under_siege.suite import server_files

SERVERS_DIRECTORY = TESTS / "servers"
QUICK = ("--rounds", "1", "--time", "1s", "--users", "4", "--seed", "1")


@dataclass(frozen=True)
class MeasuredCase:
    """The record and the summary of a measured case."""

    record: Record
    summary: Summary

    @property
    def code(self) -> str:
        return self.summary.reasons[0].code

    @property
    def message(self) -> str:
        return self.summary.reasons[0].message

    @property
    def port(self) -> int:
        return int(self.record.tool_command[-1].rstrip("/").rpartition(":")[2])


def server_path(name: str) -> str:
    return str(SERVERS_DIRECTORY / f"{name}.py")


@contextlib.contextmanager
def without_a_ceiling() -> Iterator[None]:
    """Disable the ceiling in the `with` block, because measuring it takes as long as measuring a server."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server_files, "NO_SERVER", None)
        yield


def run_servers(folder: Path, servers: Sequence[str]) -> dict[str, MeasuredCase]:
    """Measure these servers with a short I/O-bound task and without a ceiling; return a case for each server."""
    words = ("run", *servers, *QUICK, "--task", "sample_tasks:a_blink", "--out", "r.json")
    with without_a_ceiling():
        ran = invoke(*words, folder=folder, env={"PYTHONPATH": str(SUPPORT)})
    result = load(folder / "r.json")
    assert ran.returncode == view_of(result).exit_code, ran.stderr
    records = {record.server: record for record in result.records}
    return {case.server: MeasuredCase(records[case.server], case) for case in summarize(result).cases}


def run_once(folder: Path, *words: str) -> tuple[Result, CommandResult]:
    ran = invoke("run", *words, "--rounds", "1", "--out", "r.json", folder=folder)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return load(folder / "r.json"), ran
