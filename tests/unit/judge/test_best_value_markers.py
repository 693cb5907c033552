"""Best-value markers: no marked value is worse than an unmarked value, and the best cases are rarely unmarked."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from noisy_machine import NoisyMachine, Server
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.estimates import Estimate, differ, weighted_estimates
from under_siege.judge.metric import PING_TOLERANCE_S, Metric
from under_siege.judge.metrics import ESTIMATED, METRICS
from under_siege.judge.ranking import leaders, summarize
from under_siege.judge.summary import Summary
from under_siege.record.result import load
from under_siege.run.view import view
from under_siege.show.view import Tone

WAIT = METRICS["response_p50_s"]  # lower is better


def marked(values: list[Estimate], shown: list[float] | None = None) -> list[bool]:
    return leaders([1] * len(values), values, shown or [one.mean for one in values], WAIT)


def test_an_uncertain_case_is_not_marked_as_best_if_a_better_case_is_unmarked() -> None:
    best, worse, unknown = (
        Estimate(log, variance, degrees=3.0) for log, variance in ((0.0, 1e-4), (0.6, 1e-4), (0.7, 0.04))
    )
    assert differ(best, worse, 3)
    assert not differ(best, unknown, 3), "compared with the best case alone, `unknown` is not significantly different"
    assert marked([best, worse, unknown]) == [True, False, False]


@pytest.mark.parametrize(("factor", "is_marked"), [(2.5, True), (12.0, False)])
def test_a_value_many_times_as_bad_as_the_best_is_never_marked_however_wide_its_interval(
    factor: float, is_marked: bool
) -> None:
    best, wide, worst = (
        Estimate(log, variance, degrees=3.0)
        for log, variance in ((0.0, 1e-4), (np.log(factor), 4.0), (np.log(20), 1e-4))
    )
    assert marked([best, wide, worst]) == [True, is_marked, False]


def test_no_case_marked_as_best_has_a_worse_value_than_an_unmarked_case() -> None:
    values = [Estimate(log, 1e-6, degrees=9.0) for log in (0.0, 0.001, 0.5, 0.9)]
    assert marked(values) == [True, True, False, False]
    assert marked(values, [1.0, 1.5, 1.2, 2.4]) == [True, False, False, False]
    assert marked(values, [1.3, 2.5, 1.2, 2.4]) == [False] * 4


@pytest.mark.parametrize("equal", [11, 5, 2])
@pytest.mark.parametrize("differing", [0.0, 0.5, 1.0])
def test_an_equally_good_case_is_marked_in_at_least_90_of_100_simulated_results(equal: int, differing: float) -> None:
    """Simulate eleven cases: `equal` of them are equally good, and the others are twice as bad.

    `differing` is the standard deviation of the logarithms of the cases' noise levels.
    """
    rng, marks = np.random.default_rng(equal), []
    truth = np.where(np.arange(11) < equal, 0.0, np.log(2))
    for _ in range(100):
        own = 0.05 * np.exp(differing * rng.standard_normal(11))
        values = truth[:, None] + rng.standard_normal((11, 2)) * own[:, None]
        stars = marked(weighted_estimates([[(value, 0.0) for value in row] for row in values.tolist()]))
        if any(stars):  # otherwise, no case is significantly worse
            marks.append(stars)
        heights = list(zip(np.exp(values.mean(axis=1)), stars, strict=True))
        unlucky = min((height for height, star in heights if not star), default=np.inf)
        assert all(height <= unlucky * 1.02 for height, star in heights if star)
    if equal < 11:
        assert np.mean(marks, axis=0)[:equal].min() >= 0.9
        assert np.mean(marks, axis=0)[equal:].max() <= 0.02


QUICK_S, SLOW_S = 0.006, 0.1
PINGED = (
    *(Server(f"{number}_equal", 2, ping_s=1.0) for number in (1, 2, 3)),
    Server("4_twice", 2, ping_s=2.0),
    Server("5_tenfold", 2, ping_s=10.0),
)
RUNS = 20


@pytest.mark.parametrize("kind", ["quiet", "noisy"])
@pytest.mark.parametrize(("ping_s", "more_s"), [(QUICK_S, PING_TOLERANCE_S), (SLOW_S, 0.0)])
def test_pings_that_take_twice_as_long_are_hardly_ever_marked_and_equal_ones_nearly_always(
    kind: str, ping_s: float, more_s: float
) -> None:
    """Simulate the delays of this kind of machine; below 20 ms, the slower pings also take 20 ms more."""
    servers = [replace(one, ping_s=one.ping_s * ping_s + more_s * (one.ping_s > 1)) for one in PINGED]
    marks: Counter[str] = Counter()
    for seed in range(RUNS):
        for case in summarize(NoisyMachine(seed, kind).run(servers, rounds=2)).cases:
            marks[case.server] += "ping_p99_s" in case.best
    assert marks["4_twice"] <= 0.05 * RUNS  # 1 % of 800 runs
    assert marks["5_tenfold"] == 0
    assert min(marks[f"{number}_equal"] for number in (1, 2, 3)) >= 0.9 * RUNS


def test_a_ping_of_445_ms_is_not_marked_beside_one_of_8_ms_if_their_noise_differs() -> None:
    records = [bare_record(number) for number in (1, 2)]
    waits_s = {"1_quick": (0.0078, 0.0078), "2_spikes": (0.445, 0.139), "3_slow": (1.4, 1.5)}
    for name, of_rounds in waits_s.items():
        for number, waited_s in enumerate(of_rounds, 1):
            record = record_of(name, number)
            record.pings.waited_s[:] = [waited_s] * len(record.pings.due_s)
            records.append(record)
    best = {case.server: case.best for case in summarize(result_of(records)).cases}
    assert [name for name, metrics in best.items() if "ping_p99_s" in metrics] == ["1_quick"]


@pytest.mark.parametrize("name", ["sample", "deployments", "published", "tasks", "pythons"])
def test_no_value_marked_as_best_in_committed_results_is_worse_than_an_unmarked_value(name: str) -> None:
    cases = [one for one in summarize(load(ROOT / "results" / f"{name}.json.gz")).cases if one.rank]
    for case_load in {one.case.load for one in cases}:
        field = [one for one in cases if one.case.load == case_load]
        for metric in ESTIMATED:
            losses = [(loss(one, metric), metric.key in one.best) for one in field]
            stars = [value for value, star in losses if star]
            assert max(stars, default=-np.inf) <= min((value for value, star in losses if not star), default=np.inf)
            assert metric.more_is_better or max(stars, default=0) <= 10 * min(stars, default=0)


def loss(case: Summary, metric: Metric) -> float:
    value = case.shown(metric.key)
    return np.inf if value is None else -value if metric.more_is_better else value


def test_exactly_the_cases_of_rank_1_have_rates_marked_as_best() -> None:
    comparison = summarize(load(ROOT / "results" / "sample.json.gz"))
    table = view(comparison).tables[0]
    rates = [column.name for column in table.columns].index("trans/s")
    for case, row in zip(comparison.by_rank(), table.rows, strict=True):
        assert (row.cells[rates].tone == Tone.BEST) == (case.rank == 1)
