"""Loads with several requests from a file: every command sends all of them and checks their responses."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from conftest import TESTS
from load_tool_checks import needed

from common.errors import BadInputError
from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import Load, MixedRequest
from under_siege.load.tool import LoadSpec
from under_siege.suite.suite_file import read_suite

MOST_CHECKS = 60  # maximum number of requests that the bench itself sends before, during and after the load
SENT = ['POST /orders?shop=1 {"items": 500000}', 'POST /orders?shop=2 {"items": 10}', "GET /stock"]


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    shutil.copytree(TESTS / "suites/mix", tmp_path / "mix")
    return tmp_path / "mix"


def with_line(folder: Path, line: str) -> None:
    """Add a line to [load]."""
    suite = folder / "suite.toml"
    suite.write_text(suite.read_text().replace("[load]", f"[load]\n{line}"))


def received(folder: Path) -> Counter[str]:
    """Return how often each request arrived, excluding health checks."""
    lines = Counter((folder / "access.log").read_text().splitlines())
    del lines["GET /health"]
    return lines


@pytest.mark.parametrize("tool", ["siege", "wrk", "locust", "client"])
def test_a_load_tool_sends_each_request_in_proportion_to_its_weight(tool: str, mix: Path, tmp_path: Path) -> None:
    needed(tool)
    with_line(mix, f'tool = "{tool}"')
    result, ran = run_once(tmp_path, "mix", "--time", "1s")
    (case,) = summarize(result).cases
    assert case.verdict != "failed", (
        case.reasons,
        ran.stderr,
    )  # it may be `suspect`, because the load tool is the limit on a busy machine
    assert result.suite.request == "3 different requests in random order"
    counts = received(mix)
    assert set(counts) == set(SENT)
    assert counts[SENT[0]] > counts[SENT[1]]  # a weight of 3 instead of 1
    assert set(result.records[0].transactions.status) <= {200, 201}
    for request in case.requests:  # wrk reports only totals
        arrived = sum(count for text, count in counts.items() if text.startswith(request.name))
        reported = request.share_pct / 100 * case.transactions
        assert -1 < arrived - reported < MOST_CHECKS, (request, arrived)
    assert len(case.requests) == (0 if tool == "wrk" else 3)


ONE_LOOP = """
import asyncio
async def app(scope, receive, send):
    seconds = {"/list": 0, "/report": 0.2}.get(scope["path"], 0)
    if seconds:
        import time
        time.sleep(seconds)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
LOOP_SUITE = """
[load]
requests_file = "requests.jsonl"
users = [4]
[ping]
path = "/ping"
[servers.loop]
command = "python -m uvicorn app:app --host {host} --port {port} --lifespan off --log-level error"
"""


def test_each_request_has_a_row_and_the_conclusion_names_the_one_for_which_others_wait(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ONE_LOOP)
    (tmp_path / "suite.toml").write_text(LOOP_SUITE)
    (tmp_path / "requests.jsonl").write_text('{"path": "/list", "weight": 3}\n{"path": "/report"}\n')
    out = str(tmp_path / "r.json")
    requirements = ["--require", "GET /list p99 < 5s", "--require", "GET /report p50 < 1ms"]
    ran = invoke("run", str(tmp_path), "--time", "4s", "--rounds", "2", "--quiet", "--out", out, *requirements)
    (case,) = json.loads(invoke("report", out, "--format", "json").stdout)["cases"]
    listed, report = sorted(case["requests"], key=lambda request: request["path"])
    assert (listed["method"], listed["path"], report["path"]) == ("GET", "/list", "/report")
    assert listed["share_pct"] == pytest.approx(75, abs=10)
    assert (listed["availability_pct"], report["availability_pct"]) == (100, 100)
    assert report["response_s"]["p50"] >= 0.2
    assert listed["response_s"]["p50"] < listed["response_s"]["p99"]
    assert listed["response_s"]["p99"] > 0.1
    assert "/list waits for /report" in ran.stdout
    assert ran.returncode == 1  # /report misses its requirement


def test_headers_of_the_load_are_sent_with_every_request_unless_it_has_its_own(mix: Path) -> None:
    with_line(mix, 'tool = "wrk"\nheaders = { X-Shop = "1", X-Kept = "yes" }')
    (mix / "requests.jsonl").write_text('{"path": "/a"}\n{"path": "/b", "headers": {"x-shop": "7"}}\n')
    first, second = read_suite(mix / "suite.toml").load.mix
    assert dict(first.request.headers) == {"X-Shop": "1", "X-Kept": "yes"}
    assert dict(second.request.headers) == {"X-Kept": "yes", "x-shop": "7"}


