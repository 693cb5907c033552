"""The capacity of a real server whose answer theory gives."""

from pathlib import Path

import pytest
from command import invoke
from conftest import TESTS
from simulated_capacity import capacity_of

from under_siege.capacity.estimate import capacities_of
from under_siege.record.result import load

KNOWN = TESTS / "suites" / "known_capacity" / "suite.toml"


def test_the_capacity_of_a_server_that_sleeps_50_ms_is_found_in_20_seconds(tmp_path: Path) -> None:
    """The server sleeps in its event loop, so it is an M/D/1 queue."""
    truth, options = capacity_of("M/D/1", 0.5), ("--goal", "p99 < 500ms", "--time", "20s", "--out", "c.json", "--quiet")
    ran = invoke("capacity", f"{KNOWN}:one", *options, folder=tmp_path)
    assert ran.returncode in (0, 3), ran.stderr
    result = load(tmp_path / "c.json")
    assert not [step for step in result.steps if step.record.failure]
    (one,) = capacities_of(result)
    assert one.saturation_per_s < 20.5
    assert one.lower_per_s < 1.1 * truth
    assert one.upper_per_s > 0.9 * truth
    assert one.per_s == pytest.approx(truth, rel=0.25)
