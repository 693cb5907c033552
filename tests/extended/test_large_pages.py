"""Pages of large results stay small."""

import itertools

import pytest
from drawn_once import each_kind_drawn_once
from formatted import formatted
from simulated_record import bare_record, record_of, result_of

from under_siege.record.requests import PING


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [5, 100])
def test_the_page_of_a_large_result_is_smaller_than_1_mb(rounds: int) -> None:
    """Use five cases for each of twenty numbers of users, with few transactions to save time."""
    records = []
    for round_, users in itertools.product(range(1, rounds + 1), range(1, 21)):
        setting = {"users": users, "time_s": 1.0}
        records += [bare_record(round_, **setting)]
        records += [record_of(f"{number}_server", round_, **setting) for number in range(1, 5)]
    for record in records:
        pings = [index for index, sender in enumerate(record.requests.sender) if sender == PING]
        record.requests = record.requests.rows([*range(10), *pings])
    with each_kind_drawn_once():
        assert len(formatted(result_of(records), "html")) < 1_000_000
