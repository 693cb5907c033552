"""`--workers auto` under a memory limit. The search itself is tested in tests/unit/judge/test_worker_search.py."""

import sys
from pathlib import Path

import pytest
from command import invoke

from under_siege.record.record import OUT_OF_MEMORY
from under_siege.record.result import load

SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.05)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")
    def log_message(self, *_): pass

kept = b"x" * 60_000_000 * int(sys.argv[2])  # the memory of this many workers
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_the_search_ends_at_the_first_number_of_workers_that_exceeds_the_memory_limit(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "suite.toml").write_text(
        f"[load]\nusers = 2\ntime = '3s'\n[axes]\nworkers = 'auto'\n"
        f"[servers.waits]\ncommand = '{sys.executable} server.py {{port}} {{workers}}'\n"
    )
    ran = invoke("run", "suite.toml", "--memory", "120MB", "--quiet", "--out", "r.json", folder=tmp_path)
    if "cgroup" in ran.stderr:
        pytest.skip(ran.stderr)
    records = load(tmp_path / "r.json").records
    codes = {(record.values["workers"], record.failure and record.failure.code) for record in records}
    assert codes == {(1, None), (2, OUT_OF_MEMORY)}, ran.stderr


@pytest.mark.parametrize("command", [("run", "4", "--rounds", "2"), ("capacity", "4"), ("drill", "4"), ("trace", "4")])
def test_a_search_is_refused_where_the_number_of_rounds_is_fixed(command: tuple[str, ...]) -> None:
    ran = invoke(*command, "--workers", "auto")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "auto" in ran.stderr
