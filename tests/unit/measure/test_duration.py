"""The duration of a siege, and its announcement."""

from unittest.mock import Mock

import plans
import pytest

from under_siege.measure.plan import Plan
from under_siege.measure.run_time import in_words, round_length_s, say_how_long
from under_siege.measure.siege_length import SHORTEST_SIEGE_S, Length
from under_siege.suite.expected_response import Expectation

COMPUTES, WAITS = Expectation(b"4", 0.04, 0.04), Expectation(b"4", 0.28, 0.0)


def plan_of(time_s: float | None, users: int, task: str = "primes", rounds: int = 2) -> Plan:
    return plans.plan_of("2", "4", task=task, users=users, time_s=time_s, rounds=rounds, seed=1)


def expectations(plan: Plan, expected: Expectation):
    return {case.work: expected for case in plan.cases}


def test_the_automatic_duration_grows_with_the_time_until_the_rate_settles() -> None:
    """With 25 users on one worker and 0.28 s per request, 22 users (about 90 %) have a response after 6.2 s."""
    length = Length(None, 25, WAITS)
    for user in range(25):
        length.answer(user, 0.28 * (user + 1))
    assert length.end_s == pytest.approx(2.75 * 0.28 * 22)
    together = Length(None, 25, WAITS)
    for user in range(25):
        together.answer(user, 0.3)
    assert together.end_s == SHORTEST_SIEGE_S


def screened_s(answers: list[tuple[int, float]], users: int = 25, task_s: float = 0.1, **expected) -> float:
    """Return how long a screening siege lasts with these responses (user, time)."""
    length = Length(None, users, Expectation(b"4", task_s, task_s, **expected), is_screening=True)
    for user, at_s in answers:
        if length.is_over(at_s):
            break
        length.answer(user, at_s)
    return length.end_s


def test_a_screening_siege_ends_after_40_responses_if_they_show_the_rate() -> None:
    one_by_one = [(number % 25, 0.1 * (number + 1)) for number in range(200)]
    assert screened_s(one_by_one) == pytest.approx(4.0)
    assert screened_s(one_by_one, users=400) == pytest.approx(4.0)  # most users have no response yet
    assert screened_s([(user, at_s / 10) for user, at_s in one_by_one]) == SHORTEST_SIEGE_S


def test_a_screening_siege_of_tasks_that_share_the_cpus_lasts_until_nine_of_ten_users_have_a_response() -> None:
    """Of 60 users, 40 get a response soon, in bursts that show no rate; the others get theirs much later."""
    bursts = [(user, 4.0 + user % 2) for user in range(40)] + [(user, 9.0 + 0.1 * user) for user in range(40, 60)]
    answers = sorted(bursts, key=lambda answer: answer[1])
    assert screened_s(answers, users=60) == pytest.approx(9.0 + 0.1 * 53)


def test_a_screening_siege_with_many_users_ends_after_120_responses_even_if_noise_makes_them_uneven() -> None:
    """After the first responses, the machine is slow in every second period of three seconds."""
    at_s, uneven = 0.0, []
    for user in range(400):
        at_s += 0.05 if user < 3 or int(at_s / 3) % 2 else 0.4
        uneven.append((user, at_s))
    assert screened_s(uneven, users=400) == pytest.approx(uneven[119][1])


def test_a_screening_siege_of_a_few_users_is_no_longer_than_another_siege() -> None:
    answers = [(number % 2, 5.0 * (number + 1)) for number in range(40)]
    assert screened_s(answers, users=2, task_s=5.0) == pytest.approx(2.75 * 10.0)


def test_sieges_of_streams_and_of_users_who_pause_are_not_shortened() -> None:
    answers = [(number % 25, 0.1 * (number + 1)) for number in range(200)]
    assert screened_s(answers, cycle_s=1.0) > 5


def test_the_automatic_duration_does_not_end_a_siege_with_a_fixed_number_of_requests() -> None:
    length = Length(None, 2, COMPUTES)
    length.last_until(3600.0)
    for user in range(2):
        length.answer(user, 0.3)
    assert length.end_s == 3600.0


def test_the_automatic_duration_of_a_siege_is_at_least_3_s() -> None:
    """On a machine with varying speed, shorter sieges would more often rank equal servers differently."""
    length = Length(None, 1, Expectation(b"4", 0.001, 0.001))
    assert length.end_s >= 3
    length.answer(0, 0.001)
    assert length.end_s >= 3


def test_the_automatic_duration_of_a_siege_has_an_upper_limit() -> None:
    assert Length(None, 400, COMPUTES).end_s < 4 * 400 * 0.04 * 2
    slow = Length(None, 400, COMPUTES)
    limit_s = slow.end_s
    for user in range(400):
        slow.answer(user, limit_s * 0.9)
    assert slow.end_s == limit_s


def test_the_duration_of_a_run_is_estimated() -> None:
    plan = plan_of(None, 25)
    least_s, most_s = round_length_s(plan, 2, expectations(plan, COMPUTES))
    assert 3 * SHORTEST_SIEGE_S < least_s <= most_s < 3 * 8
    waiting = round_length_s(plan, 2, expectations(plan, WAITS))
    assert waiting[1] > 3 * 15 > waiting[0]
    plan = plan_of(3.0, 25)
    assert len(set(round_length_s(plan, 2, expectations(plan, WAITS)))) == 1


def test_an_estimated_duration_is_shown_as_a_rounded_value_or_a_range(golden) -> None:
    golden(*(in_words(*times) for times in ((50, 52), (110, 115), (100, 149), (90, 400), (130, 420))))


def test_the_duration_is_announced_with_a_warning_if_it_is_too_short(golden) -> None:
    told, plan = Mock(), plan_of(2.0, 25, rounds=3)
    say_how_long(plan, expectations(plan, WAITS), told)
    golden(*(f"{name}: {message}" for name, (message,), _ in told.mock_calls))


def test_a_run_that_decides_when_to_end_announces_its_time_limit_or_why_its_first_round_takes_longer(golden) -> None:
    told = Mock()
    for users in (25, 400):
        plan = plan_of(None, users)
        say_how_long(plan, expectations(plan, WAITS), told, most_s=150.0)
    golden(*(f"{name}: {message}" for name, (message,), _ in told.mock_calls))


@pytest.mark.parametrize("rate", [5.0, 20.0])
def test_the_first_round_shows_how_long_a_full_siege_with_many_users_and_its_wait_for_open_requests_take(rate) -> None:
    """Of 400 users, 40 have a response after a screening siege; a full siege lasts 2.75 times as long as 360 take."""
    length = Length(None, 400, Expectation(b"4", 0.2, 0.2), is_screening=True)
    for number in range(400):
        if length.is_over((number + 1) / rate):
            break
        length.answer(number, (number + 1) / rate)
    assert length.end_s == pytest.approx(40 / rate if rate < 10 else SHORTEST_SIEGE_S, rel=0.1)
    assert length.end_s + length.more_in_full_s() == pytest.approx((2.75 + 1) * 360 / rate, rel=0.1)


def test_later_rounds_last_as_long_as_the_previous_one() -> None:
    length = Length(None, 400, COMPUTES)
    length.answer(0, 1.0)
    assert length.more_in_full_s() == 0.0
