"""Sweeps: the knee of the throughput, its scaling law, and their descriptions in reports."""

import itertools
import json

import numpy as np
import pytest
from conftest import thorough
from formatted import formatted
from rows import set_status, set_waits
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.estimates import Estimate, estimates
from under_siege.judge.ranking import summarize
from under_siege.judge.scaling_law import Scaling, scaling
from under_siege.judge.sweep import axes_of_numbers, knee, number, sweeps
from under_siege.record.result import Result
from under_siege.run.chart_selection import figures
from under_siege.run.sweep_conclusion import sweep_sentences

NUMBERS = [1, 2, 4, 8, 16, 32]


def law(at: list[float], contention: float, coherency: float) -> np.ndarray:
    """Return the rates that the scaling law predicts, with 10/s for one worker."""
    one = np.asarray(at, dtype=float)
    return 10 * one / (1 + contention * (one - 1) + coherency * one * (one - 1))


def measured(truth: np.ndarray, rng: np.random.Generator, noise: float = 0.02, rounds: int = 3) -> list[Estimate]:
    return estimates((truth[:, None] * np.exp(noise * rng.standard_normal((len(truth), rounds)))).tolist())


def fitted(truth: np.ndarray, at: list[float], count: int, **how) -> list[Scaling]:
    rng = np.random.default_rng(1)
    return [scaling(at, measured(truth, rng, **how)) for _ in range(count)]


LAWS = [(NUMBERS, 0.05, 0.002), ([1, 2, 3, 4, 6, 8], 0.2, 0.0), ([1, 5, 10, 25, 50, 100, 400], 0.3, 1e-4)]


@pytest.mark.parametrize(
    ("law_", "rounds"), thorough(itertools.product(LAWS, (2, 5)), quick=[(LAWS[0], 5), (LAWS[1], 2)]), ids=str
)
def test_confidence_intervals_of_scaling_law_parameters_contain_the_true_values(law_, rounds: int) -> None:
    at, contention, coherency = law_
    found = fitted(law(at, contention, coherency), at, 250, rounds=rounds)
    covered = [
        [one.contention.low <= contention <= one.contention.high for one in found],
        [one.coherency.low <= coherency <= one.coherency.high for one in found],
        [one.alone.low <= 10 <= one.alone.high for one in found],
    ]
    # Expect a coverage of 92.5 % to 98 % (binomial standard error: 1.4 %). With two rounds, the noise is less certain.
    least = 0.925 - 0.015 * (rounds == 2)
    assert all(least <= share <= 0.98 for share in np.mean(covered, axis=1)), np.mean(covered, axis=1)
    assert np.mean([one.fits for one in found]) >= 0.95


def test_the_estimated_peak_matches_the_scaling_law() -> None:
    for one in fitted(law(NUMBERS, 0.05, 0.004), NUMBERS, 20, noise=0.005):
        assert one.peak == pytest.approx((0.95 / 0.004) ** 0.5, rel=0.1)
    assert [one.peak for one in fitted(law(NUMBERS, 0.2, 0.0), NUMBERS, 20)].count(None) >= 18


@pytest.mark.parametrize("truth", ["plateau", "drop"])
def test_throughput_with_a_plateau_or_a_drop_does_not_fit_the_scaling_law(truth: str) -> None:
    rates = {"plateau": np.minimum(NUMBERS, 4) * 10.0, "drop": np.array([10.0, 20, 40, 80, 8, 8])}[truth]
    assert [one.fits for one in fitted(rates, NUMBERS, 50)].count(True) == 0


def test_four_points_or_one_round_are_too_few_for_the_scaling_law() -> None:
    rng, four = np.random.default_rng(1), [1, 2, 4, 8]
    assert scaling(four, measured(law(four, 0.1, 0.0), rng)) is None
    assert scaling(NUMBERS, measured(law(NUMBERS, 0.1, 0.0), rng, rounds=1)) is None


def test_equal_rates_have_the_knee_at_the_first_point_in_95_of_100_results() -> None:
    rng = np.random.default_rng(1)
    found = [knee(measured(np.full(6, 30.0), rng, noise=0.04)) for _ in range(300)]
    assert found.count(0) >= 0.95 * 300 - 2 * (0.05 * 0.95 * 300) ** 0.5


