"""`bench.py run --style jobs`: each user posts a job and polls for its result."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from bench_runs import without_a_ceiling
from conftest import LIMIT_S, ROOT, TESTS, WAITING, serving, wait_until
from load_tool_checks import skip_version_lookup

from common.errors import BadInputError
from under_siege.load import DRIVERS
from under_siege.load.http_client import HttpResponse
from under_siege.load.jobs import fetch_job, pause_s
from under_siege.load.request import Request
from under_siege.load.tool import LoadSpec, ToolResponse
from under_siege.measure.plan import make_plan
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load, save
from under_siege.suite.selection import in_style, suite_of
from under_siege.suite.strategies import all_strategies, strategies_suite

SERVER = TESTS / "servers" / "takes_jobs.py"
QUICK = ("--rounds", "1", "--time", "1s", "--users", "3", "--quiet")


def test_the_response_time_of_a_job_is_measured_from_the_post_to_the_final_response(run_cli, tmp_path: Path) -> None:
    with without_a_ceiling():
        ended = run_cli("run", str(SERVER), "2", "3", "--style", "jobs", *QUICK, *WAITING, "--out", "jobs.json")
    assert ended.returncode in (0, 3), ended.stderr
    assert "3 users · as jobs" in ended.stdout
    assert "note 2_async, 3_async_threadexecutor: not run: each accepts no jobs" in ended.stdout
    result = load(tmp_path / "jobs.json")
    (record,) = result.records
    assert (record.tool, record.values["style"]) == ("jobs", "jobs")
    assert set(record.transactions.status) == {200}
    assert min(record.transactions.took_s) >= 0.28  # the task waits for 0.28 s
    assert (record.socket_failures, record.tool_unknown) == (0, 0)
    with Users(1, LIMIT_S, tmp_path) as users:
        assert record.tool_cpu_s < users.start_cpu_s  # the CPU time for starting the load tool is not counted
    (case,) = json.loads(run_cli("report", "jobs.json", "--format", "json").stdout)["cases"][-1:]
    assert (case["server"], case["parameters"]) == ("takes_jobs", {"style": "jobs"})
    check_that_styles_are_not_compared(run_cli, tmp_path)


def check_that_styles_are_not_compared(run_cli, folder: Path) -> None:
    result = load(folder / "jobs.json")
    for one in result.records:
        one.values.pop("style", None)
    save(result, folder / "waiting.json")
    ended = run_cli("compare", "waiting.json", "jobs.json")
    assert ended.returncode == 2
    assert "different styles (waiting and jobs)" in ended.stderr


def test_a_wrong_job_result_is_detected(run_cli, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_version_lookup(monkeypatch)
    with without_a_ceiling():
        ended = run_cli("run", str(SERVER), "--style", "jobs", *QUICK, *WAITING, env={"JOBS_ARE": "wrong"})
    assert ended.returncode == 1
    assert re.search(r"POST /jobs returned 200 with 2 bytes '42'\s+instead of 200", ended.stdout)


class Users:
    """A process that runs the load tool for jobs."""

    def __init__(self, port: int, timeout_s: float, folder: Path) -> None:
        driver, spec = DRIVERS["jobs"], LoadSpec(2, 1.0, f"http://127.0.0.1:{port}/jobs", timeout_s=timeout_s)
        for name, text in driver.files(spec).items():
            (folder / name).write_text(str(text))
        command = driver.command(sys.executable, folder, spec)
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
        """Stop the load and return how many jobs failed."""
        self._process.terminate()
        assert self._process.wait(LIMIT_S) == 0
        errors = self._process.stderr.read()
        return DRIVERS["jobs"].failures(errors, [])


def test_users_wait_for_the_retry_after_time_before_they_poll_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBS_ARE", "impatient")
    with serving(SERVER, "--task", "sample_tasks:a_moment") as served, Users(served.port, LIMIT_S, tmp_path) as users:
        arrival = users.parse_line()
        assert (arrival.status, arrival.size_bytes) == (200, len("at last"))
        assert arrival.took_s >= 1  # as the Retry-After header asks
        assert users.end() == 0


def test_a_lost_job_is_reported_with_status_404(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS_ARE", "lost")
    with serving(SERVER, "--task", "sample_tasks:short") as served, Users(served.port, LIMIT_S, tmp_path) as users:
        assert users.parse_line().status == 404
        assert users.end() == 0


@pytest.mark.parametrize("behaviour", ["never", "elsewhere"])
def test_a_job_without_a_result_is_counted_as_failed(behaviour: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("JOBS_ARE", behaviour)
    with serving(SERVER, "--task", "sample_tasks:short") as served, Users(served.port, 0.2, tmp_path) as users:
        wait_until(lambda: int(served.request("/posted").body) > 2)
        assert users.end() > 0


HEADERS = (("Authorization", "Bearer 7"), ("Content-Type", "application/json"))


def result_of(*states: web.Response, location: str = "/jobs/1") -> HttpResponse:
    """Return the result of a job whose status requests get these responses, one after the other."""
    left = iter(states)

    async def post(_request: web.Request) -> web.Response:
        return web.Response(status=202, headers={"Location": location})

    async def find(request: web.Request) -> web.Response:
        sent = [request.headers.get(name) for name in ("Authorization", "Content-Type", "Prefer")]
        assert sent == ["Bearer 7", None, "wait=10"]
        return next(left)

    async def go() -> HttpResponse:
        app = web.Application()
        app.add_routes([web.post("/jobs", post), web.get("/jobs/1", find)])
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            return await fetch_job(session, str(server.make_url("/jobs")), LIMIT_S, request=Request(headers=HEADERS))

    return asyncio.run(go())


def test_a_job_is_polled_until_its_result_arrives_even_after_a_503_response() -> None:
    later = {"Retry-After": "0"}
    states = (web.Response(status=503, headers=later), web.Response(status=202, headers=later))
    assert result_of(*states, web.Response(text="done")).body == b"done"


def test_job_locations_on_other_servers_are_rejected() -> None:
    with pytest.raises(CaseFailedError, match="the Location header is missing or names another server"):
        result_of(location="http://127.0.0.2/jobs/1")


@pytest.mark.parametrize(
    ("retry_after", "expected_s"),
    [("3", 3), ("0", 0.01), ("999999999", 60), ("", 1), ("\u00b2", 1), ("-5", 1), ("Sun, 22 Nov 2026 07:28:00 GMT", 1)],
)
def test_the_pause_set_by_a_retry_after_header_has_a_minimum_a_maximum_and_a_default(
    retry_after: str, expected_s: float
) -> None:
    assert pause_s(retry_after, 1.0) == expected_s


def test_list_marks_strategies_that_accept_jobs(run_cli) -> None:
    listed = json.loads(run_cli("list", "--json").stdout)
    assert (
        {one["server"] for one in listed if one["jobs"]}
        == {one.name for one in all_strategies() if "JOBS" in one.path.read_text()}
        >= {"10_async_dask", "12_async_celery"}
    )


def test_strategies_that_accept_no_jobs_are_left_out_of_the_plan_with_a_reason() -> None:
    suite = in_style(strategies_suite(["2", "3", "10"]), "jobs")
    plan = make_plan(suite, {"python": [sys.executable]}, time_s=None, rounds=1)
    assert {(one.server, one.reason) for one in plan.left_out} == {
        ("2_async", "accepts no jobs"),
        ("3_async_threadexecutor", "accepts no jobs"),
    }
    assert [(case.server, case.get("style")) for case in (*plan.cases, *plan.ceilings)] == [
        ("10_async_dask", "jobs"),
        ("bare", None),
    ]
    with pytest.raises(BadInputError, match=r"^2_async accepts no jobs: use 10_async_dask or 12_async_celery, or"):
        make_plan(in_style(strategies_suite(["2"]), "jobs"), {"python": [sys.executable]}, time_s=None, rounds=1)


def test_a_suite_with_a_script_rejects_the_jobs_style() -> None:
    with pytest.raises(BadInputError, match=r"--style jobs supports one path and a time"):
        suite_of([str(ROOT / "suites" / "webdav")], style="jobs")


def test_run_with_trace_rejects_the_jobs_style(run_cli) -> None:
    ended = run_cli("run", "10", "--style", "jobs", "--trace", *QUICK)
    assert (ended.returncode, ended.stderr) == (
        2,
        "bench.py: --style jobs: run --trace can't post jobs; use bench.py run without --trace, or --style waiting\n",
    )
