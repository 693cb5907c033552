"""Health-check pings and response checks are sent at a fixed rate, independent of earlier responses."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

import pytest
from conftest import LIMIT_S

from under_siege.host.managed_process import until
from under_siege.judge.estimators import Rows
from under_siege.load import pings as probes
from under_siege.load.answer_check import AnswerCheck, check_interval_s
from under_siege.load.http_client import HttpResponse
from under_siege.load.pings import probing
from under_siege.load.request import Ping, Request
from under_siege.measure.siege_length import Length, pinged_s
from under_siege.record.requests import CORRECT, LATE, LONE_PING, OPEN, PING, Requests
from under_siege.suite.expected_response import Expectation

PONG = HttpResponse(200, b"pong", {})
INTERVAL_S = 0.001
Body = Callable[[list[str]], Awaitable[None]]


def pinged(
    monkeypatch: pytest.MonkeyPatch,
    body: Body,
    answer: asyncio.Event | None = None,
    timeout_s: float = LIMIT_S,
    *,
    is_cut: bool = False,
) -> Requests:
    """Run `body` with a growing list of the URLs pinged so far; return the pings.

    If the event `answer` is given, pings are answered only after it is set; otherwise, they are answered immediately.
    """
    pings, sent = Requests(), list[str]()

    async def get(_session, url: str, request: Request) -> HttpResponse:
        assert request.method == "GET"
        sent.append(url)
        if answer is not None:
            await answer.wait()
        return PONG

    async def go() -> None:
        arguments = None, "http://x", Ping(), timeout_s, pings, time.monotonic(), INTERVAL_S
        async with probing(*arguments, is_cut=is_cut):
            await body(sent)

    monkeypatch.setattr(probes, "fetch", get)
    asyncio.run(go())
    return pings


def test_pings_are_sent_on_schedule_even_if_earlier_pings_are_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asyncio.Event()

    async def until_many_wait(sent: list[str]) -> None:
        assert await until(lambda: len(sent) >= 5, LIMIT_S)
        answer.set()

    pings = pinged(monkeypatch, until_many_wait, answer)
    assert len(pings.due_s) >= 5
    assert set(pings.outcome) == {CORRECT}
    assert not any(pings.problem)


def test_ping_latency_is_measured_from_the_time_the_ping_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a probe that sends its pings late would make the server look fast."""

    async def block_the_loop(sent: list[str]) -> None:
        assert await until(lambda: len(sent) >= 2, LIMIT_S)
        time.sleep(50 * INTERVAL_S)  # noqa: ASYNC251 (delays the probe)
        before = len(sent)
        assert await until(lambda: len(sent) > before, LIMIT_S)

    pings = pinged(monkeypatch, block_the_loop)
    late_s = [sent_s - due_s for sent_s, due_s in zip(pings.sent_s, pings.due_s, strict=True)]
    assert max(late_s) > 40 * INTERVAL_S
    assert all(waited_s >= late - 1e-5 for waited_s, late in zip(Rows.of(pings, PING).waited_s, late_s, strict=True))


def test_pings_not_answered_before_the_timeout_are_recorded_as_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until_one_waits(sent: list[str]) -> None:
        assert await until(lambda: bool(sent), LIMIT_S)

    pings = pinged(monkeypatch, until_one_waits, asyncio.Event(), timeout_s=INTERVAL_S)
    assert set(zip(pings.outcome, pings.problem, strict=True)) == {(LATE, "not answered")}


def test_pings_and_checks_of_a_screening_siege_do_not_wait_for_responses_after_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No response ever comes, and there is no timeout."""
    never, checks = asyncio.Event(), Requests()

    async def until_one_waits(sent: list[str]) -> None:
        checker = AnswerCheck(lambda _: never.wait(), checks, time.monotonic(), is_cut=True)
        async with checker.checking(INTERVAL_S, lambda: math.inf):
            assert await until(lambda: bool(sent), LIMIT_S)

    pings = pinged(monkeypatch, until_one_waits, never, timeout_s=math.inf, is_cut=True)
    for requests in (pings, checks):
        assert set(zip(requests.outcome, requests.problem, strict=True)) == {(OPEN, "")}


def test_response_checks_use_at_most_a_tenth_of_the_time_of_a_sequential_server() -> None:
    assert check_interval_s(0.001) == 1.0
    assert check_interval_s(2.0) == 20.0


def test_response_checks_overlap_and_stop_at_the_end_of_the_load() -> None:
    checks, sent, all_sent = Requests(), [], asyncio.Event()

    async def verify(_in_a_row: int) -> None:
        sent.append(time.monotonic())
        if len(sent) == 3:
            all_sent.set()
        await all_sent.wait()

    async def go() -> None:
        checker = AnswerCheck(verify, checks, time.monotonic())
        async with checker.checking(INTERVAL_S, lambda: 2.5 * INTERVAL_S):
            await asyncio.wait_for(all_sent.wait(), LIMIT_S)
            await asyncio.sleep(3 * INTERVAL_S)  # a fourth check would be due by then

    asyncio.run(go())
    assert len(sent) == 3
    assert checks.outcome == [CORRECT] * 3


def test_one_ping_of_each_siege_is_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet_s, alone_s = (0.02, 0.06), 0.04
    monkeypatch.setattr(probes, "ALONE_AT_S", alone_s)
    requests, sent = Requests(), list[str]()

    async def get(_session, url: str, **_: object) -> HttpResponse:
        sent.append(url)
        return PONG

    async def go() -> None:
        of = None, "http://x", Ping(), LIMIT_S
        began_s = time.monotonic()
        async with (
            probing(*of, requests, began_s, INTERVAL_S, quiet_s=quiet_s),
            probes.probing_alone(*of, requests, began_s),
        ):
            assert await until(lambda: time.monotonic() > began_s + quiet_s[1] and len(sent) > 30, LIMIT_S)

    monkeypatch.setattr(probes, "fetch", get)
    asyncio.run(go())
    pings, lone_pings = requests.only(PING), requests.only(LONE_PING)
    assert lone_pings.due_s == [pytest.approx(alone_s)]
    assert min(pings.due_s) < quiet_s[0]
    assert max(pings.due_s) > quiet_s[1]
    assert not [due_s for due_s in pings.due_s if quiet_s[0] < due_s < quiet_s[1]]


def test_rare_pings_make_a_siege_longer() -> None:
    for every_s, longer in ((0.05, False), (0.8, True)):
        length = Length(None, 1, Expectation(b"4", 0.001, 0.001), pinged_s(Ping(every_s=every_s)))
        assert (length.end_s >= 5 * 0.8) is longer
