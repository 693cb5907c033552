"""Unusual servers: workers that restart, daemons, slow responses without a ping, and other addresses."""

import pytest
from bench_runs import run_once
from sample_applications import write

from under_siege.judge.round_statistics import Round
from under_siege.judge.server_processes import workers_replaced
from under_siege.record.record import Record

SUITE = """\
[load]
users = [2]
requests = 40
[servers.restarts]
command = "gunicorn fine:app -w 2 -b {host}:{port} --max-requests 5"
[servers.daemon]
command = "python daemon.py {port}"
[servers.slow]
command = "python slow.py {port}"
ready_within = 4
[servers.elsewhere]
command = "python elsewhere.py {port}"
ready_within = 4
"""
FINE = """\
import time
from wsgiref.simple_server import WSGIRequestHandler, make_server
class Silent(WSGIRequestHandler):
    def log_message(self, *_): ...
def app(environ, start_response):
    time.sleep(0.05)
    sum(range(100_000))
    start_response("200 OK", [])
    return [b"fine"]
def serve(port, app):
    make_server("127.0.0.1", int(port), app, handler_class=Silent).serve_forever()
"""
DAEMON = """\
import os, sys, time
from fine import app, serve
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        serve(sys.argv[1], app)
    os._exit(0)
os.wait()
time.sleep(600)
"""
SLOW = """\
import itertools, sys, time
from fine import app, serve
requests = itertools.count()
serve(sys.argv[1], lambda *request: time.sleep(0 if next(requests) else 5) or app(*request))
"""
ELSEWHERE = """\
import socket, sys, time
listener = socket.socket(socket.AF_INET6)
listener.bind(("::1", int(sys.argv[1])))
listener.listen()
time.sleep(60)
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Measure the servers in one run, and return their records."""
    folder = tmp_path_factory.mktemp("unusual")
    write(folder, {"fine.py": FINE, "daemon.py": DAEMON, "slow.py": SLOW, "elsewhere.py": ELSEWHERE, "s.toml": SUITE})
    result, _ = run_once(folder, "s.toml")
    return {record.server: record for record in result.records}


def test_workers_that_restart_under_load_are_counted(records: dict[str, Record]) -> None:
    assert records["restarts"].failure is None
    assert len(workers_replaced(Round(records["restarts"]))) >= 1


def test_the_cpu_time_of_a_daemon_is_measured_not_that_of_its_launcher(records: dict[str, Record]) -> None:
    assert records["daemon"].failure is None
    used_s = records["daemon"].samples.cpu_s
    assert used_s[-1] > used_s[0]  # the launcher only sleeps


def test_readiness_without_a_ping_waits_for_one_task_once_the_server_listens(records: dict[str, Record]) -> None:
    assert records["slow"].failure is None


def test_a_server_that_listens_only_on_another_address_is_told_which_one_to_use(records: dict[str, Record]) -> None:
    assert "::1" in records["elsewhere"].failure.message
    assert "127.0.0.1" in records["elsewhere"].failure.message
