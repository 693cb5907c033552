"""`bench.py run --style jobs`: each user posts a job, and asks for its answer."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path

import aiohttp
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from besieging import without_a_ceiling
from conftest import LIMIT_S, ROOT, TESTS, WAITING, serving, wait_until
from load_tool_checks import which_it_is_is_known

from common.errors import BadInputError
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer, get_job
from under_siege.load_tools import DRIVERS
from under_siege.load_tools.tool import ToolResponse
from under_siege.model.record import load, save
from under_siege.paths import script
from under_siege.run.plan import make_plan
from under_siege.subprocess_scripts import job_load
from under_siege.subprocess_scripts.job_load import Found, JobLoad
from under_siege.targets.selection import in_style, suite_of
from under_siege.targets.strategies import all_strategies, strategies_suite

SERVER = TESTS / "servers" / "takes_jobs.py"
QUICK = ("--rounds", "1", "--time", "1s", "--users", "3", "--quiet")


@pytest.mark.figures
def test_the_rate_is_of_results_and_the_time_is_that_from_the_post_to_the_answer(asked, tmp_path: Path) -> None:
    with without_a_ceiling():
        ended = asked("run", str(SERVER), "2", "3", "--style", "jobs", *QUICK, *WAITING, "--out", "jobs.json")
    assert ended.returncode in (0, 3), ended.stderr
    assert "3 users · as jobs" in ended.stdout
    assert "note 2_async, 3_async_threadexecutor: not run: each takes no jobs" in ended.stdout
    result = load(tmp_path / "jobs.json")
    (record,) = result.records
    assert (record.tool, record.values["style"]) == ("jobs", "jobs")
    assert set(record.transactions.status) == {200}
    assert min(record.transactions.took_s) >= 0.28  # the waits of the task
    assert (record.socket_failures, record.tool_unknown) == (0, 0)
    with Users(1, LIMIT_S) as users:
        assert record.tool_cpu_s < users.start_cpu_s  # which is no part of the load
    (case,) = json.loads(asked("report", "jobs.json", "--format", "json").stdout)["cases"][-1:]
    assert (case["server"], case["parameters"]) == ("takes_jobs", {"style": "jobs"})
    it_is_not_compared_with_waiting(asked, tmp_path)


def it_is_not_compared_with_waiting(asked, folder: Path) -> None:
    result = load(folder / "jobs.json")
    for one in result.records:
        one.values.pop("style", None)
    save(result, folder / "waiting.json")
    ended = asked("compare", "waiting.json", "jobs.json")
    assert ended.returncode == 2
    assert "different styles (waiting and jobs)" in ended.stderr


def test_a_wrong_answer_of_a_job_is_found(asked, monkeypatch: pytest.MonkeyPatch) -> None:
    which_it_is_is_known(monkeypatch)  # as the test before has asked
    with without_a_ceiling():
        ended = asked("run", str(SERVER), "--style", "jobs", *QUICK, *WAITING, env={"JOBS_ARE": "wrong"})
    assert ended.returncode == 1
    assert re.search(r"POST /jobs gives 200 with 2 bytes '42'\s+instead of 200", ended.stdout)


class Users:
    """The client of jobs, as a process."""

    def __init__(self, port: int, patience_s: float) -> None:
        words = ("--users", "2", "--patience", str(patience_s), f"http://127.0.0.1:{port}/jobs")
        command = [sys.executable, *script("job_load"), *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
        assert self._process.stdout.readline() == "ready\n"
        used = psutil.Process(self._process.pid).cpu_times()
        self.start_cpu_s = used.user + used.system
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def __enter__(self) -> "Users":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def parse_line(self) -> ToolResponse:
        return DRIVERS["jobs"].parse_line(self._process.stdout.readline())

    def end(self) -> int:
        """How many jobs were given up."""
        self._process.terminate()
        assert self._process.wait(LIMIT_S) == 0
        errors = self._process.stderr.read()
        return DRIVERS["jobs"].failures(errors, [])


def test_a_user_asks_again_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS_ARE", "impatient")
    with serving(SERVER, "--task", "sample_tasks:a_moment") as served, Users(served.port, LIMIT_S) as users:
        arrival = users.parse_line()
        assert (arrival.status, arrival.size_bytes) == (200, len("at last"))
        assert arrival.took_s >= 1  # Retry-After
        assert users.end() == 0


def test_a_job_that_is_gone_has_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS_ARE", "lost")
    with serving(SERVER, "--task", "sample_tasks:short") as served, Users(served.port, LIMIT_S) as users:
        assert users.parse_line().status == 404
        assert users.end() == 0


@pytest.mark.parametrize("they_are", ["never", "elsewhere"])
def test_a_job_that_is_never_done_is_given_up(they_are: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS_ARE", they_are)
    with serving(SERVER, "--task", "sample_tasks:short") as served, Users(served.port, patience_s=0.2) as users:
        wait_until(lambda: int(served.request("/posted").body) > 2)
        assert users.end() > 0


def by_a_user(session: aiohttp.ClientSession, url: str) -> Awaitable[Found]:
    return JobLoad(url, LIMIT_S)._job(session)


def job_of(*states: web.Response, place: str = "/jobs/1", asked=by_a_user) -> Found | Answer:
    """What comes of a job, of which that is told one after the other."""
    left = iter(states)

    async def post(_request: web.Request) -> web.Response:
        return web.Response(status=202, headers={"Location": place})

    async def find(_request: web.Request) -> web.Response:
        return next(left)

    async def go() -> Found | Answer:
        app = web.Application()
        app.add_routes([web.post("/jobs", post), web.get("/jobs/1", find)])
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            return await asked(session, str(server.make_url("/jobs")))

    return asyncio.run(go())


def test_a_user_asks_again_while_it_can_not_be_told_whether_the_job_is_done() -> None:
    later = {"Retry-After": "0"}
    states = (web.Response(status=503, headers=later), web.Response(status=202, headers=later))
    assert job_of(*states, web.Response(text="done")) == (200, len("done"))


def test_neither_an_answer_without_end_nor_one_from_elsewhere_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_load, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="without an end"):
        job_of(web.Response(text="x" * 1001))
    with pytest.raises(ValueError, match="the job is at"):
        job_of(place="http://127.0.0.2/jobs/1")
    with pytest.raises(CaseFailedError, match="does not say where its job is, or that is elsewhere"):
        job_of(place="http://127.0.0.2/jobs/1", asked=get_job)


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [("3", 3), ("0", 0.01), ("999999999", 60), ("", 1), ("\u00b2", 1), ("-5", 1), ("Sun, 22 Nov 2026 07:28:00 GMT", 1)],
)
def test_how_long_a_user_waits_is_bounded_whatever_it_is_told(retry_after: str, pause_s: float) -> None:
    assert job_load._pause_s(retry_after) == pause_s


def test_strategies_say_that_they_take_jobs(asked) -> None:
    listed = json.loads(asked("list", "--json").stdout)
    assert (
        {one["server"] for one in listed if one["jobs"]}
        == {one.name for one in all_strategies() if "JOBS" in one.path.read_text()}
        >= {"10_async_dask", "12_async_celery"}
    )


def test_who_takes_no_jobs_is_left_out() -> None:
    suite = in_style(strategies_suite(["2", "3", "10"]), "jobs")
    plan = make_plan(suite, {"python": [sys.executable]}, time_s=None, rounds=1)
    assert {(one.server, one.reason) for one in plan.left_out} == {
        ("2_async", "takes no jobs"),
        ("3_async_threadexecutor", "takes no jobs"),
    }
    assert [(case.server, case.get("style")) for case in (*plan.cases, *plan.ceilings)] == [
        ("10_async_dask", "jobs"),
        ("bare", None),
    ]
    with pytest.raises(BadInputError, match=r"^2_async takes no jobs: expected 10_async_dask or 12_async_celery, or"):
        make_plan(in_style(strategies_suite(["2"]), "jobs"), {"python": [sys.executable]}, time_s=None, rounds=1)


def test_a_load_that_does_other_things_is_no_load_of_jobs() -> None:
    with pytest.raises(BadInputError, match=r"--style jobs$"):
        suite_of([str(ROOT / "suites" / "webdav")], style="jobs")


def test_jobs_are_not_traced(asked) -> None:
    ended = asked("run", "10", "--style", "jobs", "--trace", *QUICK)
    assert (ended.returncode, ended.stderr) == (
        2,
        "bench.py: --style jobs: run --trace can't post jobs; use bench.py run without --trace, or --style waiting\n",
    )
