"""The estimators of rates, tested with simulated servers whose true rate is known."""

import itertools
import random
from collections.abc import Callable
from statistics import fmean

import pytest
from conftest import thorough
from msgspec import structs
from rows import add_check, without
from simulated import constant, exponential, queue, shared, siege_of, uniform
from simulated_record import record_of

from under_siege.judge.estimators import (
    Rows,
    SteadyRate,
    counted_rate,
    cycles_of,
    overload,
    paced_rate,
    rate_of_arrivals,
    saturated_rate,
)
from under_siege.judge.round_statistics import Round, cases_of
from under_siege.load.request import Pause, parse_pause
from under_siege.record.record import Record
from under_siege.record.requests import CORRECT, LOAD, OPEN, WRONG, Requests, close_loop

WITHIN = 0.02


def rate_of(answers, users: int, time_s: float) -> float | None:
    return saturated_rate(siege_of(answers, time_s), users, time_s).per_s


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


def test_a_slow_start_does_not_lower_the_rate() -> None:
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
    record = record_of("1_sync", workers=2, users=users)
    without(record, LOAD)
    for ended_s, user in answers:
        record.requests.add(LOAD, user=user, sent_s=ended_s - took_s, ended_s=ended_s, status=200, outcome=CORRECT)
    close_loop(record.requests, users, record.load_s)
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
    rate = saturated_rate(siege_of(answers, time_s), users, time_s)
    assert rate.per_s is None
    assert rate.too_short


@pytest.mark.parametrize("time_s", [2.0, 2.2, 2.4])
def test_a_short_siege_of_tasks_that_share_the_cpus_has_a_rate_with_a_larger_variance(time_s: float) -> None:
    """With 25 users and 0.04 s of CPU time per request, all users get their first response after about 1 s."""
    rate = saturated_rate(siege_of(shared(25, 0.04), time_s), 25, time_s)
    assert rate.per_s == pytest.approx(25, rel=0.15)
    assert rate.is_settled
    assert rate.variance > 0


def test_a_rate_is_not_settled_until_90_percent_of_the_users_have_a_response() -> None:
    first_bursts = [(burst * 0.4 + user * 0.001, user) for burst in range(1, 5) for user in range(20)]
    few_users = saturated_rate(siege_of(iter([*first_bursts, (9.0, 0)]), 2.0), 25, 2.0)
    assert few_users.per_s is not None
    assert not few_users.is_settled
    assert saturated_rate(siege_of(iter([*first_bursts, (9.0, 0)]), 2.0), 20, 2.0).is_settled


def test_a_rate_is_not_settled_if_concurrent_tasks_all_end_in_the_second_half_of_the_siege() -> None:
    late = [(at_s, user) for user, at_s in enumerate((0.51, 0.56, 0.72, 0.78, 0.93, 0.99, 9.0))]
    one_after_another = [(0.1 * number, number) for number in range(1, 12)]
    assert not saturated_rate(siege_of(iter(late), 1.0), 25, 1.0).is_settled
    assert saturated_rate(siege_of(iter(one_after_another), 1.05), 25, 1.05).is_settled


def test_wrong_responses_are_not_included_in_the_rate() -> None:
    requests = Requests()
    for number in range(40):
        outcome = WRONG if number % 2 else CORRECT
        requests.add(LOAD, user=0, sent_s=0.1 * number, ended_s=0.1 * (number + 1), outcome=outcome)
    assert saturated_rate(cycles_of(Rows.of(requests, LOAD)), 1, 4.0).per_s == pytest.approx(5, rel=0.03)


def test_a_request_starts_when_the_previous_request_of_the_same_user_is_answered() -> None:
    requests = Requests()
    for ended_s, took_s, outcome in ((1.0, 0.99, CORRECT), (1.5, 0.5, CORRECT), (9.0, 0.2, WRONG)):
        requests.add(LOAD, user=7, sent_s=ended_s - took_s, ended_s=ended_s, outcome=outcome)
    assert list(cycles_of(Rows.of(requests, LOAD)).began_s) == pytest.approx(
        [0.0, 1.0, 8.79]
    )  # siege printed no line for this request


def closed_loop(
    users: int, time_s: float, takes_s: Callable[[], float], pause: Pause | None = None, seed: int = 0
) -> Requests:
    """Return the requests of users who don't disturb each other; those who pause start in the middle of a pause."""
    requests, draw = Requests(), random.Random(seed)
    for user in range(users):
        at_s = pause.draw_rest_s(draw) if pause else 0.0
        while at_s < time_s:
            ended_s = at_s + takes_s()
            outcome = CORRECT if ended_s <= time_s else OPEN
            requests.add(LOAD, user=user, sent_s=at_s, ended_s=min(ended_s, time_s), outcome=outcome)
            at_s = ended_s + (pause.draw_s(draw) if pause else 0.0)
    return requests


def long_tail(seed: int, longest_s: float = 10.0) -> Callable[[], float]:
    """Return durations of which 95 % are 0.2 s, like those of a cache."""
    rng = random.Random(seed)
    return lambda: 0.2 if rng.random() < 0.95 else longest_s


