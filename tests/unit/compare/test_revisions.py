"""Comparisons of two revisions in one run: detected changes, false alarms, and invalid revisions."""

import json
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest
from command import invoke
from simulated_record import CPUS, result_of
from simulated_results import SPEED_PROBE, a_record, add_beats, as_text, vary

from under_siege.compare.diff import compare_revisions
from under_siege.judge.ranking import summarize
from under_siege.judge.requirement_check import require
from under_siege.record.result import MeasuredSuite, Result
from under_siege.report import formatted, view_of

BASE, NEW = "main (1c2d3e4)", "work tree (5f6a7b8 with changes)"
ROUNDS = 8
TRIALS = 100


def two_revisions(rng: np.random.Generator, factor: float = 1.0, noise: float = 0.04, rounds: int = ROUNDS) -> Result:
    """Return a result from a noisy machine: the work tree's rate is `factor` times the base's rate."""
    records = []
    for round_ in range(1, rounds + 1):
        sides = [("bare", CPUS, 1.0, ""), ("shop", 2, 1.0, BASE), ("shop", 2, factor, NEW)]
        for server, workers, rate, revision in sides:
            speed = float(np.exp(rng.normal(0, 0.1)))  # each siege has its own CPU speed
            record = a_record(server, round_, workers, rate * float(np.exp(rng.normal(0, noise))), speed, waits=False)
            if revision:
                record.values["revision"] = revision
                vary(record, rng, noise)
            add_beats(record, speed, workers, rng)
            records.append(record)
    result = result_of(records, speed_probe=SPEED_PROBE)
    return msgspec.structs.replace(result, suite=MeasuredSuite(title="shop", against=BASE))


def test_a_slower_revision_is_reported_as_worse() -> None:
    result = two_revisions(np.random.default_rng(1), 0.8)
    comparison = compare_revisions(result)
    assert [case.judgement for case in comparison.cases] == ["worse"]
    assert comparison.exit_code == view_of(result).exit_code == 1
    text = as_text(comparison)
    assert text.startswith("Worse: shop (trans/s -")
    assert f"before: {BASE} · now: {NEW}" in " ".join(text.split())
    data = json.loads(formatted(result, "json"))["revisions"]
    assert data["cases"][0]["figures"]["rate_per_s"]["judgement"] == "worse"
    swapped = msgspec.structs.replace(result, suite=MeasuredSuite(title="shop", against=NEW))
    assert [case.judgement for case in compare_revisions(swapped).cases] == ["better"]
    assert compare_revisions(swapped).exit_code == 0


def test_equal_revisions_are_rarely_reported_as_different() -> None:
    rng = np.random.default_rng(20261124)
    changes = [compare_revisions(two_revisions(rng)).cases[0] for _ in range(TRIALS)]
    assert sum(case.judgement in ("better", "worse") for case in changes) <= 0.05 * TRIALS
    assert "would be detected" in as_text(compare_revisions(two_revisions(rng)))


@pytest.mark.parametrize("rounds", [2, 8])
def test_equal_revisions_are_rarely_worse_although_pings_differ_between_rounds(rounds: int) -> None:
    """Give all pings of a round a common delay: 2 ms to 0.2 s, as on a machine with other programs."""
    rng, worse, trials = np.random.default_rng(7), 0, 40
    for _ in range(trials):
        result = two_revisions(rng, rounds=rounds)
        for record in result.records:
            delay_s = 0.03 * float(np.exp(rng.normal(0, 0.8)))
            record.pings.waited_s[:] = [wait + delay_s for wait in record.pings.waited_s]
        worse += compare_revisions(result).exit_code == 1
    assert worse <= 0.05 * trials + 2 * (0.05 * 0.95 * trials) ** 0.5


def test_a_revision_that_is_ten_percent_slower_is_detected() -> None:
    rng = np.random.default_rng(3)
    found = [compare_revisions(two_revisions(rng, 0.9, noise=0.03)).cases[0].judgement for _ in range(30)]
    assert found.count("worse") >= 27


@pytest.mark.parametrize("noise", [0.04, 0.1])
def test_one_round_is_enough_for_a_rate_that_halves_but_equal_revisions_stay_undecided(noise: float) -> None:
    rng = np.random.default_rng(1)
    slower = [compare_revisions(two_revisions(rng, 0.4, noise, rounds=1)).cases[0].judgement for _ in range(20)]
    equal = [compare_revisions(two_revisions(rng, 1.0, noise, rounds=1)).cases[0].judgement for _ in range(40)]
    assert (
        slower.count("worse") >= 8
    )  # others are unclear, because the interval of one round extends beyond the ceiling
    assert set(equal) == {"undecided"}


def test_requirements_apply_to_the_new_revision() -> None:
    result = two_revisions(np.random.default_rng(5), 0.8)
    require(summarize(result), ["rate >= 0.97 of base"], has_base=True)
    required = compare_revisions(result).required
    assert [(check.case.case.get("revision"), check.outcome) for check in required] == [(NEW, "missed")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a git repository with a suite that was committed and then changed."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "suite.toml").write_text('[servers.one]\ncommand = "serve {port}"\n')
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c commit -q -m one"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)
    (folder / "suite.toml").write_text('[servers.one]\ncommand = "serve --port {port}"\n')
    return folder


@pytest.mark.parametrize(
    ("target", "base", "error"),
    [
        ("suite.toml", "no-such-branch", "--against no-such-branch: no such revision of"),
        ("suite.toml", "--help", "--against --help: no such revision of"),
        ("suite.toml", ".", "--against .: that is the work tree itself"),
        ("2", "HEAD", "--against HEAD needs a TARGET: expected a suite file"),
    ],
)
def test_an_invalid_base_revision_causes_a_one_line_error(repository: Path, target: str, base: str, error: str) -> None:
    ran = invoke("run", target, f"--against={base}", folder=repository)
    assert ran.returncode == 2
    assert error in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
