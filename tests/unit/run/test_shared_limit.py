"""A limit that all servers share is named instead of a recommendation."""

from typing import Any

import pytest

from under_siege.judge.summary import Interval, Latency, Summary
from under_siege.run.conclusion import shared_limit

IDLE_S = 0.1


def case(server: str, **changed: Any) -> Summary:
    """Return a case in which 25 users wait 0.5 s for responses that an idle server returns after 0.1 s."""
    wait = Latency(0.5, 0.6, 0.7, 0.8)
    values = {"rate_per_s": Interval(50.0), "cpu_s_per_transaction": 0.0026, "response_s": wait, "rank": 1}
    fixed = {"title": server, "task": "", "users": 25, "workers": None, "python": "", "rounds": 2}
    return Summary(**{"server": server, **fixed, **values, **changed})


def limit(*cases: Summary) -> str:
    return shared_limit(cases, {each.case.work: IDLE_S for each in cases})


@pytest.mark.parametrize("p50_s", [0.5, 0.11], ids=["waiting", "quick"])
def test_equal_and_idle_servers_wait_for_something_they_share_or_have_too_few_users(p50_s: float, golden) -> None:
    wait = Latency(p50_s, 0.6, 0.7, 0.8)
    golden(limit(case("uvicorn", response_s=wait), case("granian", response_s=wait)))


@pytest.mark.parametrize(
    "changed",
    [{"rank": 2}, {"cpu_s_per_transaction": 0.02}, {"cpu_s_per_transaction": None}, {"server": "uvicorn"}],
    ids=str,
)
def test_no_limit_is_named_if_servers_differ_or_are_busy(changed: dict[str, Any]) -> None:
    assert limit(case("uvicorn"), case(**{"server": "granian", **changed})) == ""