def saturated(requests: Requests, users: int, time_s: float) -> SteadyRate:
    rows = Rows.of(requests, LOAD)
    return saturated_rate(cycles_of(rows), users, time_s, open_since_s=rows.sent_s[rows.is_open])


def test_a_short_siege_with_a_long_tail_has_no_rate_instead_of_a_biased_one() -> None:
    """In 5 s, nearly all responses are short: 25 users would seem to get 75/s, but they get 36/s."""
    for seed in range(10):
        assert saturated(closed_loop(25, 6.0, long_tail(seed)), 25, 6.0).per_s is None
        assert "the longest took" in saturated(closed_loop(25, 20.0, long_tail(seed)), 25, 20.0).too_short


def test_a_long_siege_with_a_long_tail_has_an_unbiased_rate() -> None:
    rates = [saturated(closed_loop(25, 60.0, long_tail(seed)), 25, 60.0) for seed in range(30)]
    truth = 25 / (0.95 * 0.2 + 0.05 * 10)
    assert fmean(rate.per_s for rate in rates) == pytest.approx(truth, rel=0.03)
    deviation = fmean((rate.per_s / truth - 1) ** 2 for rate in rates) ** 0.5
    assert fmean(rate.variance for rate in rates) ** 0.5 == pytest.approx(deviation, rel=0.5)


def siege_record(round_: int, load_s: float, draw: Callable[[], float], **changed: object) -> Record:
    """Return the record of a siege of three users, whose requests have the durations that are drawn."""
    requests = closed_loop(3, load_s, draw)
    return structs.replace(record_of("1_sync", round_, users=3), load_s=load_s, requests=requests, **changed)


def test_a_siege_without_a_long_request_tells_no_more_than_one_of_the_same_length_with_it() -> None:
    """In 6 s, a siege of a few users may have no long request, so that only its rate would be known."""
    short, lucky = siege_record(1, 6.0, long_tail(1)), siege_record(2, 6.5, lambda: 0.2)
    assert [run.rate.per_s for run in next(cases_of([lucky]))] == [pytest.approx(15, rel=0.01)]
    assert [run.rate.per_s for run in next(cases_of([short, lucky]))] == [None, None]
    longer = siege_record(3, 60.0, long_tail(3))
    assert [run.rate.per_s is None for run in next(cases_of([short, lucky, longer]))] == [True, True, False]


def test_a_ceiling_without_a_long_request_is_not_chosen_if_another_one_has_a_rate() -> None:
    """The ceiling of the same round seems to have a rate, but was too short for it, as the first one shows."""
    sieges = [(1, 6.0, long_tail(1)), (2, 6.5, lambda: 0.2), (3, 60.0, long_tail(3))]
    ceilings = [siege_record(*siege, server="bare", is_ceiling=True) for siege in sieges]
    _, [measured] = cases_of([*ceilings, siege_record(2, 60.0, long_tail(4))])
    assert measured.ceiling is not None
    assert measured.ceiling.record is ceilings[2]


@pytest.mark.parametrize("takes_s", [0.01, 0.5])
def test_exponential_pauses_do_not_bias_the_rate(takes_s: float) -> None:
    """Let 25 users pause 5 s on average, in sieges of 20 s."""
    pause = parse_pause("exponential 5s")
    loads = [closed_loop(25, 20.0, lambda: takes_s, pause, seed) for seed in range(60)]
    rates = [paced_rate(Rows.of(load, LOAD), 20.0).per_s for load in loads]
    assert fmean(rates) == pytest.approx(25 / (5.0 + takes_s), rel=0.04)


def test_pauses_after_long_responses_make_a_short_siege_too_short() -> None:
    pause = parse_pause("0.1s")
    paced = closed_loop(25, 6.0, long_tail(1), pause)
    assert "the longest took" in paced_rate(Rows.of(paced, LOAD), 6.0).too_short
    rates = [
        paced_rate(Rows.of(closed_loop(25, 60.0, long_tail(seed), pause, seed), LOAD), 60.0).per_s for seed in range(30)
    ]
    assert fmean(rates) == pytest.approx(31.6, rel=0.03)


def test_a_counted_rate_begins_after_the_longest_request() -> None:
    """Count 2 responses a second of 0.5 s each, except one of 2 s: the window begins after 2 s."""
    requests = Requests()
    for number in range(20):
        requests.add(LOAD, user=number, sent_s=number / 2, ended_s=number / 2 + 0.5, outcome=CORRECT)
    requests.add(LOAD, user=99, sent_s=0.0, ended_s=2.0, outcome=CORRECT)
    rows = Rows.of(requests, LOAD)
    rate = counted_rate(cycles_of(rows), 0.0, 10.0, rows.sent_s[rows.is_open])
    assert (rate.per_s, rate.from_s) == (2.0, 2.0)
    assert rate.variance > 0


