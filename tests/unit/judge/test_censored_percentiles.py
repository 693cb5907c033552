"""Percentiles of right-censored latencies, tested with known distributions."""

import csv

import numpy as np
import pytest
from simulated import constant, queue, siege_of, uniform
from simulated_record import bare_record, record_of, result_of
from under_siege.judge.censored_samples import CensoredSamples, together

from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.report import formatted


def waits(waited_s: list[float], answered: list[bool]) -> CensoredSamples:
    return CensoredSamples(np.array(waited_s, dtype=float), np.array(answered, dtype=bool))


def test_percentiles_match_the_example_of_kaplan_and_meier() -> None:
    """Use deaths at 0.8, 3.1, 5.4 and 9.2 months and losses at 1.0, 2.7, 7.0 and 12.1 (JASA 53, 1958, § 2)."""
    found = waits([0.8, 3.1, 5.4, 9.2, 1.0, 2.7, 7.0, 12.1], [True] * 4 + [False] * 4)
    # The share still alive after each death: 7/8, 7/8 × 4/5, 7/8 × 4/5 × 3/4, and 7/8 × 4/5 × 3/4 × 1/2.
    steps = {12.4: 0.8, 12.6: 3.1, 29: 3.1, 31: 5.4, 47: 5.4, 48: 9.2, 73.7: 9.2}
    assert {percent: found.percentile(percent) for percent in steps} == steps
    assert found.percentile(74) is None
    assert found.longest_s() == 12.1


def test_percentiles_without_censoring_match_ordinary_percentiles() -> None:
    values = np.random.default_rng(1).exponential(1.0, 999)
    found = CensoredSamples(values, np.ones(999, dtype=bool))
    assert found.percentile(50) == pytest.approx(np.percentile(values, 50), rel=0.01)
    assert found.percentile(99) == pytest.approx(np.percentile(values, 99), rel=0.05)


def test_random_censoring_does_not_bias_percentiles() -> None:
    rng = np.random.default_rng(2)
    truth, patience = rng.exponential(1.0, 20_000), rng.uniform(0, 3, 20_000)
    found = CensoredSamples(np.minimum(truth, patience), truth <= patience)
    for percent in (25, 50, 75):
        assert found.percentile(percent) == pytest.approx(-np.log(1 - percent / 100), rel=0.05)
    assert found.percentile(99) is None  # beyond the longest observed wait


def round_of(spans, users: int, end_s: float) -> Round:
    record = record_of("1_x", users=users, load_s=end_s)
    one = Round(record)
    one.__dict__["spans"] = spans
    return one


@pytest.mark.parametrize(
    ("users", "workers", "task_s", "time_s"),
    [(25, 1, 0.04, 4.0), (25, 4, 0.28, 4.0), (5, 1, 0.28, 4.0), (25, 25, 0.28, 2.0)],
)
def test_the_median_response_time_of_a_closed_loop_is_users_divided_by_rate(users, workers, task_s, time_s) -> None:
    spans = siege_of(queue(users, workers, constant(task_s)), time_s)
    found = round_of(spans, users, time_s).responses.percentile(50)
    assert found == pytest.approx(users * task_s / workers, abs=task_s)


def test_a_median_response_time_longer_than_the_siege_is_unknown() -> None:
    """Let 25 users wait 7 s each for one worker that takes 0.28 s per request, and observe them for only 4 s."""
    spans = siege_of(queue(25, 1, constant(0.28)), 4.0)
    found = round_of(spans, 25, 4.0).responses
    assert found.percentile(50) is None
    assert found.longest_s() == 4.0


def test_random_task_durations_do_not_bias_the_median_response_time() -> None:
    medians = []
    for seed in range(60):
        spans = siege_of(queue(10, 10, uniform(0.4, seed)), 2.0)
        medians.append(round_of(spans, 10, 2.0).responses.percentile(50))
    assert np.mean(medians) == pytest.approx(0.4, rel=0.05)


@pytest.mark.usefixtures("undrawn")
def test_unknown_percentiles_are_shown_as_lower_bounds_but_left_empty_in_csv() -> None:
    slow = record_of("1_x", speed=0.3, users=25, idle_answer_s=1.0)
    result = result_of([bare_record(users=25), slow])
    (case,) = summarize(result).cases
    assert case.response_s.p50 is None
    for dress in ("table", "markdown", "html"):
        assert "4.00 s" in formatted(result, dress).split("1_x", 1)[1]
    assert "&gt; 4.00 s" in formatted(result, "html")
    row = list(csv.DictReader(formatted(result, "csv").splitlines()))[-1]
    assert (row["server"], row["response_p50_s"]) == ("1_x", "")


def test_pings_that_timed_out_are_censored() -> None:
    record = record_of("1_x")
    for number in range(60):
        record.pings.problem[number] = "not answered"
        record.pings.waited_s[number] = 5.0
    found = Round(record).pings
    assert found.percentile(10) == 0.002
    assert found.percentile(50) is None


def test_confidence_intervals_of_percentiles_contain_the_percentiles() -> None:
    records = []
    for round_, factor in ((1, 1.0), (2, 1.01), (3, 0.99)):
        records += [bare_record(round_, speed=factor)]
        records += [record_of(server, round_, speed=factor) for server in ("1_x", "2_x")]
    for case in summarize(result_of(records)).cases:
        for latency in (case.response_s, case.ping_s):
            assert latency.p50_low <= latency.p50 <= latency.p50_high
            assert latency.p99_low <= latency.p99 <= latency.p99_high
    everything = together([Round(record).pings for record in records])
    assert len(everything.waited_s) == 80 * len(records)
