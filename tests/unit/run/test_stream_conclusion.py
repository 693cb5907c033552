"""The conclusion about streams follows from what users wait for: the first event and the gaps."""

import pytest
from conftest import ROOT
from msgspec.structs import replace
from simulated_record import TIME_S, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import EventTimes, Summary
from under_siege.record.record import Record
from under_siege.record.requests import PING
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
    assert not replace(one, idle_gap_s=0.1).stutters
    assert not replace(one, head_start_s=0.5, later_gap_p99_s=0.03).stutters
    assert replace(one, head_start_s=0.5, later_gap_p99_s=0.15).stutters is (p50_s < 0.07)


def streaming(server: str, round_: int, first_s: float, memory_bytes: int) -> Record:
    """Return a record of streams that take 0.5 s, whose only event comes after `first_s`."""
    record = record_of(server, round_, has_task=False, has_ceiling=False, stream="sse", answer_bytes=-1)
    record.requests = record.requests.only(PING)
    for user in range(5):
        for begun_s in (user * 0.1 + 0.5 * number for number in range(8)):
            ended_s = min(begun_s + 0.5, TIME_S)
            outcome = "correct" if ended_s < TIME_S else "open"
            events = (int(first_s * 1e6) if begun_s + first_s <= TIME_S else -1, [])
            record.requests.add("load", user=user, sent_s=begun_s, ended_s=ended_s, outcome=outcome, events=events)
    record.samples.memory_bytes[:] = [memory_bytes] * len(record.samples.at_s)
    return record


def test_of_servers_whose_streams_have_one_event_the_one_with_the_earliest_event_is_recommended() -> None:
    """The other one has less memory."""
    records = [
        streaming(server, round_, first_s, memory_bytes)
        for round_ in (1, 2)
        for server, first_s, memory_bytes in (("quick", 0.05, 80_000_000), ("slow", 0.45, 40_000_000))
    ]
    (answer,) = answers(summarize(result_of(records)))
    assert answer.case.server == "quick"