def with_checks(users: int, pause: str) -> tuple[Round, float]:
    """Return the round of users who pause, with one check a second, and the number of its responses per second."""
    record = record_of("1_x", users=users, load_s=20.0, parameters={"pause": pause} if pause else {})
    without(record, LOAD)
    for user in range(users):
        for number in range(4):
            at_s = number * 5 + 5 * (user + 0.5) / users
            record.requests.add(LOAD, user=user, sent_s=at_s, ended_s=at_s + 0.01, status=200, outcome=CORRECT)
    for second in range(20):
        add_check(record, second + 0.3, second + 0.31)
    return Round(record), users / 5


def test_checks_count_in_no_rate_of_users_who_pause() -> None:
    run, truth = with_checks(10, "5s")
    assert run.rate.per_s == pytest.approx(truth, rel=0.01)
    assert run.rate_on(lambda seconds: seconds) == pytest.approx(truth, rel=0.01)


def test_checks_count_in_the_cpu_time_per_transaction_of_users_who_pause() -> None:
    """Let the server use 0.1 s of CPU time for each of two requests and one check a second."""
    run, _ = with_checks(10, "5s")
    run.record.samples.at_s[:], run.record.samples.cpu_s[:] = [0.0, 20.0], [1.0, 1.0 + 20 * 3 * 0.1]
    assert run.cpu_s_per_transaction() == pytest.approx(0.1, rel=0.03)


def arrivals(per_s: int, takes_s: float, time_s: float, events: int = 0, workers: int = 10**6) -> Requests:
    """Return requests that arrive evenly at workers each of which takes `takes_s` for one."""
    requests, free_s = Requests(), [0.0] * min(workers, round(per_s * time_s))
    for number in range(round(per_s * time_s)):
        due_s, worker = number / per_s, number % len(free_s)
        free_s[worker] = ended_s = max(due_s, free_s[worker]) + takes_s
        streamed = (round(takes_s * 1e6), [0] * (events - 1)) if events and ended_s <= time_s else (-1, [])
        requests.add(
            LOAD,
            user=number,
            sent_s=due_s,
            ended_s=min(ended_s, time_s),
            outcome=CORRECT if ended_s <= time_s else OPEN,
            events=streamed if events else None,
        )
    return requests


@pytest.mark.parametrize(("takes_s", "time_s"), [(0.5, 3.0), (1.0, 5.0), (4.0, 10.0), (4.0, 22.0)])
def test_long_responses_do_not_bias_the_rate_of_arrivals(takes_s: float, time_s: float) -> None:
    rows = Rows.of(arrivals(40, takes_s, time_s), LOAD)
    assert rate_of_arrivals(rows, time_s).per_s == pytest.approx(40, rel=0.02)
    assert overload(rows, time_s) is None


def test_the_rate_of_arrivals_is_unknown_if_responses_take_most_of_the_load() -> None:
    rate = rate_of_arrivals(Rows.of(arrivals(40, 4.0, 5.0), LOAD), 5.0)
    assert rate.per_s is None
    assert "use a longer --time" in rate.too_short


@pytest.mark.parametrize("takes_s", [0.05, 1.0])
@pytest.mark.parametrize("events", [0, 10])
def test_requests_that_arrive_faster_than_they_are_answered_are_an_overload(takes_s: float, events: int) -> None:
    """Let 40 requests a second arrive at workers that answer 20, whether or not the responses are streams."""
    record = record_of("1_x", load_s=15.0, stream="sse" if events else "", parameters={"arrivals": "40/s"})
    record.requests = arrivals(40, takes_s, 15.0, events, workers=round(20 * takes_s))
    found = Round(record).overload
    assert found is not None
    assert (found.asked_per_s, found.answered_per_s) == (pytest.approx(40, rel=0.02), pytest.approx(20, rel=0.05))


@pytest.mark.parametrize("began_s", [0.0, 0.003])
def test_a_user_whose_first_request_never_ends_does_not_hide_the_rate_of_the_others(began_s: float) -> None:
    """Let one of ten users wait forever; siege does not say when it began, other than the bench's own client."""
    record = record_of("1_x", users=10, load_s=4.0, tool="client", tool_step_s=0.0)
    without(record, LOAD)
    record.requests.add(LOAD, user=0, sent_s=began_s, ended_s=4.0, outcome=OPEN)
    for user, number in itertools.product(range(1, 10), range(20)):
        sent_s = 0.003 + 0.2 * number
        outcome = CORRECT if number < 19 else OPEN
        record.requests.add(LOAD, user=user, sent_s=sent_s, ended_s=min(4.0, sent_s + 0.2), outcome=outcome)
    assert Round(record).rate.per_s == pytest.approx(9 / 0.2, rel=0.05)


def test_the_rate_of_arrivals_is_that_of_the_answers() -> None:
    """Let 40 requests a second arrive at servers that answer all of them, or 20 a second."""
    for served_per_s, truth in ((1000, 40), (20, 20)):
        requests, free_s = Requests(), 0.0
        for number in range(600):
            due_s = number / 40
            free_s = max(due_s, free_s) + 1 / served_per_s
            outcome = CORRECT if free_s <= 15 else OPEN
            requests.add(LOAD, user=number, sent_s=due_s, ended_s=min(15.0, free_s), outcome=outcome)
        assert rate_of_arrivals(Rows.of(requests, LOAD), 15.0).per_s == pytest.approx(truth, rel=0.02)
