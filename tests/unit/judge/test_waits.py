"""Percentiles of waits, which are right-censored without a correct response, tested with known distributions."""

import csv
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from formatted import formatted
from rows import fail, without
from simulated import constant, queue, uniform
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.estimators import Rows, Waits, lateness_s, together, waits, waits_in_growing_queue
from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.record.requests import (
    CORRECT,
    LATE,
    LIMITED,
    LOAD,
    LOST,
    OPEN,
    REFUSED,
    WRONG,
    Outcome,
    Requests,
    close_loop,
)


def waits_of(waited_s: list[float], answered: list[bool]) -> Waits:
    return Waits(np.array(waited_s, dtype=float), np.array(answered, dtype=bool))


def test_percentiles_match_the_example_of_kaplan_and_meier() -> None:
    """Use deaths at 0.8, 3.1, 5.4 and 9.2 months and losses at 1.0, 2.7, 7.0 and 12.1 (JASA 53, 1958, § 2)."""
    found = waits_of([0.8, 3.1, 5.4, 9.2, 1.0, 2.7, 7.0, 12.1], [True] * 4 + [False] * 4)
    # The share still alive after each death: 7/8, 7/8 × 4/5, 7/8 × 4/5 × 3/4, and 7/8 × 4/5 × 3/4 × 1/2.
    shares = np.array([0, 1 / 8, 0.3, 0.475, 0.7375])
    middles = (shares[1:] + shares[:-1]) / 2
    assert [found.percentile(100 * middle) for middle in middles] == pytest.approx([0.8, 3.1, 5.4, 9.2])
    assert found.percentile(100 * (middles[0] + middles[1]) / 2) == pytest.approx((0.8 + 3.1) / 2)
    assert found.percentile(73.7) == pytest.approx(9.2)
    assert found.percentile(74) is None
    assert found.longest_s() == 12.1


@pytest.mark.parametrize("count", [1, 7, 200])
def test_percentiles_without_censoring_match_ordinary_percentiles(count: int) -> None:
    values = np.random.default_rng(1).exponential(1.0, count)
    found = Waits(values, np.ones(count, dtype=bool))
    for percent in (1, 50, 95, 99, 100):
        assert found.percentile(percent) == pytest.approx(np.percentile(values, percent, method="hazen"))


def test_the_p99_of_200_waits_is_unbiased() -> None:
    rng = np.random.default_rng(4)
    found = [Waits(rng.exponential(1.0, 200), np.ones(200, dtype=bool)).percentile(99) for _ in range(2000)]
    assert np.mean(found) == pytest.approx(-np.log(0.01), rel=0.02)


def test_a_percentile_does_not_depend_on_waits_without_an_end_beyond_it() -> None:
    endless = Waits(np.array([*np.arange(1.0, 100.0), np.inf]), np.ones(100, dtype=bool))
    assert endless.percentile(99) == 99
    assert endless.percentile(99.5) == np.inf


def test_random_censoring_does_not_bias_percentiles() -> None:
    rng = np.random.default_rng(2)
    truth, patience = rng.exponential(1.0, 20_000), rng.uniform(0, 3, 20_000)
    found = Waits(np.minimum(truth, patience), truth <= patience)
    for percent in (25, 50, 75):
        assert found.percentile(percent) == pytest.approx(-np.log(1 - percent / 100), rel=0.05)
    assert found.percentile(99) is None  # beyond the longest observed wait


def round_of(answers: Iterator[tuple[float, int]], users: int, end_s: float) -> Round:
    """Return a round of users who got these responses, and whose last requests the end of the load cut off."""
    record, last_s = record_of("1_x", users=users, load_s=end_s), dict.fromkeys(range(users), 0.0)
    without(record, LOAD)
    for ended_s, user in itertools.takewhile(lambda answer: answer[0] <= end_s, answers):
        record.requests.add(LOAD, user=user, sent_s=last_s[user], ended_s=ended_s, status=200, outcome=CORRECT)
        last_s[user] = ended_s
    close_loop(record.requests, users, end_s)
    return Round(record)


@pytest.mark.parametrize(
    ("users", "workers", "task_s", "time_s"),
    [(25, 1, 0.04, 4.0), (25, 4, 0.28, 4.0), (5, 1, 0.28, 4.0), (25, 25, 0.28, 2.0)],
)
def test_the_median_response_time_of_a_closed_loop_is_users_divided_by_rate(users, workers, task_s, time_s) -> None:
    answers = queue(users, workers, constant(task_s))
    found = round_of(answers, users, time_s).responses.percentile(50)
    assert found == pytest.approx(users * task_s / workers, abs=task_s)


