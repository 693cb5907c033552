"""The rate estimator, tested with simulated servers whose true rate is known."""

import itertools
from statistics import fmean

import pytest
from conftest import thorough
from simulated import constant, exponential, queue, shared, siege_of, uniform
from simulated_record import record_of
from under_siege.judge.steady_rate import spans_of, steady_rate

from under_siege.judge.round_statistics import Round
from under_siege.record.record import Transactions

WITHIN = 0.02


def rate_of(answers, users: int, time_s: float) -> float | None:
    return steady_rate(siege_of(answers, time_s), users, time_s).per_s


@pytest.mark.parametrize("time_s", [5.9, 6.0, 6.1, 12.0])
def test_the_rate_of_sequential_tasks_is_correct_even_with_few_responses(time_s: float) -> None:
    assert rate_of(queue(5, 1, constant(1.2)), 5, time_s) == pytest.approx(1 / 1.2, rel=WITHIN)


@pytest.mark.parametrize("time_s", [2.0, 2.5, 3.7, 4.0])
def test_the_rate_is_correct_if_all_users_wait_concurrently(time_s: float) -> None:
    assert rate_of(queue(25, 25, constant(0.2805)), 25, time_s) == pytest.approx(25 / 0.2805, rel=WITHIN)


@pytest.mark.parametrize("time_s", [3.0, 3.5, 4.0])
def test_the_rate_is_correct_if_all_users_share_one_worker(time_s: float) -> None:
    assert rate_of(shared(25, 0.04), 25, time_s) == pytest.approx(25, rel=WITHIN)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 25])
@pytest.mark.parametrize("task_s", [0.04, 0.28])
def test_the_rate_is_proportional_to_the_number_of_workers(workers: int, task_s: float) -> None:
    assert rate_of(queue(25, workers, constant(task_s)), 25, 4.0) == pytest.approx(workers / task_s, rel=WITHIN)


@pytest.mark.parametrize(
    ("workers", "durations"),
    thorough(itertools.product((2, 4, 25), (uniform, exponential)), quick=[(4, exponential), (25, uniform)]),
)
def test_random_durations_do_not_bias_the_rate(workers: int, durations) -> None:
    seeds = range(40 if workers == 25 else 160)
    rates = [rate_of(queue(25, workers, durations(0.04, seed)), 25, 4.0) for seed in seeds]
    assert fmean(rates) == pytest.approx(workers / 0.04, rel=WITHIN)


def test_a_slow_start_does_not_lower_the_steady_rate() -> None:
    cold = lambda at: 0.2 if at < 0.3 else 0.04  # noqa: E731
    assert rate_of(queue(25, 2, cold), 25, 4.0) == pytest.approx(2 / 0.04, rel=WITHIN)


def test_a_pause_in_the_middle_of_the_siege_lowers_the_rate() -> None:
    answers = queue(25, 2, constant(0.04), pause=(1.9, 2.4))
    settled_s = 0.46
    truth = 2 / 0.04 * (1 - 0.5 / (4.0 - settled_s))
    assert rate_of(answers, 25, 4.0) == pytest.approx(truth, rel=WITHIN)


@pytest.mark.parametrize("pause", [(0.45, 1.5), (0.5, 2.0), (0.55, 1.9)])
def test_an_identity_clock_does_not_change_the_rate_if_a_pause_delays_the_first_responses(pause) -> None:
    answers = itertools.takewhile(lambda answer: answer[0] < 4.0, queue(40, 2, constant(0.03), pause))
    run = run_of(40, 0.03, *answers)
    assert run.rate_on(lambda seconds: seconds) == pytest.approx(run.rate.per_s, rel=WITHIN)


def run_of(users: int, took_s: float, *answers: tuple[float, int]) -> Round:
    record, (finished_s, who) = record_of("1_sync", workers=2, users=users), zip(*answers, strict=True)
    same = len(who)
    record.transactions = Transactions([*finished_s], [took_s] * same, [200] * same, [4] * same, [*who])
    return Round(record)


def test_an_identity_clock_does_not_change_the_rate_of_a_few_bursts() -> None:
    """Let all users get their responses together, as with threads whose CPU quota is often used up."""
    run = run_of(4, 0.6, *((0.6 * (index // 4 + 1), index % 4) for index in range(20)))
    assert run.rate_on(lambda seconds: seconds) == pytest.approx(run.rate.per_s, rel=WITHIN)


def test_users_without_any_response_do_not_change_the_rate() -> None:
    answers = ((at, user) for at, user in queue(23, 1, constant(0.04)))
    assert rate_of(answers, 25, 4.0) == pytest.approx(25, rel=WITHIN)


@pytest.mark.parametrize(
    ("answers", "users", "time_s"),
    [
        (queue(5, 1, constant(1.5)), 5, 2.0),
        (shared(25, 0.04), 25, 1.9),
        (iter([]), 5, 4.0),
        (iter([(1.0, 0)]), 1, 1.5),
    ],
    ids=["one response", "one burst", "no response", "one user"],
)
def test_a_siege_that_is_too_short_has_no_rate(answers, users: int, time_s: float) -> None:
    answers = itertools.chain(answers, [(time_s + 1, 0)])
    rate = steady_rate(siege_of(answers, time_s), users, time_s)
    assert rate.per_s is None
    assert rate.too_short


def test_a_rate_is_not_settled_until_90_percent_of_the_users_have_a_response() -> None:
    first_bursts = [(burst * 0.4 + user * 0.001, user) for burst in range(1, 5) for user in range(20)]
    few_users = steady_rate(siege_of(iter([*first_bursts, (9.0, 0)]), 2.0), 25, 2.0)
    assert few_users.per_s is not None
    assert not few_users.is_settled
    assert steady_rate(siege_of(iter([*first_bursts, (9.0, 0)]), 2.0), 20, 2.0).is_settled


def test_a_rate_is_not_settled_if_concurrent_tasks_all_end_in_the_second_half_of_the_siege() -> None:
    late = [(at_s, user) for user, at_s in enumerate((0.51, 0.56, 0.72, 0.78, 0.93, 0.99, 9.0))]
    one_after_another = [(0.1 * number, number) for number in range(1, 12)]
    assert not steady_rate(siege_of(iter(late), 1.0), 25, 1.0).is_settled
    assert steady_rate(siege_of(iter(one_after_another), 1.05), 25, 1.05).is_settled


def test_wrong_responses_are_not_included_in_the_rate() -> None:
    ended = [0.1 * number for number in range(1, 41)]
    spans = spans_of(ended, [0.1] * 40, [0] * 40, [number % 2 == 0 for number in range(40)])
    assert steady_rate(spans, 1, 4.0).per_s == pytest.approx(5, rel=0.03)


def test_a_request_starts_when_the_previous_request_of_the_same_user_is_answered() -> None:
    spans = spans_of([1.0, 1.5, 9.0], [0.99, 0.5, 0.2], [7, 7, 7], [True, True, False])
    assert list(spans.began_s) == pytest.approx([0.0, 1.0, 8.79])  # siege printed no line for this request
