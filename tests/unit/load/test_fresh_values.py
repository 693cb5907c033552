"""Placeholders of requests: which there are, and which values they have."""

import itertools
import json
import re
import time

import pytest

from under_siege.load import DRIVERS, fresh_values
from under_siege.load.client import Order, SentRequest, line_of, setup_line
from under_siege.load.fresh_values import Numbers, differs_by_user, how_to_vary, names_in, names_in_request
from under_siege.load.request import CLIENT, GET, JOBS, Load, MixedRequest, Pause, Request, RightAnswer, SetupRequest
from under_siege.load.simulated_user import SimulatedUser
from under_siege.load.tool import LoadSpec

PLACEHOLDERS = "{n} {uuid} {random:8} {random:12} {user}"
LITERAL = '{"n": 1} {N} {name} {random} {random:0} {random:100} ${n} {n } {users}'
LOGIN = (SetupRequest("/login", Request("POST")),)


def test_only_four_forms_are_placeholders() -> None:
    assert names_in(PLACEHOLDERS + LITERAL) == ["n", "uuid", "random:8", "random:12", "user"]
    assert names_in(LITERAL) == []


def test_with_a_setup_other_names_are_placeholders_too() -> None:
    assert names_in('{token} {data.items.0.id} {x-token} {"n": 1} ${n} {n}', has_setup=True) == [
        *("token", "data.items.0.id", "x-token", "n")
    ]


def test_numbers_grow_and_those_of_two_processes_and_of_a_later_run_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_ns = itertools.count(time.time_ns(), 500)  # two requests in each microsecond
    monkeypatch.setattr(time, "time_ns", lambda: next(clock_ns))
    bench, client = Numbers(), Numbers()
    client.digit = 1
    taken = [numbers.next() for numbers in (bench, client) for _ in range(1000)]
    assert len(set(taken)) == len(taken)
    assert all(earlier < later for earlier, later in itertools.pairwise(taken[:1000]))
    clock_ns = itertools.count(time.time_ns() + 1_000_000, 500)
    assert Numbers().next() > max(taken)  # a run that starts later
    assert max(taken) < 2**53  # every JSON parser supports such numbers
    monkeypatch.setattr(time, "time_ns", lambda: 0)  # the clock is set back
    assert bench.next() > max(taken[:1000])


def test_each_client_of_a_run_has_another_digit() -> None:
    requests = [SentRequest("http://a/", GET, RightAnswer().to_json())]
    lines = [json.loads(line_of(Order(requests=requests, begin_s=0.0))) for _ in range(3)]
    lines.append(json.loads(setup_line(LOGIN, "http://a", 2)))
    digits = [line["digit"] for line in lines]
    assert len(set(digits)) == 4
    assert 0 not in digits  # that of the bench itself


def test_placeholders_are_filled_in_the_path_the_headers_and_the_body() -> None:
    request = Request("POST", (("X-Once", "{uuid}"),), b'{"name": "ann-{n}", "mail": "{n}@b", "code": "{random:5}"}')
    seen = [SimulatedUser(7).filled("http://a/{user}?q={random:3}", request) for _ in range(50)]
    bodies = [json.loads(sent.body) for _, sent in seen]
    assert len({body["name"] for body in bodies}) == len({body["code"] for body in bodies}) == 50
    assert all(body["mail"] == f"{body['name'].removeprefix('ann-')}@b" for body in bodies)  # the same value
    assert all(re.fullmatch("[a-z0-9]{5}", body["code"]) for body in bodies)
    assert len({sent.headers for _, sent in seen}) == 50
    assert all(re.fullmatch(r"http://a/7\?q=[a-z0-9]{3}", url) for url, _ in seen)


def test_a_request_without_placeholders_and_a_body_that_is_not_text_are_sent_as_they_are() -> None:
    for body in (b"{name}", b"\xff{n}"):
        request = Request("POST", (), body)
        assert SimulatedUser().filled("http://a/{x}", request) == ("http://a/{x}", request)


@pytest.mark.parametrize(
    "load",
    [
        Load(path="/{n}"),
        Load(request=Request("POST", body=b"{uuid}")),
        Load(request=Request(headers=(("X", "{user}"),))),
        Load(mix=(MixedRequest("/a"), MixedRequest("/{random:3}"))),
        Load(setup=LOGIN),
    ],
)
def test_only_the_own_client_sends_requests_that_vary(load: Load) -> None:
    spec = LoadSpec(load, 2, 1.0, load.path)
    refusals = {name: driver.refusal(spec) for name, driver in DRIVERS.items()}
    assert {name for name, refusal in refusals.items() if not refusal} - {JOBS} == {CLIENT}
    assert "can't" in refusals["siege"]


def test_a_load_differs_by_user_if_its_requests_do_or_if_it_has_a_setup() -> None:
    assert differs_by_user(Load(setup=LOGIN))
    assert differs_by_user(Load(path="/{user}"))
    assert differs_by_user(Load(mix=(MixedRequest("/a", Request("POST", body=b"{user}")),)))
    assert not differs_by_user(Load(path="/{n}", pause=Pause(1, 1)))


@pytest.mark.parametrize(
    ("body", "example"),
    [
        (b'{"name": "ann"}', '"name": "ann-{n}"'),
        (b'{"id": 7, "email": "ann@b.c"}', '"email": "ann-{n}@b.c"'),
        (b'{"password": "sesame", "name": "ann"}', '"name": "ann-{n}"'),
        (b"text", "into the path or the body"),
    ],
)
def test_the_advice_names_a_field_that_can_vary(body: bytes, example: str) -> None:
    advice = how_to_vary(Request("POST", body=body))
    assert advice.endswith(example)
    assert "sesame" not in advice
    assert fresh_values.names_in(advice) == ["n"]


def test_names_of_a_request_are_those_of_all_its_parts() -> None:
    request = Request("POST", (("A", "{n}"),), b"{uuid}")
    assert names_in_request("/{user}", request) == ["user", "n", "uuid"]
