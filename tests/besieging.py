"""Runs of the bench with servers that do everything wrong, at a task that waits, and what came of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from command import called
from conftest import TESTS

from common.model.record import Record, load
from common.report.dressing import exit_code
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary

HOSTILE = TESTS / "servers"
QUICK = ("--rounds", "1", "--time", "1s", "--users", "4", "--seed", "1")


@dataclass(frozen=True)
class Besieged:
    """One server after its siege."""

    record: Record
    summary: Summary

    @property
    def why(self) -> str:
        return self.summary.reasons[0].code

    @property
    def words(self) -> str:
        return self.summary.reasons[0].message

    @property
    def port(self) -> int:
        return int(self.record.tool_command[-1].rstrip("/").rpartition(":")[2])


def hostile(name: str) -> str:
    return str(HOSTILE / f"{name}.py")


def besiege(folder: Path, servers: Sequence[str]) -> dict[str, Besieged]:
    """Runs the bench with these servers."""
    words = ("run", *servers, *QUICK, "--task", "sample_tasks:a_blink", "--out", "r.json")
    ran = called(*words, folder=folder, env={"PYTHONPATH": str(TESTS)})
    result = load(folder / "r.json")
    assert ran.returncode == exit_code(result), ran.stderr
    records = {record.server: record for record in result.records}
    return {case.server: Besieged(records[case.server], case) for case in summarize(result).cases}
