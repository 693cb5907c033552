"""Each load tool against the scripted server: it sends the requests of the suite, and counts all responses."""

import hashlib
import os
from collections import Counter
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import thorough
from load_specs import load_spec
from load_tool_checks import arrived_in_load, needed, output_of, skip_version_lookup, told_by_client
from scripted_server import received, running, write_suite

from under_siege.host.programs import isolated_tool
from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import Request, RightAnswer
from under_siege.load.tool import ToolOutput
from under_siege.record.record import Record

ALL = [name for name in DRIVERS if name != "jobs"]
USERS, REQUESTS = 2, 60
# Of twelve responses, eight are right, two have a wrong body, one has status 500, and one redirects.
PATH = "/slow/0.02/text/hello/every/3/text/hallo/every/2/status/500/every/4/redirect/elsewhere"
HEADERS = (("X-Shop", "7; a='b'"), ("Content-Type", "application/json"))
RIGHT = (RightAnswer(answer=b"hello"),)
TEXT = b'{"a": "it\'s \\"1\\" \\\\ %s"}'
BODIES = {"siege": TEXT, "stressor": TEXT, "client": os.urandom(2_000_000) + b"\n"}  # the others send any bytes
SCRIPTS = {
    "locust": "def visit(user):\n    user.client.get(user.url)\n    user.client.post(user.url, allow_redirects=True)",
    "stressor": "- {activity: GetRequest, url: $(url), monitor: true}\n- {activity: PostRequest, url: $(url), data: a}",
}


def kinds(count: int) -> Counter[str]:
    """Return how many of so many responses on PATH are of each kind."""
    return Counter(
        "right" if number % 3 else "contents" if number % 2 else "error" if number % 4 else "redirect"
        for number in range(1, count + 1)
    )


def reported(output: ToolOutput, name: str) -> Counter[tuple[str, int]]:
    """Return the outcomes, if the tool knows them, and statuses of a tool that reports every response."""
    if name == "client":
        rows, _ = told_by_client(output)
        return Counter(zip(rows.outcome, rows.status, strict=True))
    responses = filter(None, map(DRIVERS[name].parse_line, output.stdout.splitlines()))
    return Counter(("", response.status) for response in responses)


