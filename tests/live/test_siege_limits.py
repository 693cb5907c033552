"""What a load tool can't do is handled before the load or named beside the figures, and the server is not blamed."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from command import CommandResult, invoke
from conftest import ROOT
from load_tool_checks import needed, skip_version_lookup
from tool_recordings import Quiet, recorded

from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec
from under_siege.record.record import Record
from under_siege.record.result import load

SERVER = """
import io, itertools, socket, struct, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version, numbers = sys.argv[2], itertools.count()

    def do_GET(self):
        is_siege = "siege" in str(self.headers["User-Agent"]).lower()
        if sys.argv[3] == "resets" and is_siege and next(self.numbers) % 3 == 2:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # sends a reset
            self.close_connection, self.wfile = True, io.BytesIO()
            return
        self.send_response(200)
        if sys.argv[3] == "cookies":
            self.send_header("Set-Cookie", "session=1; Path=/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_): pass

class Server(ThreadingHTTPServer):
    request_queue_size = 2048

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def run(folder: Path, load_keys: str, behaviour: str = "plain", protocol: str = "HTTP/1.1") -> CommandResult:
    (folder / "server.py").write_text(SERVER)
    (folder / "suite.toml").write_text(
        f"[load]\n{load_keys}\n[ping]\npath = '/ping'\n"
        f"[servers.one]\ncommand = '{sys.executable} server.py {{port}} {protocol} {behaviour}'\n"
    )
    with pytest.MonkeyPatch.context() as patched:
        skip_version_lookup(patched)
        return invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", "--out", "r.json", folder=folder)


def record_in(folder: Path) -> Record:
    (record,) = load(folder / "r.json").records
    return record


def test_wrk_replaces_siege_if_there_are_too_many_users_for_siege(tmp_path: Path) -> None:
    needed("wrk")
    ran = run(tmp_path, "users = 1100")
    record = record_in(tmp_path)
    assert "siege supports at most 1,000 users, so this run with 1,100 users uses wrk" in ran.stderr
    assert record.tool == "wrk"
    assert sum(record.bursts.right) > 0, ran.stdout


def test_more_users_than_siege_supports_are_rejected_if_the_suite_sets_options_of_siege(tmp_path: Path) -> None:
    ran = run(tmp_path, "users = 1001\noptions = ['--no-parser']")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].endswith(
        'siege supports at most 1,000 users; set tool = "wrk", or use fewer users'
    )


def test_a_load_tool_can_open_a_connection_for_each_user() -> None:
    """By default, many systems let a process open 1,024 files, unless it raises this limit itself."""
    code = (
        "import resource, subprocess; from under_siege.measure.load_run import with_open_files\n"
        "files = resource.RLIMIT_NOFILE; resource.setrlimit(files, (256, resource.getrlimit(files)[1]))\n"
        "for users in (100, 300): subprocess.run(with_open_files(['sh', '-c', 'ulimit -n'], users), check=True)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    low, raised = map(int, ran.stdout.split())
    assert low == 256
    assert raised >= 300


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_keep_alive_with_siege_needs_a_server_that_keeps_connections_open(protocol: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "users = 2\nkeep_alive = true", protocol=protocol)
    record = record_in(tmp_path)
    if protocol == "HTTP/1.1":
        assert record.failure is None, ran.stdout
        assert record.socket_failures == 0
        return
    assert ran.returncode == 1
    assert record.failure.code == "closed_connections"
    assert 'set keep_alive = false, or tool = "wrk"' in ran.stdout


@pytest.mark.parametrize("options", [("--delay=1",), ("--delay", "1"), ("-d1",), ("-d", "1"), ("--del=0.5",)])
def test_pauses_between_requests_are_rejected_because_siege_ignores_them(options: tuple[str, ...]) -> None:
    refusal = DRIVERS["siege"].refusal(LoadSpec(2, 1.0, "", options=options))
    assert "remove it from load.options" in refusal
    assert "\n" not in refusal
    assert DRIVERS["siege"].refusal(LoadSpec(2, 1.0, "", options=("--debug", "-D", "--no-parser"))) == ""


def test_errors_of_siege_are_shown_beside_the_failures_that_they_explain(tmp_path: Path) -> None:
    ran = run(tmp_path, "users = 2", "resets")
    record = record_in(tmp_path)
    assert record.socket_failures > 0, ran.stdout
    assert record.tool_errors
    assert f"siege reported: {record.tool_errors[0]}" in " ".join(ran.stdout.split())  # long lines are wrapped


@pytest.mark.parametrize(
    ("name", "way", "error"),
    [
        ("ab", "refused", "receive errors"),
        ("ab", "half_500", ""),
        ("wrk", "refused", "unable to connect"),
        ("wrk", "closed", "read errors"),
        ("wrk", "right", ""),
        ("locust", "refused", "ConnectionRefused"),
        ("locust", "right", ""),
        ("stressor", "refused", "NewConnectionError"),
        ("stressor", "closed", "Connection aborted"),
        ("stressor", "right", ""),
    ],
)
def test_errors_of_other_load_tools_are_found_in_their_output(name: str, way: str, error: str) -> None:
    output = recorded(name, way)
    errors = DRIVERS[name].errors("\n".join([output.stdout, output.stderr, *output.files.values()]))
    assert any(error in one for one in errors) if error else errors == []


@pytest.mark.parametrize(
    ("tool", "note"),
    [
        ("siege", "sets cookies; each user of siege returned them, which users of ab and wrk don't"),
        ("wrk", "sets cookies; users of wrk don't return them, but users of siege and locust do"),
    ],
)
def test_a_note_says_whether_users_return_the_cookies_of_a_server(tool: str, note: str, tmp_path: Path) -> None:
    needed(tool)
    assert note in run(tmp_path, f"tool = '{tool}'\nusers = 2", "cookies").stdout


def test_siege_sends_no_cookies_of_another_server() -> None:
    """siege saves cookies in a file, and does not distinguish the ports of a host."""
    received: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers["Cookie"])
            self.send_response(200)
            if isinstance(self.server, Setting):
                self.send_header("Set-Cookie", "a=1; Path=/; Expires=Wed, 21 Oct 2037 07:28:00 GMT")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Setting(Quiet):
        """A server that sets a cookie."""

    with isolated_tool(DRIVERS["siege"]) as tool:
        for server_class in (Setting, Quiet):
            received.clear()
            with serving(server_class(("127.0.0.1", 0), Handler)) as url:
                command = tool.command(LoadSpec(2, 1.0, url, requests=8))
                subprocess.run(command, env=tool.environment(), capture_output=True, timeout=30, check=True)
            assert (server_class is Setting) == any(received)


@contextlib.contextmanager
def serving(server: Quiet) -> Iterator[str]:
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
