"""Best-value markers: no marked value is worse than an unmarked value.

tests/extended/test_best_value_study.py counts how often the best cases are marked.
"""

import numpy as np
import pytest
from conftest import ROOT
from rows import set_waits
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.estimates import Estimate, differ
from under_siege.judge.metric import Metric
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
    best, worse, unknown = (Estimate(*one, degrees=3.0) for one in ((0.0, 1e-4), (0.6, 1e-4), (0.7, 0.04)))
    assert differ(best, worse, 3)
    assert not differ(best, unknown, 3), "compared with the best case alone, `unknown` is not significantly different"
    assert marked([best, worse, unknown]) == [True, False, False]


@pytest.mark.parametrize(("factor", "is_marked"), [(2.5, True), (12.0, False)])
def test_a_value_many_times_as_bad_as_the_best_is_never_marked_however_wide_its_interval(
    factor: float, is_marked: bool
) -> None:
    values = ((0.0, 1e-4), (np.log(factor), 4.0), (np.log(20), 1e-4))
    assert marked([Estimate(*one, degrees=3.0) for one in values]) == [True, is_marked, False]


def test_no_case_marked_as_best_has_a_worse_value_than_an_unmarked_case() -> None:
    values = [Estimate(log, 1e-6, degrees=9.0) for log in (0.0, 0.001, 0.5, 0.9)]
    assert marked(values) == [True, True, False, False]
    assert marked(values, [1.0, 1.5, 1.2, 2.4]) == [True, False, False, False]
    assert marked(values, [1.3, 2.5, 1.2, 2.4]) == [False] * 4


def test_a_ping_of_445_ms_is_not_marked_beside_one_of_8_ms_if_their_noise_differs() -> None:
    records = [bare_record(number) for number in (1, 2)]
    waits_s = {"1_quick": (0.0078, 0.0078), "2_spikes": (0.445, 0.139), "3_slow": (1.4, 1.5)}
    for name, of_rounds in waits_s.items():
        for number, waited_s in enumerate(of_rounds, 1):
            record = record_of(name, number)
            set_waits(record.requests, waited_s)
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
