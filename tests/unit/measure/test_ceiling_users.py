"""The users of the ceiling, and the processes that simulate them."""

import pytest

from under_siege.measure.load_run import take_turns
from under_siege.subprocess_scripts.no_server_baseline import spread
from under_siege.suite.expected_response import Expectation


@pytest.mark.parametrize(("users", "processes"), [(25, 4), (400, 8), (3, 8), (1, 1), (8, 8)])
def test_users_of_the_ceiling_are_spread_evenly_over_processes(users, processes) -> None:
    shares = spread(users, processes)
    assert sorted(user for share in shares for user in share) == list(range(users))
    assert len(shares) == min(users, processes)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("users", "quota", "cpu_s", "expected"),
    [
        (25, None, 0.1, False),
        (400, None, 0.1, True),
        (400, None, 0.05, False),
        (25, 0.5, 0.1, True),
        (25, 0.5, 0.05, False),
    ],
)
def test_users_take_turns_under_a_quota_or_if_there_are_many_but_only_with_tasks_that_only_compute(
    users, quota, cpu_s, expected
) -> None:
    assert take_turns(users, quota, Expectation(b"4", 0.1, cpu_s)) is expected