def test_the_knee_is_at_the_start_of_a_plateau_and_late_if_throughput_grows_slowly() -> None:
    rng = np.random.default_rng(1)
    wall = [knee(measured(np.minimum(NUMBERS, 4) * 10.0, rng)) for _ in range(100)]
    assert wall.count(2) >= 95
    slowly = [knee(measured(30 * 1.04 ** np.arange(6), rng, noise=0.01)) for _ in range(100)]
    assert min(slowly) >= 3  # although throughput grows by only 4 % per step


def along_workers(rounds: int = 3) -> Result:
    """Return a result with two servers: one follows the scaling law, and one is limited to two CPUs."""
    rng, records = np.random.default_rng(3), []
    for round_ in range(1, rounds + 1):
        for workers in (1, 2, 4, 6, 8, 12):
            for server, scales in (("4_law", law([workers], 0.1, 0.01)[0] / 10), ("3_wall", min(workers, 2))):
                speed = scales / workers * np.exp(0.01 * rng.standard_normal())
                how = {"workers": workers, "users": 25, "parameters": {"workers": workers}}
                one = record_of(server, round_, speed=float(speed), has_ceiling=False, has_task=False, **how)
                one.machine = None
                records.append(one)
    return result_of(records)


def along_users() -> Result:
    records = []
    for round_ in (1, 2, 3):
        for users in (1, 5, 10, 25):
            records += [bare_record(round_, users=users), record_of("2_async", round_, users=users)]
            records.append(record_of("4_pool", round_, workers=2, users=users))
            set_waits(records[-1].requests, 0.002 * users)
    return result_of(records)


def test_sweep_sentences_describe_knees_scaling_laws_and_slower_pings(golden) -> None:
    """Four numbers of users are too few for the scaling law."""
    few_workers = along_workers()
    few_workers.records[:] = [one for one in few_workers.records if one.case.get("workers") <= 4]
    results = (along_workers(), along_users(), few_workers)
    golden(*(sentence for result in results for sentence in sweep_sentences(summarize(result))))


def test_sweeps_of_a_single_round_are_not_described() -> None:
    assert [*sweep_sentences(summarize(along_workers(rounds=1)))] == []


@pytest.mark.usefixtures("undrawn")
def test_every_output_format_describes_sweeps() -> None:
    result = along_workers()
    for dress in ("table", "markdown", "html"):
        assert "2 workers" in formatted(result, dress)
    told = {one["server"]: one for one in json.loads(formatted(result, "json"))["sweeps"]}
    assert (told["3_wall"]["knee"], told["4_law"]["knee"]) == (2, 8)
    assert told["3_wall"]["scaling"]["fits"] is False
    assert told["3_wall"]["scaling"]["peak"] is None
    assert told["4_law"]["scaling"]["contention"]["low"] < 0.1 < told["4_law"]["scaling"]["contention"]["high"]
    assert told["4_law"]["values"]["users"] == 25


@pytest.mark.parametrize("figure", ["rate", "p99", "ping", "cpu", "memory"])
def test_every_metric_of_a_sweep_has_a_chart(figure: str) -> None:
    (chart,) = [one for one in figures(summarize(along_users())) if one.name == f"{figure}-sweep"]
    drawn = json.dumps(chart.chart())
    assert "2_async" in drawn
    assert "4_pool" in drawn
    assert ("the ceiling" in drawn) is (figure == "rate")


def test_integers_and_decimals_are_numeric_axis_values_but_words_and_versions_are_not() -> None:
    assert [number(one) for one in (3, "0.5", "12", "3.11.7", "acme", "1e9", None)] == [3, 0.5, 12, *[None] * 4]
    cases = [record_of("1_a", parameters={"size": size, "who": size * 2}).case for size in ("0.5", "2.5")]
    assert axes_of_numbers(cases) == ["size", "who"][:1]


def test_suspect_cases_are_excluded_from_sweeps() -> None:
    result = along_workers()
    for record in result.records:
        if record.case.get("workers") == 12:
            set_status(record, 500, range(3, 6))
    points = {point for sweep in sweeps(summarize(result)) for line in sweep.lines for point in line.numbers}
    assert points == {1, 2, 4, 6, 8}
