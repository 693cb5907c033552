"""The probe and the checker: both ask at a fixed rate, whatever becomes of what they asked before."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from conftest import LIMIT_S

from under_siege.http_client import Answer
from under_siege.model.record import Checks, Pings
from under_siege.model.suite import Ping
from under_siege.monitors import ping
from under_siege.monitors.answer_check import Checker, interval_s
from under_siege.monitors.ping import probing
from under_siege.processes.managed_process import until

PONG = Answer(200, b"pong", {})
OFTEN_S = 0.001
Body = Callable[[list[str]], Awaitable[None]]


def pinged(monkeypatch: pytest.MonkeyPatch, body: Body, answer: asyncio.Event | None = None, patience_s=LIMIT_S):
    """The pings while that goes on, which is told what was asked; answered at once, or at that event."""
    pings, asked = Pings(), list[str]()

    async def get(_session, url: str) -> Answer:
        asked.append(url)
        if answer is not None:
            await answer.wait()
        return PONG

    async def go() -> None:
        async with probing(None, "http://x", Ping(), patience_s, pings, time.monotonic(), interval_s=OFTEN_S):
            await body(asked)

    monkeypatch.setattr(ping, "get", get)
    asyncio.run(go())
    return pings


def test_a_ping_is_sent_when_it_is_due_though_none_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asyncio.Event()

    async def until_many_wait(asked: list[str]) -> None:
        assert await until(lambda: len(asked) >= 5, LIMIT_S)
        answer.set()

    pings = pinged(monkeypatch, until_many_wait, answer)
    assert len(pings.due_s) >= 5
    assert not any(pings.problem)


def test_a_ping_has_waited_since_it_was_due_and_not_since_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or whatever holds up the probe would make the server look quick."""

    async def hold_up(asked: list[str]) -> None:
        assert await until(lambda: len(asked) >= 2, LIMIT_S)
        time.sleep(50 * OFTEN_S)  # noqa: ASYNC251 (that is the point)
        before = len(asked)
        assert await until(lambda: len(asked) > before, LIMIT_S)

    pings = pinged(monkeypatch, hold_up)
    late_s = [sent_s - due_s for sent_s, due_s in zip(pings.sent_s, pings.due_s, strict=True)]
    assert max(late_s) > 40 * OFTEN_S
    assert all(waited >= late - 1e-5 for waited, late in zip(pings.waited_s, late_s, strict=True))


def test_what_nobody_has_answered_when_patience_ends_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until_one_waits(asked: list[str]) -> None:
        assert await until(lambda: bool(asked), LIMIT_S)

    pings = pinged(monkeypatch, until_one_waits, asyncio.Event(), patience_s=OFTEN_S)
    assert set(pings.problem) == {"not answered"}


def test_a_server_that_does_one_task_at_a_time_spends_a_tenth_of_it_on_the_checks_at_the_most() -> None:
    assert interval_s(0.001) == 1.0
    assert interval_s(2.0) == 20.0


def test_a_check_waits_for_no_other_and_none_is_sent_at_the_very_end() -> None:
    checks, asked, all_asked = Checks(), [], asyncio.Event()

    async def verify(_in_a_row: int) -> None:
        asked.append(time.monotonic())
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()

    async def go() -> None:
        checker = Checker(verify, checks, time.monotonic())
        async with checker.checking(OFTEN_S, lambda: 2.5 * OFTEN_S):
            await asyncio.wait_for(all_asked.wait(), LIMIT_S)
            await asyncio.sleep(3 * OFTEN_S)  # in which a fourth would be due

    asyncio.run(go())
    assert len(asked) == 3
    assert checks.code == [""] * 3
