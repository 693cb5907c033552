"""Nothing follows a redirect, so no server receives a request unless the command line or the suite names it."""

import contextlib
import itertools
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from command import invoke
from conftest import thorough
from load_tool_checks import needed
from tool_recordings import Quiet

from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec
from under_siege.record.result import load

STATUSES = (201, 301, 302, 303, 307, 308)
SCRIPTS = {
    "locust": "def visit(user):\n    user.client.get(user.url)\n    user.client.post(user.url, allow_redirects=True)",
    "stressor": "- {activity: GetRequest, url: $(url), monitor: true}\n- {activity: PostRequest, url: $(url), data: a}",
}
TOOLS = [(name, "") for name in DRIVERS if name != "jobs"]
CLIENTS = [("capacity", "--time", "3s"), ("trace",), ("run", "--style", "jobs", "--time", "1s")]


class Server(Quiet):
    """A server that counts the requests by status; with a list of statuses, its responses redirect to another URL."""

    def __init__(self, statuses: tuple[int, ...] = (200,), location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Redirect)
        self.answers, self.statuses, self.location = Counter[int](), itertools.cycle(statuses), location
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Redirect(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = next(self.server.statuses)
        self.server.answers[status] += 1
        self.send_response(status)
        self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def other() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.mark.parametrize(("name", "script"), [*TOOLS, *SCRIPTS.items()], ids=lambda text: text[:8])
def test_load_tools_follow_no_redirect(
    name: str, script: str, other: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(name)
    monkeypatch.setenv("http_proxy", other.url)
    shown = (tmp_path / "shown").open("w")
    with shown, serving(Server(STATUSES, other.url)) as redirecting, isolated_tool(DRIVERS[name]) as tool:
        driver = DRIVERS[name]
        requests = 60 if driver.counts_requests or driver.waits_to_begin else None
        command = tool.command(LoadSpec(2, 2.0, redirecting.url, requests=requests, script=script))
        output = {"stdout": shown, "stderr": subprocess.STDOUT, "env": tool.environment()}
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **output) as process:
            try:
                if driver.waits_to_begin:
                    process.stdin.write("go\n")
                    process.stdin.flush()  # without closing it, because that would stop the tool
                process.wait(60)
            finally:
                process.kill()
    assert set(redirecting.answers) == set(STATUSES), (tmp_path / "shown").read_text()
    assert not other.answers


@pytest.mark.parametrize("status", thorough(STATUSES, quick=(303, 307)))
def test_the_bench_and_siege_follow_no_redirect(status: int, other: Server, tmp_path: Path) -> None:
    """The bench checks readiness and responses, and sends pings."""
    with serving(Server((status,), other.url)) as redirecting:
        (tmp_path / "suite.toml").write_text(
            f"[load]\nusers = 2\n[expect]\nstatus = {status}\n[ping]\npath = '/ping'\n"
            f"[servers.one]\nurl = '{redirecting.url.rstrip('/')}'\n"
        )
        ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", "--out", "r.json", folder=tmp_path)
    (record,) = load(tmp_path / "r.json").records
    assert set(record.transactions.status) == {status}, ran.stdout + ran.stderr
    assert set(record.pings.problem) == {""}
    assert set(record.checks.code) == {""}
    assert not other.answers


@pytest.mark.parametrize("words", CLIENTS)
def test_the_clients_of_the_bench_follow_no_redirect(words: tuple[str, ...], other: Server, tmp_path: Path) -> None:
    with serving(Server((303,), other.url)) as redirecting:
        (tmp_path / "suite.toml").write_text(
            f"[expect]\nstatus = 303\n[ping]\npath = '/ping'\n[servers.one]\nurl = '{redirecting.url.rstrip('/')}'\n"
        )
        ran = invoke(words[0], "suite.toml", *words[1:], folder=tmp_path)
    assert ran.returncode in (0, 1, 3), ran.stdout + ran.stderr
    assert set(redirecting.answers) == {303}
    assert not other.answers


def test_no_job_is_fetched_from_another_server(other: Server, tmp_path: Path) -> None:
    with serving(Server((202,), other.url)) as redirecting:
        (tmp_path / "suite.toml").write_text(f"[servers.one]\nurl = '{redirecting.url.rstrip('/')}'\n")
        ran = invoke("run", "suite.toml", "--style", "jobs", "--time", "1s", folder=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "names another server" in ran.stdout
    assert not other.answers
