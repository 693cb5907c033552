"""`bench.py run --jobs`: each user posts a job and polls for its result."""

import json
from collections import Counter
from pathlib import Path

import pytest
from command import invoke
from load_tool_checks import arrived_in_load, skip_version_lookup
from scripted_server import received, write_suite

from under_siege.judge.ranking import summarize
from under_siege.record.result import load

USERS = 3
RESULTS = {"done": "/slow/0.1/text/done", "lost": "/slow/0.02/text/done/after/12/status/404"}


def test_jobs_are_counted_and_take_until_their_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server loses jobs once the bench has verified its response."""
    skip_version_lookup(monkeypatch)
    write_suite(tmp_path, {name: f"/job{path}" for name, path in RESULTS.items()}, f"users = {USERS}")
    options = ("--jobs", "--rounds", "1", "--time", "2s", "--out", "r.json")
    ran = invoke("run", "suite.toml", *options, folder=tmp_path)
    result, log = load(tmp_path / "r.json"), received(tmp_path)
    cases = {case.server: case for case in summarize(result).cases}
    for record in result.records:
        assert (record.tool, record.values["style"], record.unlisted_losses) == ("jobs", "jobs", 0)
        path = RESULTS[record.server]
        arrived = [(one["method"], one["path"]) for one in arrived_in_load(record, log)]
        assert {*arrived} == {("POST", f"/job{path}"), ("GET", path)}
        rows, checks = record.requests.only("load"), record.requests.only("check")
        outcomes = Counter(rows.outcome)
        ended, is_whole = len(rows) - outcomes["open"], record.server == "done"
        assert 0 <= arrived.count(("GET", path)) - ended - (len(checks) - 1) <= USERS
        assert (
            0 <= len(rows) - (arrived.count(("POST", f"/job{path}")) - (len(checks) - 1)) <= outcomes["open"] <= USERS
        )
        assert {*outcomes} <= ({"correct", "open"} if is_whole else {"correct", "wrong", "open"})
        assert is_whole is (not outcomes["wrong"])
        if is_whole:
            times_s = zip(rows.sent_s, rows.ended_s, rows.outcome, strict=True)
            assert min((end_s - sent_s for sent_s, end_s, outcome in times_s if outcome == "correct"), default=1) >= 0.1
            assert {*checks.outcome} == {"correct"}
    assert cases["lost"].availability_pct != 100
    assert ran.returncode in (1, 3), ran.stderr
    told = json.loads(invoke("report", "r.json", "--format", "json", folder=tmp_path).stdout)["cases"]
    assert {case["parameters"]["style"] for case in told} == {"jobs"}
