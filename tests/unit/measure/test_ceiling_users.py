"""The users of the ceiling, and the processes that simulate them."""

import pytest

from under_siege.subprocess_scripts.no_server_baseline import spread


@pytest.mark.parametrize(("users", "processes"), [(25, 4), (400, 8), (3, 8), (1, 1), (8, 8)])
def test_users_of_the_ceiling_are_spread_evenly_over_processes(users, processes) -> None:
    shares = spread(users, processes)
    assert sorted(user for share in shares for user in share) == list(range(users))
    assert len(shares) == min(users, processes)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
