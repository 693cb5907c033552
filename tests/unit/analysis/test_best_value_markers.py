"""Best-value markers: no marked value is worse than an unmarked value, and the best cases are rarely unmarked."""

import numpy as np
import pytest
from conftest import ROOT

from under_siege.analysis.ranking import leaders, summarize
from under_siege.analysis.summary import Summary
from under_siege.model.record import load
from under_siege.report.columns import columns_for
from under_siege.stats.estimates import Estimate, differ, estimates
from under_siege.stats.metrics import MEASURES

WAIT = MEASURES["response_p50_s"]  # lower is better


def marked(values: list[Estimate], shown: list[float] | None = None) -> list[bool]:
    return leaders([1] * len(values), values, shown or [one.mean for one in values], WAIT)


def test_an_uncertain_case_is_not_marked_as_best_if_a_better_case_is_unmarked() -> None:
    best, worse, unknown = (
        Estimate(log, variance, degrees=3.0) for log, variance in ((0.0, 1e-4), (0.6, 1e-4), (0.7, 0.04))
    )
    assert differ(best, worse, 3)
    assert not differ(best, unknown, 3), "compared with the best case alone, `unknown` is not significantly different"
    assert marked([best, worse, unknown]) == [True, False, False]


def test_no_case_marked_as_best_has_a_worse_value_than_an_unmarked_case() -> None:
    values = [Estimate(log, 1e-6, degrees=9.0) for log in (0.0, 0.001, 0.5, 0.9)]
    assert marked(values) == [True, True, False, False]
    assert marked(values, [1.0, 1.5, 1.2, 2.4]) == [True, False, False, False]
    assert marked(values, [1.3, 2.5, 1.2, 2.4]) == [False] * 4


@pytest.mark.parametrize("equal", [11, 5, 2])
@pytest.mark.parametrize("differing", [0.0, 0.5, 1.0])
def test_one_of_the_best_cases_is_unmarked_in_at_most_5_of_100_simulated_results(equal: int, differing: float) -> None:
    """Simulate eleven cases: `equal` of them are equally good, and the others are about 20 % worse.

    `differing` is the standard deviation of the logarithms of the cases' noise levels.
    """
    rng, alarms, results = np.random.default_rng(equal), 0, 100
    truth = np.where(np.arange(11) < equal, 0.0, 0.2)
    for _ in range(results):
        own = 0.03 * np.exp(differing * rng.standard_normal(11))
        values = np.exp(truth[:, None] + rng.standard_normal((11, 2)) * own[:, None])
        stars = marked(estimates(values.tolist()))
        alarms += any(stars) and not all(stars[:equal])
        heights = list(zip(np.exp(np.log(values).mean(axis=1)), stars, strict=True))
        unlucky = min((height for height, star in heights if not star), default=np.inf)
        assert all(height <= unlucky * 1.02 for height, star in heights if star)
    assert alarms <= 0.05 * results + 2 * (0.05 * 0.95 * results) ** 0.5


@pytest.mark.parametrize("name", ["sample", "deployments", "published", "tasks"])
def test_no_value_marked_as_best_in_committed_results_is_worse_than_an_unmarked_value(name: str) -> None:
    cases = [one for one in summarize(load(ROOT / "results" / f"{name}.json")).cases if one.rank]
    for case_load in {one.case.load for one in cases}:
        field = [one for one in cases if one.case.load == case_load]
        for figure, measure in MEASURES.items():
            losses = [(loss(one, figure, more=measure.more_is_better), figure in one.best) for one in field]
            stars = [value for value, star in losses if star]
            assert max(stars, default=-np.inf) <= min((value for value, star in losses if not star), default=np.inf)


def loss(case: Summary, figure: str, *, more: bool) -> float:
    value = case.shown(figure)
    return np.inf if value is None else -value if more else value


def test_exactly_the_cases_of_rank_1_have_rates_marked_as_best() -> None:
    cases = summarize(load(ROOT / "results" / "sample.json")).cases
    columns = columns_for(cases)
    names = [column.name for column in columns]
    for case in cases:
        cells = dict(zip(names, (column.cell(case) for column in columns), strict=True))
        assert cells["trans/s"].is_strong == (case.rank == 1)
