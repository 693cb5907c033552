"""What siege can't do is handled before the load or named beside the figures, and the server is not blamed."""

import resource
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_specs import load_spec
from load_tool_checks import arrived_in_load, output_of, skip_version_lookup
from scripted_server import received, running, write_suite

from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.measure.load_run import with_open_files
from under_siege.record.result import load

USERS = 2
ENDS_AT_ONCE = "[servers.ends]\ncommand = 'false {port}'\n"
NOT_FOR_SIEGE = {
    "users": ("users = 1001", "wrk"),  # also if the suite sets siege
    "form": ('form = { file = "@upload.bin" }', "client"),
    "mix": ('requests_file = "requests.jsonl"', "client"),
    "keep_alive": ("keep_alive = true", "client"),
}


def write_files(folder: Path) -> None:
    (folder / "upload.bin").write_bytes(b"\0\n")
    (folder / "requests.jsonl").write_text('{"path": "/a"}\n{"path": "/b", "headers": {"A": "7"}}\n')


@pytest.mark.parametrize("what", NOT_FOR_SIEGE)
def test_another_tool_replaces_siege_unless_the_suite_sets_it_or_its_options(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_version_lookup(monkeypatch)
    keys, tool = NOT_FOR_SIEGE[what]
    write_files(tmp_path)
    (tmp_path / "suite.toml").write_text(f"[load]\n{keys}\n[ping]\npath = '/ping'\n{ENDS_AT_ONCE}")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", "--out", "r.json", folder=tmp_path)
    assert ran.returncode == 1
    result = load(tmp_path / "r.json")
    assert list(result.environment.tools) == [tool]
    assert result.tool_choice in " ".join(ran.stderr.split())
    for asked in ("options = ['--no-parser']", *(["tool = 'siege'"] if what != "users" else [])):
        (tmp_path / "suite.toml").write_text(f"[load]\n{keys}\n{asked}\n[ping]\npath = '/ping'\n{ENDS_AT_ONCE}")
        ran = invoke("run", "suite.toml", folder=tmp_path)
        assert (ran.returncode, ran.stderr.count("siege")) == (2, 1), ran.stderr


def test_a_load_tool_can_open_a_connection_for_each_user() -> None:
    """By default, many systems let a process open 1,024 files, unless it raises this limit itself."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        commands = [with_open_files(["sh", "-c", "ulimit -n"], users) for users in (100, 300)]
        low, raised = (int(subprocess.check_output(command)) for command in commands)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert low == 256
    assert raised >= 300


def test_users_of_siege_return_the_cookies_of_the_server_and_requests_in_flight_at_the_end_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_version_lookup(monkeypatch)
    suite = write_suite(tmp_path, "/slow/0.1/cookie", f"users = {USERS}\ntool = 'siege'")
    result, _ = run_once(tmp_path, str(suite), "--time", "1s")
    (record,) = result.records
    assert record.failure is None
    assert record.sets_cookies
    assert record.unlisted_losses == 0
    sent = arrived_in_load(record, received(tmp_path))
    assert any("cookie" in one["headers"] for one in sent)
    rows = record.requests.only("load")
    arrived = len(sent) - (len(record.requests.only("check")) - 1)
    outcomes = Counter(rows.outcome)
    assert {*outcomes} == {"correct", "open"}
    assert outcomes["open"] <= USERS
    assert abs(len(rows) - arrived) <= USERS


def test_siege_starts_without_the_cookies_of_another_server(tmp_path: Path) -> None:
    """siege saves cookies in a file, and does not distinguish the ports of a host."""
    with running(tmp_path) as server, isolated_tool(DRIVERS["siege"]) as tool:
        output_of(tool, load_spec(USERS, 1.0, f"{server.url}/cookie", requests=8))
        saved = tool.home / ".siege" / "cookies.txt"
        assert "session=1" in saved.read_text()
        tool.command(load_spec(USERS, 1.0, server.url, requests=8))
        assert saved.read_text() == ""
    assert {one["headers"].get("cookie") for one in server.received()} == {None, "session=1"}
