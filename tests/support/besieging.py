"""Runs of the bench with servers that do everything wrong, at a task that waits, and what came of each."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Ended, called
from conftest import SUPPORT, TESTS

from under_siege.analysis.report_data import summarize
from under_siege.analysis.summary import Summary
from under_siege.model.record import Record, Result, load
from under_siege.render import exit_code
from under_siege.targets import strategies

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


@contextlib.contextmanager
def without_a_ceiling() -> Iterator[None]:
    """What is run in the body has none: it takes as much as one more server, and often nobody looks at it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strategies, "BARE", None)
        yield


def besiege(folder: Path, servers: Sequence[str]) -> dict[str, Besieged]:
    """Runs the bench with these servers."""  # what is held against them here needs no ceiling
    words = ("run", *servers, *QUICK, "--task", "sample_tasks:a_blink", "--out", "r.json")
    with without_a_ceiling():
        ran = called(*words, folder=folder, env={"PYTHONPATH": str(SUPPORT)})
    result = load(folder / "r.json")
    assert ran.returncode == exit_code(result), ran.stderr
    records = {record.server: record for record in result.records}
    return {case.server: Besieged(records[case.server], case) for case in summarize(result).cases}


def measured(folder: Path, *words: str) -> tuple[Result, Ended]:
    ran = called("run", *words, "--rounds", "1", "--out", "r.json", folder=folder)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return load(folder / "r.json"), ran