@pytest.mark.parametrize("name", ALL)
def test_each_load_tool_sends_the_request_follows_no_redirect_and_counts_each_response(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(name)
    body, driver = BODIES.get(name, TEXT + b"\0\xff\n"), DRIVERS[name]
    requests = REQUESTS if driver.counts_requests else None
    put = Request("PUT", HEADERS, body)
    with running(tmp_path) as server, isolated_tool(driver) as tool:
        monkeypatch.setenv("http_proxy", server.url)  # the log would show URLs instead of paths
        spec = load_spec(USERS, 2.0, server.url + PATH, requests=requests, request=put, expected=b"hello", rights=RIGHT)
        output = output_of(tool, spec)
        sent = server.received()
    digest = hashlib.sha256(body).hexdigest()
    assert {(one["method"], one["path"], one["sha256"]) for one in sent} == {("PUT", PATH, digest)}
    assert {one["headers"]["x-shop"] for one in sent} == {"7; a='b'"}
    assert {one["headers"]["content-type"] for one in sent} == {"application/json"}
    assert len({one["connection"] for one in sent}) == len(sent)
    expected = kinds(len(sent))
    if requests:
        assert len(sent) == requests
    if driver.streams_responses:
        right, wrong = ("correct", "wrong") if name == "client" else ("", "")  # siege does not compare bodies
        answered = Counter({(right, 200): expected["right"]})
        answered += Counter({(wrong, 200): expected["contents"], (wrong, 500): expected["error"]})
        assert reported(output, name) == answered + Counter({(wrong, 302): expected["redirect"]})
        return
    totals = driver.totals(output, spec)
    wrong, contents = expected["error"], expected["contents"] if name in ("wrk", "locust") else 0  # they compare bodies
    wrong += contents + (0 if name == "stressor" else expected["redirect"])
    contents += expected["redirect"] if name == "wrk" else 0  # to which the status is right
    unfinished = 0 if requests else USERS
    assert 0 <= len(sent) - totals.right - totals.wrong_status <= unfinished, totals
    assert 0 <= wrong - totals.wrong_status <= unfinished
    assert 0 <= contents - totals.wrong_contents <= unfinished
    assert (totals.unanswered, totals.connect_errors) == (0, 0)
    assert totals.p50_s is None or 0.02 <= totals.p50_s <= totals.p95_s <= totals.p99_s <= totals.max_s


@pytest.mark.parametrize("name", thorough(SCRIPTS, quick=()))
def test_scripts_of_load_tools_follow_no_redirect(name: str, tmp_path: Path) -> None:
    needed(name)
    path = "/redirect/elsewhere"
    with running(tmp_path) as server, isolated_tool(DRIVERS[name]) as tool:
        output_of(tool, load_spec(USERS, 2.0, server.url + path, script=SCRIPTS[name]))
        sent = {(one["method"], one["path"]) for one in server.received()}
    assert sent == {("GET", path), ("POST", path)}


@pytest.mark.parametrize("name", ["siege", "ab", "wrk"])
def test_each_load_tool_reports_its_version(name: str) -> None:
    """test_load_tool_totals.py tests the versions of the tools in Python, which start slowly."""
    needed(name)
    with isolated_tool(DRIVERS[name]) as tool:
        assert tool.version()[0].isdigit()


SERVERS = {  # what the tool gets, and the bench only of `right`
    "right": "/bytes/100000/gzip/chunked/slow/0.02",
    "half": "/slow/0.02/text/hello/tool/every/2/status/500",
    "wrong": "/slow/0.02/text/hello/tool/text/hallo",
    "empty": "/slow/0.02/text/hello/tool/bytes/0",
    "resets": "/slow/0.02/text/hello/tool/every/3/reset",
    "dies": "/slow/0.02/text/hello/tool/every/4/exit/3",
}
FAILED = {"wrong": "wrong_answer", "empty": "wrong_answer", "dies": "died"}
OF_TOOL = {
    "siege": ["right", "half", "wrong", "resets"],
    "ab": ["right", "empty", "resets", "dies"],
    "wrk": ["right", "half"],
    "locust": ["right"],
    "stressor": ["right"],
    "client": ["right"],
}


@pytest.mark.parametrize("name", ALL)
def test_a_run_with_each_load_tool_counts_what_the_server_received_and_detects_faults(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(name)
    skip_version_lookup(monkeypatch)
    length = f"requests = {REQUESTS}" if DRIVERS[name].counts_requests else 'time = "2s"'
    load = f'users = {USERS}\n{length}\ntool = "{name}"\nheaders = {{ Accept-Encoding = "gzip" }}'
    suite = write_suite(tmp_path, {server: SERVERS[server] for server in OF_TOOL[name]}, load)
    result, ran = run_once(tmp_path, str(suite))
    has_failed = {*FAILED} & {*OF_TOOL[name]}
    assert ran.returncode in ([1] if has_failed else [0, 3])
    log, records = received(tmp_path), {record.server: record for record in result.records}
    check_right(records["right"], log)
    for server in {"half", "resets"} & {*records}:
        check_counts(records[server], log)
    for case in summarize(result).cases:
        assert (case.verdict == "failed") is (case.server in FAILED)
        code = "" if case.server == "right" else FAILED.get(case.server, "availability")
        assert not code or code in [reason.code for reason in case.reasons], (case.server, case.reasons)
        assert code or case.availability_pct == 100


def check_right(record: Record, log: list[dict[str, object]]) -> None:
    """Every response is compressed differently, and in chunks, except for ab, which speaks HTTP/1.0."""
    assert record.failure is None
    assert (record.content_encoding, record.browser_encoding) == ("gzip", "gzip")
    assert {*record.requests.only("check").outcome} == {"correct"}
    check_counts(record, log)
    rows = record.requests.only("load")
    assert sum(record.bursts.wrong_status) == record.unlisted_losses == 0
    assert {*rows.outcome} <= {"correct", "open"}
    sizes = [size for size, outcome in zip(rows.size_bytes, rows.outcome, strict=True) if outcome == "correct"]
    sizes += [size / right for size, right in zip(record.bursts.body_bytes, record.bursts.right, strict=True) if size]
    assert bool(sizes) is (record.tool not in ("locust", "stressor"))
    assert max(sizes, default=0) < 1000  # as sent


def check_counts(record: Record, log: list[dict[str, object]]) -> None:
    """Each request that arrived has an outcome (conservation); a tool with totals does not count those in flight."""
    arrived = [one for one in arrived_in_load(record, log) if one["path"] == SERVERS[record.server]]
    checks = len(record.requests.only("check")) - 1
    sent = len(arrived) - checks
    bursts, outcomes = record.bursts, Counter(record.requests.only("load").outcome)
    right = sum(bursts.right) + outcomes["correct"]
    failed = sum(bursts.wrong_status) + sum(bursts.unanswered) + outcomes["wrong"] + outcomes["lost"]
    failed += record.unlisted_losses
    in_flight = 0 if DRIVERS[record.tool].counts_requests else USERS * len(bursts.right)
    assert 0 <= sent - right - failed <= in_flight, (record.server, sent, right, failed)
    assert {*outcomes} <= {"correct", "wrong", "lost", "open"}
    assert outcomes["open"] <= (USERS if record.tool == "siege" else 0)  # it reports no request in flight
    bad = {"half": 2, "resets": 3}.get(record.server)
    broken = sum(not one["bench"] and bad is not None and one["number"] % bad == 0 for one in arrived)
    assert 0 <= broken - failed <= in_flight + checks, (record.server, broken, failed)
    assert right > 0


@pytest.mark.parametrize("name", ["client", "wrk", "locust"])
def test_each_request_is_counted_once_if_the_server_closes_connections_silently(name: str, tmp_path: Path) -> None:
    """The client repeats a request that does not arrive; to the others, it is lost."""
    needed(name)
    driver = DRIVERS[name]
    with running(tmp_path) as server, isolated_tool(driver) as tool:
        url, count = f"{server.url}/slow/0.02/text/hello/hang_up", REQUESTS if driver.counts_requests else None
        spec = load_spec(USERS, 2.0, url, count, keep_alive=True, expected=b"hello", rights=RIGHT)
        output = output_of(tool, spec)
        arrived = len(server.received())
    if name == "client":
        assert reported(output, name) == {("correct", 200): REQUESTS}
        assert arrived == REQUESTS
        return
    totals = driver.totals(output, spec)
    assert 0 <= arrived - totals.right <= USERS, totals
    assert totals.wrong_status == 0
