"""Loads with several requests from a file: each tool and each command sends all of them, and counts them apart."""

import json
from collections import Counter
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_specs import load_spec
from load_tool_checks import arrived_in_load, needed, output_of, skip_version_lookup, told_by_client
from scripted_server import received, running, write_suite

from under_siege.capacity.step_metrics import StepMetrics
from under_siege.host.programs import isolated_tool
from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import MixedRequest, Request
from under_siege.load.tool import LoadSpec, ToolOutput
from under_siege.record.result import load

USERS, REQUESTS = 2, 60
BODIES = {
    "/slow/0.02/status/201/digest?shop=1": b'{"items": 5}',
    "/slow/0.02/status/201/digest?shop=2": b'{"items": 10}',
    "/slow/0.02/text/stock": b"",
}
PATHS, ORDER = tuple(BODIES), (0, 0, 0, 1, 2)
SENT = {("POST" if body else "GET", path, body.decode()) for path, body in BODIES.items()}


def indexes(output: ToolOutput, name: str, spec: LoadSpec) -> list[int]:
    """Return which request each response is for; siege reports the URL of a POST request, and else the path."""
    if name == "client":
        return told_by_client(output)[0].request
    lines = filter(None, map(DRIVERS[name].parse_line, output.stdout.splitlines()))
    named = {path: index for index, path in enumerate(PATHS)}
    named |= {spec.url_of(path): index for index, path in enumerate(PATHS)}
    return [named[line.path] for line in lines]


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if driver.sends_mixes])
def test_a_load_tool_sends_all_requests_on_kept_connections_and_counts_each(name: str, tmp_path: Path) -> None:
    needed(name)
    driver = DRIVERS[name]
    mix = tuple(MixedRequest(path, Request("POST" if body else "GET", (), body)) for path, body in BODIES.items())
    with running(tmp_path) as server, isolated_tool(driver) as tool:
        requests = REQUESTS if driver.counts_requests else None
        spec = load_spec(USERS, 2.0, f"{server.url}/", requests, keep_alive=name != "siege", mix=mix, order=ORDER)
        output = output_of(tool, spec)
        sent = server.received()
    assert {(one["method"], one["path"], one["body"]) for one in sent} <= SENT
    assert len({one["connection"] for one in sent}) <= (len(sent) if name == "siege" else USERS)
    arrived = Counter(PATHS.index(one["path"]) for one in sent)
    assert abs(arrived[0] - 3 * arrived[1]) <= 3 * USERS
    assert abs(arrived[1] - arrived[2]) <= USERS
    if driver.streams_responses:
        assert Counter(indexes(output, name, spec)) == arrived
        return
    totals = driver.totals(output, spec)
    assert 0 <= len(sent) - totals.right <= USERS
    counted = {one.index: one.requests for one in totals.requests}  # wrk reports only totals
    assert all(0 <= arrived[index] - counted[index] <= USERS for index in counted)
    assert bool(counted) is (name == "locust")


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if driver.sends_mixes])
def test_users_send_different_parts_of_a_long_order(name: str, tmp_path: Path) -> None:
    needed(name)
    each, users = 200, 20
    mix = tuple(MixedRequest(path) for path in ("/slow/0.05/text/one", "/slow/0.05/text/two"))
    with running(tmp_path) as server, isolated_tool(DRIVERS[name]) as tool:
        driver, order = DRIVERS[name], (*[0] * each, *[1] * each)
        requests = each if driver.counts_requests else None
        threads = 2 if name == "wrk" else 1
        output_of(tool, load_spec(users, 0.5, f"{server.url}/", requests, threads=threads, mix=mix, order=order))
        arrived = Counter(one["path"] for one in server.received())
    assert min(arrived[one.path] for one in mix) > 0.1 * arrived.total()


@pytest.fixture
def mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    skip_version_lookup(monkeypatch)
    requests = [
        {"path": path} | ({"body": body.decode()} if body else {"status": 200}) for path, body in BODIES.items()
    ]
    write_suite(
        tmp_path, requests, f"users = {USERS}\nrequests = {REQUESTS}\nkeep_alive = true", "[expect]\nstatus = 201\n"
    )
    return tmp_path


def requests_received(folder: Path) -> set[tuple[str, str, str]]:
    return {(one["method"], one["path"], one["body"]) for one in received(folder)}


def test_each_request_of_a_run_has_a_row(mix: Path) -> None:
    result, ran = run_once(mix, "suite.toml")
    (record,), (case,) = result.records, summarize(result).cases
    assert case.availability_pct == 100, (case.reasons, ran.stderr)
    assert requests_received(mix) == SENT
    arrived = Counter(one["path"] for one in arrived_in_load(record, received(mix)))
    assert [request.path for request in case.requests] == list(PATHS)
    for request in case.requests:
        counted = record.requests.only("load").request.count(PATHS.index(request.path))
        assert counted == pytest.approx(request.share_pct / 100 * REQUESTS)
        assert 0 <= arrived[request.path] - counted <= len(record.requests.only("check")), request
    told = json.loads(invoke("report", "r.json", "--format", "json", folder=mix).stdout)["cases"][0]["requests"]
    assert [(one["method"], one["path"]) for one in told] == [(one.method, one.path) for one in case.requests]


def test_users_send_other_requests_in_each_round(mix: Path) -> None:
    ran = invoke("run", "suite.toml", "--rounds", "2", "--out", "r.json", folder=mix)
    rows = [record.requests.only("load") for record in load(mix / "r.json").records]
    sent = [[request for user, request in zip(one.user, one.request, strict=True) if user == 0] for one in rows]
    assert len(sent) == 2, ran.stderr
    assert sent[0][:20] != sent[1][:20]


def test_a_goal_of_a_capacity_search_limits_one_request(mix: Path) -> None:
    name = f"GET {PATHS[-1]}"
    words = ("--goal", f"{name} p99 < 5s", "--time", "4s", "--out", "r.json", "--quiet")
    ran = invoke("capacity", "suite.toml", *words, folder=mix)
    step = StepMetrics(load(mix / "r.json").steps[0])
    assert step.value("response_p99_s", name) is not None, ran.stderr
    assert 0 < sum(step.rows.request == PATHS.index(PATHS[-1])) < len(step.rows)
    assert "GET" in ran.stdout


@pytest.mark.parametrize("words", [("trace",), ("drill", "--fault", "leave", "--rounds", "1")], ids=" ".join)
def test_other_commands_send_the_requests_of_the_file_and_nothing_else(words: tuple[str, ...], mix: Path) -> None:
    """test_open_load.py tests the same for `capacity`."""
    ran = invoke(words[0], "suite.toml", *words[1:], "--quiet", folder=mix)
    assert ran.returncode in (0, 1, 3), ran.stderr
    assert requests_received(mix) == SENT
