"""What siege can't do is handled before the load or named beside the figures, and the server is not blamed."""

import resource
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_tool_checks import arrived_in_load, output_of, skip_version_lookup
from scripted_server import received, running, write_suite

from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec
from under_siege.measure.load_run import with_open_files
from under_siege.record.result import load

USERS = 2
ENDS_AT_ONCE = "[servers.ends]\ncommand = 'false {port}'\n"
NOT_FOR_SIEGE = {
    "users": ("users = 1001", "wrk"),
    "form": ('form = { file = "@upload.bin" }', "client"),
    "mix": ('requests_file = "requests.jsonl"', "client"),
}


def write_files(folder: Path) -> None:
    (folder / "upload.bin").write_bytes(b"\0\n")
    (folder / "requests.jsonl").write_text('{"path": "/a"}\n{"path": "/b", "headers": {"A": "7"}}\n')


@pytest.mark.parametrize("what", NOT_FOR_SIEGE)
def test_another_tool_replaces_siege_unless_the_suite_sets_its_options(
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
    (tmp_path / "suite.toml").write_text(
        f"[load]\n{keys}\noptions = ['--no-parser']\n[ping]\npath = '/ping'\n{ENDS_AT_ONCE}"
    )
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


def test_keep_alive_with_siege_needs_a_server_that_keeps_connections_open_and_responds_correctly_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_version_lookup(monkeypatch)
    paths = {
        "keeps": "/slow/0.02/cookie",
        "closes": "/slow/0.02/close",
        "lies": "/slow/0.02/text/hello/kept/text/hallo",
    }
    suite = write_suite(tmp_path, paths, f"users = {USERS}\nrequests = 40\nkeep_alive = true")
    result, ran = run_once(tmp_path, str(suite))
    records = {record.server: record for record in result.records}
    codes = {server: record.failure and record.failure.code for server, record in records.items()}
    assert codes == {"keeps": None, "closes": "closed_connections", "lies": "wrong_answer"}
    keeps = records["keeps"]
    assert ran.returncode == 1
    assert keeps.socket_failures == 0
    assert keeps.sets_cookies
    sent = [one for one in arrived_in_load(keeps, received(tmp_path)) if one["path"] == paths["keeps"]]
    on_connection = Counter(one["connection"] for one in sent)
    assert len(on_connection) <= USERS + len(keeps.checks.sent_s) - 1
    assert max(on_connection.values()) > 1
    assert any("cookie" in one["headers"] for one in sent)


def test_siege_starts_without_the_cookies_of_another_server(tmp_path: Path) -> None:
    """siege saves cookies in a file, and does not distinguish the ports of a host."""
    with running(tmp_path) as server, isolated_tool(DRIVERS["siege"]) as tool:
        output_of(tool, LoadSpec(USERS, 1.0, f"{server.url}/cookie", requests=8))
        saved = tool.home / ".siege" / "cookies.txt"
        assert "session=1" in saved.read_text()
        tool.command(LoadSpec(USERS, 1.0, server.url, requests=8))
        assert saved.read_text() == ""
    assert {one["headers"].get("cookie") for one in server.received()} == {None, "session=1"}
