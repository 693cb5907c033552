"""False alarms and statistical power of comparisons."""

import numpy as np
import pytest
from simulated_results import ROUNDS, SERVERS, USUAL, a_result, by_server

from under_siege.compare.diff import (
    FIGURES,
    CasePair,
    Change,
    MetricChange,
    adjusted_for_tests,
    compare_results,
    ratio_between,
)
from under_siege.judge.estimates import Estimate, estimates, holm
from under_siege.judge.summary import Interval, Latency, Summary
from under_siege.record.case import case_of

TRIALS, DAYS = 100, 20


def most_alarms(trials: int) -> float:
    """Return 5 % of the trials plus two standard deviations of the binomial distribution."""
    return 0.05 * trials + 2 * (0.05 * 0.95 * trials) ** 0.5


def test_holm_correction_matches_the_textbook_example() -> None:
    steps = holm([0.03, 0.01, 0.04, 0.005], 0.05)
    assert [step.adjusted for step in steps] == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert [step.level for step in steps] == pytest.approx([0.025, 0.05 / 3, 0.025, 0.0125])
    assert holm([], 0.05) == []


def simulated(rng, cases: int, changes: dict[tuple[int, int], float], noise: float | None = None) -> list[CasePair]:
    """Return compared cases with these true changes (logarithms); if `noise` is `None`, noise levels are random."""
    summary = Summary(
        server="",
        title="",
        task="primes",
        users=5,
        workers=1,
        python="3.11.7",
        rounds=3,
        rate_per_s=Interval(1.0),
        ping_s=Latency(1.0, 1.0, 1.0, 1.0),
        cpu_s_per_transaction=1.0,
        memory_bytes=1,
    )
    ratios = []
    for figure in range(len(FIGURES)):
        sizes = [noise or float(np.exp(rng.uniform(np.log(0.003), np.log(0.2)))) for _ in range(cases)]
        truth = [(0.0, size) for size in sizes] + [
            (changes.get((place, figure), 0.0), size) for place, size in enumerate(sizes)
        ]
        found = estimates([np.exp(rng.normal(mean, size, len(ROUNDS))).tolist() for mean, size in truth])
        both = zip(found[:cases], found[cases:], strict=True)
        ratios.append([Change(base, ratio_between(base, len(ROUNDS), new, len(ROUNDS)), 0.0) for base, new in both])
    return adjusted_for_tests(
        [
            CasePair(
                case_of(f"{place}_x", {"task": "primes", "users": 5}),
                summary,
                summary,
                tuple(
                    MetricChange(figure, summary, summary, ratio[place], is_judged=True)
                    for figure, ratio in zip(FIGURES, ratios, strict=True)
                ),
            )
            for place in range(cases)
        ]
    )


@pytest.mark.parametrize("noise", [None, 0.03, 0.3], ids=["random noise", "moderate noise", "high noise"])
@pytest.mark.parametrize("cases", [1, 5])
def test_equal_results_rarely_cause_false_alarms(cases, noise) -> None:
    rng = np.random.default_rng(20261120 + cases)
    alarms = sum(
        any(case.judgement in ("better", "worse") for case in simulated(rng, cases, {}, noise)) for _ in range(TRIALS)
    )
    assert alarms <= most_alarms(TRIALS)


def test_only_the_case_that_is_ten_percent_slower_is_reported() -> None:
    rng = np.random.default_rng(7)
    found = others = 0
    for _ in range(100):
        cases = simulated(rng, 5, {(2, 0): np.log(0.9)}, USUAL)
        found += cases[2].judgement == "worse"
        others += any(case.judgement != "no difference" for place, case in enumerate(cases) if place != 2)
    assert found >= 95
    assert others <= 5


def test_the_smallest_detectable_change_is_detected_in_about_half_of_the_comparisons() -> None:
    rng = np.random.default_rng(8)
    sizes = [simulated(rng, 3, {}, 0.05)[0].changes[0].smallest_visible for _ in range(50)]
    truth = float(np.log1p(np.median(sizes)))
    found = sum(simulated(rng, 3, {(0, 0): truth}, 0.05)[0].changes[0].judgement == "better" for _ in range(200))
    assert 60 <= found <= 140


@pytest.mark.parametrize("waits", [False, True], ids=["CPU-bound", "I/O-bound"])
def test_different_machine_speeds_cause_no_additional_false_alarms(waits: bool) -> None:
    rng = np.random.default_rng(5)
    alarms = 0
    for number in range(DAYS):
        days = [np.exp(rng.normal(0, 0.2) + rng.normal(0, 0.12, len(ROUNDS))).tolist() for _ in range(2)]
        pair = [
            a_result(*SERVERS, seed=100 * number + day, speeds=speeds, waits=waits) for day, speeds in enumerate(days)
        ]
        alarms += bool({"better", "worse"} & set(by_server(compare_results(*pair)).values()))
    assert alarms <= most_alarms(DAYS)


def test_a_change_has_no_degrees_of_freedom_if_a_result_has_one_round() -> None:
    sure, single = Estimate(0.0, 1.0, 2.0), Estimate(0.0, 4.0, 2.0)
    assert ratio_between(sure, 3, sure, 3).degrees == 2
    assert ratio_between(sure, 3, single, 1).degrees == 0
