"""The table of requests: its rows, their outcomes, and the requests in flight that a tool drops silently."""

import itertools

import pytest
from simulated_record import record_of, result_of

from under_siege.record.record import SentRequest
from under_siege.record.requests import Outcome, Requests, close_loop, outcome_of
from under_siege.record.result import load, save


def a_table() -> Requests:
    requests = Requests()
    requests.add("load", user=1, sent_s=0.5, ended_s=0.75, outcome="correct", status=200, size_bytes=4)
    requests.add("ping", due_s=0.25, sent_s=0.5, ended_s=1.0, outcome="late", problem="not answered")
    requests.add("check", sent_s=1.0, ended_s=1.5, outcome="wrong", status=500, problem="status 500")
    return requests


def test_a_request_is_due_when_it_is_sent_unless_the_sender_was_late() -> None:
    assert a_table().due_s == [0.5, 0.25, 1.0]
    assert a_table().user == [1, -1, -1]


def test_only_the_rows_of_the_chosen_senders_remain_in_their_order() -> None:
    assert a_table().only("check", "load").sender == ["load", "check"]
    assert a_table().only("check").problem == ["status 500"]
    assert len(a_table().only("lone_ping")) == 0


def test_rows_without_events_before_and_after_a_stream_have_no_events(tmp_path) -> None:
    record = record_of("1_a")
    record.requests = a_table()
    record.requests.add("load", sent_s=2.0, ended_s=3.0, outcome="correct", events=(100, [20, 30]))
    record.requests.add("ping", sent_s=2.5, ended_s=2.6, outcome="correct")
    assert record.requests.first_us == [-1, -1, -1, 100, -1]
    assert record.requests.gaps_us == [[], [], [], [20, 30], []]
    assert record.requests.only("load").gaps_us == [[], [20, 30]]
    save(result_of([record]), tmp_path / "r.json")
    assert load(tmp_path / "r.json").records[0].requests == record.requests


@pytest.mark.parametrize(
    ("status", "has_right_body", "outcome"),
    [
        (200, True, "correct"),
        (200, False, "wrong"),
        (404, True, "correct"),
        (500, True, "wrong"),
        (503, True, "refused"),
        (429, False, "limited"),
    ],
)
def test_the_status_and_the_body_decide_the_outcome(status: int, has_right_body: bool, outcome: Outcome) -> None:
    assert outcome_of(status, [200, 404], has_right_body=has_right_body) == outcome


def test_a_status_that_is_correct_is_no_refusal() -> None:
    assert outcome_of(503, [503]) == "correct"


def test_each_request_of_a_mix_has_its_own_correct_status() -> None:
    record = record_of("1_a", answer_bytes=-1, answer_status=200, other_statuses=[404])
    record.mix = [SentRequest("GET", "/a", status=200), SentRequest("GET", "/b", status=404)]
    outcomes = [record.outcome_of(status, 4, request) for status in (200, 404) for request in (0, 1, -1)]
    assert outcomes == ["correct", "wrong", "correct", "wrong", "correct", "correct"]


def test_each_user_of_a_closed_loop_has_one_open_request_at_its_end() -> None:
    requests = a_table()
    close_loop(requests, users=3, end_s=4.0)
    opened = requests.rows(index for index, outcome in enumerate(requests.outcome) if outcome == "open")
    assert dict(zip(opened.user, opened.sent_s, strict=True)) == {0: 0.0, 1: 0.75, 2: 0.0}
    assert opened.ended_s == [4.0] * 3


def test_a_user_whose_last_response_came_after_the_end_has_no_open_request() -> None:
    requests = Requests()
    requests.add("load", user=0, sent_s=3.0, ended_s=4.5, outcome="correct")
    close_loop(requests, users=1, end_s=4.0)
    assert requests.outcome == ["correct"]


def test_the_requests_of_a_saturated_closed_loop_cover_the_whole_load_for_each_user() -> None:
    """Each user sends a request as soon as the previous one has ended, so no request is missing."""
    requests = record_of("1_a", workers=2).requests.only("load")
    for user in range(5):
        mine = requests.rows(index for index, each in enumerate(requests.user) if each == user)
        spans = sorted(zip(mine.sent_s, mine.ended_s, strict=True))
        assert (spans[0][0], spans[-1][1]) == (0.0, 4.0)
        assert all(abs(before[1] - after[0]) < 0.011 for before, after in itertools.pairwise(spans))
