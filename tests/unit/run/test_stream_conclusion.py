"""The conclusion about streams follows from what users wait for: the first event and the gaps."""

import pytest
from conftest import ROOT

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import EventTimes, Summary
from under_siege.record.result import load
from under_siege.run.conclusion import answers


def test_among_the_fastest_servers_the_one_is_recommended_whose_users_wait_least() -> None:
    """Flask's eight threads have the shortest gaps, but let most users wait for the first event."""
    comparison = summarize(load(ROOT / "results" / "streams.json.gz"))
    chosen = [answer.case.server for answer in answers(comparison) if answer.case]
    assert chosen == ["tornado", "tornado"]
    first = [case for case in comparison.cases if case.rank == 1 and case.users == 20]
    assert min(first, key=lambda case: case.gap_s.p99).server == "flask-gthread"


@pytest.mark.parametrize(
    ("p50_s", "p99_s", "expected"), [(0.02, 0.15, True), (0.02, 0.09, False), (0.27, 0.34, False), (0.02, None, False)]
)
def test_only_visible_pauses_count_as_stutter(p50_s: float, p99_s: float | None, expected: bool) -> None:
    gaps = EventTimes(p50_s, p99_s, 1.0)
    one = Summary(server="a", title="a", task="", users=1, workers=1, python="3.11", rounds=1, gap_s=gaps)
    assert one.stutters is expected
