"""Rates and capacities of real servers whose answer theory gives."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_runs import without_a_ceiling
from conftest import SUPPORT, TESTS
from simulated_capacity import capacity_of

from under_siege.capacity.estimate import capacities_of
from under_siege.judge.ranking import summarize
from under_siege.record.result import load

RunCli = Callable[..., subprocess.CompletedProcess[str]]
KNOWN = TESTS / "suites" / "known_capacity" / "suite.toml"


def test_the_capacity_of_a_server_that_sleeps_50_ms_is_found_in_20_seconds(tmp_path: Path, run_cli: RunCli) -> None:
    """The server sleeps in its event loop, so it is an M/D/1 queue."""
    truth = capacity_of("M/D/1", 0.5)
    ran = run_cli("capacity", f"{KNOWN}:one", "--goal", "p99 < 500ms", "--time", "20s", "--out", "c.json", "--quiet")
    assert ran.returncode in (0, 3), ran.stderr
    result = load(tmp_path / "c.json")
    assert not [step for step in result.steps if step.record.failure]
    (one,) = capacities_of(result)
    assert one.saturation_per_s < 20.5
    assert one.lower_per_s < 1.1 * truth
    assert one.upper_per_s > 0.9 * truth
    assert one.per_s == pytest.approx(truth, rel=0.25)
    assert "requests/s (95 % CI" in ran.stdout


@pytest.mark.parametrize(
    ("server", "users", "time_s", "truth"),
    [
        ("1", 10, 6, 1 / 0.5),
        ("3", 25, 4, 4 / 0.5),
    ],
    ids=["one after the other", "four at a time"],
)
def test_the_rate_of_a_real_server_matches_the_duration_of_its_task(
    server, users, time_s, truth, run_cli, tmp_path
) -> None:
    """Use an I/O-bound task, so that the machine's speed does not matter.

    Other work on the machine delays responses, so the rate may be up to 15 % lower (8 % was observed with 25 %
    steal time). The tolerance for simulated servers is only 2 %.
    """
    shutil.copy(SUPPORT / "sample_tasks.py", tmp_path)
    load_ = ("--users", str(users), "--time", f"{time_s}s", "--rounds", "1", "--workers", "4")
    with without_a_ceiling():
        run_cli("run", server, "--task", "sample_tasks:half_a_second", *load_, "--out", "r.json")
    (case,) = summarize(load(tmp_path / "r.json")).cases
    assert 0.85 * truth < case.rate_per_s.mean < 1.05 * truth