def test_a_median_response_time_longer_than_the_siege_is_unknown() -> None:
    """Let 25 users wait 7 s each for one worker that takes 0.28 s per request, and observe them for only 4 s."""
    found = round_of(queue(25, 1, constant(0.28)), 25, 4.0).responses
    assert found.percentile(50) is None
    assert found.longest_s() == 4.0


def test_random_task_durations_do_not_bias_the_median_response_time() -> None:
    medians = []
    for seed in range(60):
        medians.append(round_of(queue(10, 10, uniform(0.4, seed)), 10, 2.0).responses.percentile(50))
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
        fail(record.requests, number, LATE, "not answered", 5.0)
    found = Round(record).pings
    assert found.percentile(10) == pytest.approx(0.002)
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


def test_waits_begin_when_a_request_is_due_and_only_correct_responses_end_them() -> None:
    requests = Requests()
    for outcome, due_s in ((CORRECT, 1.0), (LOST, 0.0), (OPEN, 0.0)):
        requests.add(LOAD, due_s=due_s, sent_s=1.5, ended_s=2.0, outcome=outcome)
    found = waits(Rows.of(requests, LOAD))
    assert found.waited_s.tolist() == [1.0, 2.0, 2.0]
    assert found.answered.tolist() == [True, False, False]
    assert (found.percentile(33), found.percentile(50), found.longest_s()) == (1.0, None, 2.0)


def test_percentiles_of_an_overloaded_server_are_lower_bounds() -> None:
    """Let 40 requests a second arrive for 15 s at a server that answers 20: half of all are never answered."""
    requests = Requests()
    for number in range(600):
        due_s, ended_s = number / 40, (number + 1) / 20
        is_open = ended_s > 15
        requests.add(LOAD, sent_s=due_s, ended_s=min(15.0, ended_s), outcome=OPEN if is_open else CORRECT)
    found = waits_in_growing_queue(Rows.of(requests, LOAD))
    assert found.percentile(49) == pytest.approx(0.98 * 7.525, rel=0.01)
    assert [found.percentile(percent) for percent in (51, 99)] == [None, None]
    assert found.at_least_s(99) == found.longest_s() == pytest.approx(7.525)


@pytest.mark.parametrize("outcome", [LOST, WRONG, REFUSED, LIMITED])
def test_failures_within_a_millisecond_do_not_shorten_percentiles(outcome: Outcome) -> None:
    """Let 40 of 100 requests fail at once, and the others take 0.1 to 0.69 s: the 50th wait takes 0.6 s."""
    requests = Requests()
    for number in range(100):
        is_sound = number < 60
        took_s = 0.1 + number / 100 if is_sound else 0.001
        requests.add(LOAD, sent_s=0.0, ended_s=took_s, outcome=CORRECT if is_sound else outcome)
    found = waits(Rows.of(requests, LOAD))
    assert found.percentile(50) == pytest.approx(0.6, abs=0.01)
    assert found.percentile(99) is None
    assert together([found, found]).percentile(99) is None
    assert found.longest_s() == pytest.approx(0.69)


def test_failed_requests_of_a_closed_loop_do_not_shorten_percentiles() -> None:
    record = record_of("1_x")
    usual_s = Round(record).responses.percentile(50)
    for number in range(0, 36, 3):
        fail(record.requests, number, LOST, "reset", 0.001, sender=LOAD)
    found = Round(record).responses
    assert found.percentile(50) >= usual_s
    assert found.percentile(90) is None


@pytest.mark.parametrize("stall_s", [0.2, 1.0])
def test_a_client_that_stands_still_20_percent_of_the_time_is_late_by_most_of_a_stall(stall_s: float) -> None:
    """At 19 of 20 random times within a stall, that is 19 % of the time, at least a twentieth of the stall is left."""
    load_s = 10.0
    stalls_s = [stall_s] * round(0.2 * load_s / stall_s)
    assert lateness_s(stalls_s, load_s, 81) == pytest.approx(stall_s / 20)
    assert lateness_s(stalls_s, load_s, 99) == pytest.approx(stall_s * 0.95)
    assert lateness_s(stalls_s, load_s, 79) == lateness_s([], load_s, 99) == 0


def test_the_lateness_of_a_client_is_that_of_a_request_at_a_random_time() -> None:
    rng, load_s = np.random.default_rng(5), 100.0
    stalls_s = rng.exponential(0.3, 60)
    began_s = np.arange(60) * load_s / 60
    at_s = rng.uniform(0, load_s, 100_000)
    which = np.searchsorted(began_s, at_s, side="right") - 1
    late_s = np.maximum(began_s[which] + stalls_s[which] - at_s, 0)
    assert max(stalls_s) < load_s / 60
    for percent in (90, 95, 99):
        assert lateness_s(stalls_s.tolist(), load_s, percent) == pytest.approx(np.percentile(late_s, percent), rel=0.05)
