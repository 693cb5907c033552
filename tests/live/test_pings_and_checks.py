"""Health-check pings and response checks are sent at a fixed rate, independent of earlier responses."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from command import invoke
from conftest import LIMIT_S

from under_siege.host.managed_process import until
from under_siege.load import pings as probes
from under_siege.load.http_client import HttpResponse
from under_siege.load.pings import AnswerCheck, check_interval_s, probing
from under_siege.load.request import Ping, Request
from under_siege.record.record import Checks, Pings
from under_siege.record.result import load

PONG = HttpResponse(200, b"pong", {})
INTERVAL_S = 0.001
Body = Callable[[list[str]], Awaitable[None]]


def pinged(monkeypatch: pytest.MonkeyPatch, body: Body, answer: asyncio.Event | None = None, timeout_s=LIMIT_S):
    """Run `body` with a growing list of the URLs pinged so far; return the pings.

    If the event `answer` is given, pings are answered only after it is set; otherwise, they are answered immediately.
    """
    pings, sent = Pings(), list[str]()

    async def get(_session, url: str, request: Request) -> HttpResponse:
        assert request.method == "GET"
        sent.append(url)
        if answer is not None:
            await answer.wait()
        return PONG

    async def go() -> None:
        async with probing(None, "http://x", Ping(), timeout_s, pings, time.monotonic(), interval_s=INTERVAL_S):
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
    assert all(waited >= late - 1e-5 for waited, late in zip(pings.waited_s, late_s, strict=True))


def test_pings_not_answered_before_the_timeout_are_recorded_as_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until_one_waits(sent: list[str]) -> None:
        assert await until(lambda: bool(sent), LIMIT_S)

    pings = pinged(monkeypatch, until_one_waits, asyncio.Event(), timeout_s=INTERVAL_S)
    assert set(pings.problem) == {"not answered"}


def test_response_checks_use_at_most_a_tenth_of_the_time_of_a_sequential_server() -> None:
    assert check_interval_s(0.001) == 1.0
    assert check_interval_s(2.0) == 20.0


def test_response_checks_overlap_and_stop_at_the_end_of_the_load() -> None:
    checks, sent, all_sent = Checks(), [], asyncio.Event()

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
    assert checks.code == [""] * 3


LEAKS = """
KEPT = []
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/":
        KEPT.append(b"x" * 100_000 + b"%d" % len(KEPT))
    return [b"%d" % sum(range(100_000))]
"""
LEAKING_SUITE = """
[load]
users = [2]
time = "3s"
[ping]
path = "/ping"
[servers.leaks]
command = "python -m gunicorn -b {host}:{port} --log-level error app:app"
"""


def test_a_leak_is_noted_with_its_size_and_one_ping_of_each_siege_is_sent_alone(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LEAKS)
    (tmp_path / "suite.toml").write_text(LEAKING_SUITE)
    ran = invoke("run", str(tmp_path), "--rounds", "1", "--quiet", "--out", str(tmp_path / "r.json"))
    (record,) = load(tmp_path / "r.json").records
    assert len(record.lone_pings.waited_s) == 1
    alone_s = record.lone_pings.sent_s[0]
    assert not [due_s for due_s in record.pings.due_s if abs(due_s - alone_s) < 0.2]
    (size,) = re.findall(r"by (\d+) MB per 1,000 requests", ran.stdout)
    assert int(size) == pytest.approx(100, rel=0.2)


def test_rare_pings_make_a_siege_longer_and_few_pings_are_noted(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LEAKS)
    (tmp_path / "suite.toml").write_text(
        LEAKING_SUITE.replace('time = "3s"', "").replace('"/ping"', '"/ping"\nevery = "800ms"')
    )
    ran = invoke("run", str(tmp_path), "--rounds", "1", "--quiet", "--out", str(tmp_path / "r.json"))
    (record,) = load(tmp_path / "r.json").records
    assert len(record.pings.due_s) >= 5
    assert not record.lone_pings.due_s
    assert f"only {len(record.pings.due_s)} pings" in ran.stdout
