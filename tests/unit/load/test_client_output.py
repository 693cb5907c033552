"""What the bench's client is told, and how its lines become rows of the table of requests."""

import json

import msgspec
import pytest

from under_siege.load.body_rule import FIELDS, BodyRule
from under_siege.load.client import ClientOutput, Order, SentRequest, line_of
from under_siege.load.request import SSE, Pause, Request, RightAnswer, Stream
from under_siege.record.requests import OUTCOMES, Requests

BEGAN_S = 100.0


def row(user: int = 0, request: int = 0, sent_s: float = 101.0, outcome: str = "correct", problem: str = "") -> list:
    return [user, request, 100.5, sent_s, 102.25, 200, 17, outcome, problem]


def taken(*values: object, has_streams: bool = False) -> tuple[Requests, ClientOutput]:
    requests = Requests()
    output = ClientOutput(requests, BEGAN_S, has_streams=has_streams)
    for value in values:
        output.take(value)
    return requests, output


def test_the_client_is_told_the_requests_their_responses_and_the_load() -> None:
    rule, stream = BodyRule(FIELDS, (("a.0", 1),), ("b.*.c", "d"), "e"), Stream(SSE, text=("f",))
    request, right = Request("POST", (("x-a", "b"),), b"\x00body"), RightAnswer(201, rule, b"\xff", stream=stream)
    sent = SentRequest("http://127.0.0.1:1/", request, right.to_json())
    order = Order(requests=[sent], begin_s=7.5, turns=[0, 0], due_s=[0.1, 0.2], pause=Pause(0.5, 1.0))
    line = line_of(order)
    assert line.count(b"\n") == 1
    told = msgspec.convert(json.loads(line), Order)
    assert (told.requests[0].url, told.requests[0].request) == (sent.url, request)
    assert RightAnswer.from_json(told.requests[0].right) == right
    assert (told.turns, told.begin_s, told.due_s, told.users) == ([0, 0], 7.5, [0.1, 0.2], 0)
    assert told.pause == Pause(0.5, 1.0)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_becomes_a_row_with_times_since_the_load_began(outcome: str) -> None:
    requests, output = taken("ready", row(3, 1, outcome=outcome, problem="why, |so"))
    assert requests.outcome == [outcome]
    assert (requests.user, requests.request, requests.status, requests.size_bytes) == ([3], [1], [200], [17])
    assert (requests.due_s, requests.sent_s, requests.ended_s) == ([0.5], [1.0], [2.25])
    assert requests.problem == output.problems == ["why, |so"]


def test_the_client_output_reports_which_request_ended() -> None:
    output = ClientOutput(Requests(), BEGAN_S)
    assert output.take(row(7, outcome="lost")) == (7, 2.25, "lost")
    assert output.take({"reconnected": 2, "stalls_s": [0.5, 0.1]}) is None
    assert (output.reconnected, output.stalls_s) == (2, [0.5, 0.1])


def test_events_over_several_lines_belong_to_the_next_row_of_their_user() -> None:
    waits = ({"user": user, "waits_us": waits_us} for user, waits_us in ((1, [100, 20]), (0, [500]), (1, [30])))
    requests, _ = taken(*waits, row(1), row(0), row(1), has_streams=True)
    assert requests.user == [1, 0, 1]
    assert requests.first_us == [100, 500, -1]
    assert requests.gaps_us == [[20, 30], [], []]


@pytest.mark.parametrize("value", [row()[:5], [*row(), 1], ["a", *row()[1:]], row(outcome="good"), "Traceback", {}])
def test_an_unknown_or_incomplete_report_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"unknown report of the client|Expected|Invalid enum value"):
        taken(value)


def test_the_distinct_problems_are_ordered_by_their_frequency() -> None:
    problems = ["rare", "common", "common"]
    assert taken(*(row(outcome="wrong", problem=text) for text in problems))[1].problems == ["common", "rare"]