def test_siege_gets_the_requests_in_the_order_of_the_request_file(mix: Path) -> None:
    with_line(mix, 'order = "file"')
    load = read_suite(mix / "suite.toml").load
    spec = LoadSpec(1, 1.0, "http://here/", mix=LoadSpec.of(load, 1).mix, order=tuple(load.order(7)))
    urls = str(DRIVERS["siege"].files(spec)["urls.txt"]).splitlines()
    assert [url.split()[0] for url in urls] == [
        *["http://here/orders?shop=1"] * 3,
        "http://here/orders?shop=2",
        "http://here/stock",
    ]


@pytest.mark.parametrize(
    "words",
    [("trace", "mix"), ("capacity", "mix", "--time", "3s"), ("drill", "mix", "--fault", "overload", "--rounds", "1")],
)
def test_trace_capacity_and_drill_send_all_requests_of_the_request_file(
    words: tuple[str, ...], mix: Path, tmp_path: Path
) -> None:
    ran = invoke(*words, folder=tmp_path)
    assert ran.returncode in (0, 1, 3), ran.stderr
    assert set(received(mix)) == set(SENT)


def test_the_error_names_the_request_with_the_wrong_response(mix: Path, tmp_path: Path) -> None:
    requests = mix / "requests.jsonl"
    requests.write_text(requests.read_text().replace("45", "46"))
    result, _ = run_once(tmp_path, "mix", "--time", "1s")
    (reason,) = summarize(result).cases[0].reasons
    assert reason.code == "wrong_answer"
    assert "POST /orders?shop=2" in reason.message
    assert "total is 45 instead of 46" in reason.message


def test_the_random_order_of_requests_is_set_by_the_seed() -> None:
    load = Load(mix=(MixedRequest("/a"), MixedRequest("/b", weight=9)))
    assert load.order(1) == load.order(1) != load.order(2)
    assert 800 < load.order(1).count(1) < 1000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('tool = "ab"', "ab can only repeat one request; use siege, wrk or locust"),
        ('tool = "stressor"', "stressor can only repeat one request"),
        ('tool = "jobs"', "jobs can only repeat one request"),
        ('path = "/a"', "replaces the request: remove path"),
        ('method = "PUT"', "replaces the request: remove"),
        ('order = "reverse"', "expected one of random, file"),
    ],
)
def test_options_that_conflict_with_a_request_file_are_rejected(line: str, why: str, mix: Path, tmp_path: Path) -> None:
    with_line(mix, line)
    ran = invoke("run", "mix", "--time", "1s", folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert why in ran.stderr


def test_requests_with_different_headers_are_rejected_for_siege_and_sent_by_another_tool_by_default(
    mix: Path, tmp_path: Path
) -> None:
    requests = mix / "requests.jsonl"
    requests.write_text(requests.read_text().replace('{"path": "/stock"', '{"headers": {"A": "7"}, "path": "/stock"'))
    result, ran = run_once(tmp_path, "mix", "--time", "1s")
    assert "siege sends the same headers with each request, so this run uses the bench's own client" in ran.stderr
    assert result.records[0].tool == "client"
    assert set(received(mix)) == set(SENT)
    with_line(mix, 'tool = "siege"')
    ran = invoke("run", "mix", "--time", "1s", folder=tmp_path)
    assert (ran.returncode, "siege sends the same headers" in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "has 0 requests: expected 1 to 1,000"),
        ("{'path': '/'}", "line 1: expected a JSON object"),
        ("[1]", "line 1: expected a JSON object"),
        ("{}", "request.path is missing"),
        (json.dumps({"path": "/a b"}), "request.path"),
        (json.dumps({"path": "/", "wait": 1}), "wait"),
        (json.dumps({"path": "/", "weight": 0}), "weight"),
        (json.dumps({"path": "/", "method": "GET", "body": "a"}), "request.body: a GET has no body"),
        (json.dumps({"path": "/", "headers": {"A": "b\r\nC: d"}}), "without line breaks"),
        (json.dumps({"path": "/", "headers": {"Connection": "close"}}), "request.headers.Connection"),
        (json.dumps({"path": "/", "status": 99}), "status"),
        (json.dumps({"path": "/\x1b[31m"}), "request.path"),
    ],
)
def test_an_invalid_request_file_causes_an_error_that_names_the_problem(line: str, why: str, mix: Path) -> None:
    (mix / "requests.jsonl").write_text(f"{line}\n")
    with pytest.raises(BadInputError) as error:
        read_suite(mix / "suite.toml")
    assert why in str(error.value)
    assert str(error.value).isprintable()
