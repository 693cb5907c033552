"""Statistics, tested with simulated values of known means: coverage of intervals and rate of false differences."""

import itertools

import numpy as np
import pytest
from conftest import thorough
from scipy.special import stdtr

from under_siege.judge.estimates import (
    USUAL_DEVIATION,
    chance_of,
    differ,
    estimates,
    is_below,
    ratio,
    spreads_of,
    weighted_estimates,
)
from under_siege.judge.ranking import LOOKS, rank_level, ranks

# Minimum and maximum measured coverage for a nominal 95 % (standard error with 1,500 samples: 0.6 %). Seeds are fixed.
COVERS = (0.925, 0.975)


def most_wrong(results: int) -> float:
    """Return 5 % of the results plus two standard deviations of the binomial distribution."""
    return 0.05 * results + 2 * (0.05 * 0.95 * results) ** 0.5


def logs(rng, cases: int, rounds: int, spread: float, differing: float) -> np.ndarray:
    """Return logarithms with mean 0; `differing` is the standard deviation of the logarithms of the cases' spreads."""
    own = spread * np.exp(differing * rng.standard_normal(cases))
    return rng.standard_normal((cases, rounds)) * own[:, None]


@pytest.mark.parametrize(
    ("cases", "rounds", "differing"),
    thorough(itertools.product((2, 4, 10), (2, 3, 5), (0.0, 0.5)), quick=[(10, 2, 0.0), (4, 3, 0.5)]),
)
def test_confidence_intervals_contain_the_true_value_as_often_as_stated(
    cases: int, rounds: int, differing: float
) -> None:
    rng, covered = np.random.default_rng(cases * 10 + rounds), []
    for _ in range(1500 // cases):
        for estimate in estimates(np.exp(logs(rng, cases, rounds, 0.01, differing)).tolist()):
            low, high = estimate.interval()
            covered.append(low <= 1.0 <= high)
    # With two rounds, the spread of each case can hardly be estimated, which costs some coverage.
    assert COVERS[0] - 0.015 * (rounds == 2) <= np.mean(covered) <= COVERS[1]


@pytest.mark.parametrize(
    ("rounds", "differing"), thorough(itertools.product((2, 3, 5), (0.0, 0.5)), quick=[(2, 0.5), (3, 0.0)])
)
def test_equal_cases_differ_significantly_in_at_most_5_of_100_results(rounds: int, differing: float) -> None:
    rng, wrong, results, cases = np.random.default_rng(rounds), 0, 150, 6
    for _ in range(results):
        # The noise is large, so that the minimum difference has no influence.
        found = estimates(np.exp(logs(rng, cases, rounds, 0.05, differing)).tolist())
        wrong += any(differ(one, other, 15) for one, other in itertools.combinations(found, 2))
    assert wrong <= most_wrong(results)


def test_a_difference_of_8_percent_is_detected_in_90_of_100_results() -> None:
    rng, found = np.random.default_rng(1), 0
    for _ in range(100):
        values = np.exp(logs(rng, 8, 3, 0.01, 0.3))
        values[0] *= 1.08
        first, *others = estimates(values.tolist())
        found += all(differ(first, other, 28) for other in others)
    assert found >= 90


def undisturbed(values):
    return [[(value, 0.0) for value in row] for row in values]


def weighted(values: np.ndarray):
    """Return the estimates for undisturbed rounds."""
    return weighted_estimates(undisturbed(values))


@pytest.mark.parametrize(
    ("rounds", "spread"), thorough(itertools.product((1, 2, 4), (0.02, 0.05)), quick=[(1, 0.05), (2, 0.02)])
)
def test_confidence_intervals_from_pooled_noise_contain_the_true_value(rounds: int, spread: float) -> None:
    rng, covered = np.random.default_rng(rounds), []
    for _ in range(150):
        for estimate in weighted(logs(rng, 10, rounds, spread, 0.2)):
            low, high = estimate.interval()
            covered.append(low <= 1.0 <= high)
    # A single round is assumed to have 5 % noise, so its intervals are too wide if the true noise is smaller.
    assert COVERS[0] - 0.01 <= np.mean(covered)
    assert np.mean(covered) <= COVERS[1] or rounds == 1


def test_a_disturbed_round_has_less_weight_in_the_estimate() -> None:
    calm, disturbed = [(0.0, 0.0), (0.02, 0.0)], [(0.0, 0.0), (0.1, 0.04)]
    fine, odd = weighted_estimates([calm, disturbed])
    assert fine.log == pytest.approx(0.01)
    assert odd.log < 0.01
    assert (fine.rounds, odd.rounds) == (pytest.approx(2), pytest.approx(1, abs=0.1))


def test_a_very_noisy_case_does_not_widen_the_intervals_of_others() -> None:
    rng = np.random.default_rng(4)
    calm = rng.normal(0, 0.02, (8, 3)).tolist()
    *others, wild = spreads_of(undisturbed([*calm, [0.5, -0.4, 0.3]]), USUAL_DEVIATION)
    assert wild.variance > 0.1
    assert max(one.variance for one in others) < 0.04**2


@pytest.mark.parametrize("cases", thorough([3, 6, 11], quick=[6]))
def test_each_of_several_equal_cases_has_the_first_rank_in_95_of_100_results(cases: int) -> None:
    """Limit the probability that one of the best cases is reported as worse (Edwards and Hsu 1983)."""
    rng, wrong, results = np.random.default_rng(cases), 0, 200
    for _ in range(results):
        found = ranks([1] * cases, weighted(logs(rng, cases, 2, 0.05, 0.0)))
        wrong += found[0] != 1
    assert wrong <= most_wrong(results)


def test_repeated_tests_during_a_run_keep_the_significance_level() -> None:
    """Like `--rounds auto`, stop as soon as a case is significantly worse."""
    rng, wrong, results = np.random.default_rng(1), 0, 200
    for _ in range(results):
        values = logs(rng, 4, 2 + LOOKS, 0.05, 0.2)
        looks = (weighted(values[:, :count]) for count in range(2, 2 + LOOKS))
        alpha = rank_level(4, LOOKS)
        wrong += any(any(is_below(found[0], other, alpha) for other in found[1:]) for found in looks)
    assert wrong <= most_wrong(results)


def test_the_interval_of_a_single_case_equals_students_t_interval() -> None:
    values = [26.1, 26.9, 25.8, 26.4]
    (estimate,) = estimates([values])
    center, error = np.mean(np.log(values)), np.std(np.log(values), ddof=1) / 2
    t = 3.182446305  # two-sided 95 % quantile for 3 degrees of freedom
    assert estimate.interval() == pytest.approx((np.exp(center - t * error), np.exp(center + t * error)))


def test_the_p_value_of_a_difference_matches_welchs_test_if_variances_are_equal() -> None:
    one, other = [10.2, 10.4, 10.1], [10.0, 10.2, 9.9]
    pair = estimates([one, other])
    apart = np.mean(np.log(one)) - np.mean(np.log(other))
    t = apart / ((np.var(np.log(one), ddof=1) + np.var(np.log(other), ddof=1)) / 3) ** 0.5
    expected = 2 * stdtr(4, -abs(t))  # 3 + 3 - 2 degrees of freedom
    assert chance_of(ratio(*pair)) == pytest.approx(expected, rel=0.25)  # conservative degrees of freedom
    assert ratio(*pair).mean == pytest.approx(np.exp(np.mean(np.log(one)) - np.mean(np.log(other))))


def test_the_interval_of_a_case_with_one_round_uses_the_noise_of_the_other_cases() -> None:
    found = estimates([[10.0], [20.0, 20.2], []])
    assert found[0].mean == pytest.approx(10.0)
    assert found[0].interval() is not None
    assert found[1].interval() is not None
    assert found[2] is None
    assert estimates([[10.0], [20.0]])[0].interval() is None
    assert chance_of(ratio(*estimates([[10.0], [20.0]]))) == 1.0
    assert [estimates([[7.0, missing]])[0].mean for missing in (None, 0.0)] == pytest.approx([7.0, 7.0])
    assert estimates([[None], [0.0]]) == [None, None]
    assert estimates([]) == []


def test_differences_smaller_than_the_measurement_accuracy_are_not_significant() -> None:
    near, far = [[1.01, 1.0101, 1.0099], [1.0, 1.0001, 0.9999]], [[1.05, 1.0501, 1.0499], [1.0, 1.0001, 0.9999]]
    assert not differ(*estimates(near), 1)
    assert differ(*estimates(far), 1)


def test_equal_rounds_have_a_variance_above_zero() -> None:
    same = spreads_of(undisturbed([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
    assert all(spread.variance > 0 for spread in same)


def test_a_much_larger_variance_of_one_case_is_reduced_by_less_than_half() -> None:
    rng = np.random.default_rng(3)
    calm = [list(rng.normal(0, 0.01, 5)) for _ in range(8)]
    wild = [0.5, -0.4, 0.3, -0.6, 0.2]
    *_, last = spreads_of(undisturbed([*calm, wild]))
    assert last.variance > 0.5 * np.var(wild, ddof=1)
