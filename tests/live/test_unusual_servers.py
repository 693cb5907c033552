"""Unusual servers: workers that restart, daemons, slow responses without a ping, and other addresses."""

from collections.abc import Callable
from pathlib import Path

from command import CommandResult
from sample_applications import FLASK, write

from under_siege.record.result import load

RunCli = Callable[..., CommandResult]


RESTARTS = """\
[load]
path = "/report"
users = [4]
[axes]
workers = [2]
[servers.gunicorn]
command = "gunicorn flask_shop:create_app() -w {workers} -b {host}:{port} --max-requests 50"
"""


def test_workers_that_restart_under_load_are_counted_and_named(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"flask_shop.py": FLASK, "s.toml": RESTARTS.replace('"/report"', '"/v1/report"')})
    ran = run_cli("run", "s.toml", "--time", "2s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.workers_replaced > 1
    assert f"{record.workers_replaced} workers were replaced under load" in ran.stdout


DAEMON = """\
import os, sys, time
from wsgiref.simple_server import WSGIRequestHandler, make_server
class Silent(WSGIRequestHandler):
    def log_message(self, *_): ...
def app(environ, start_response):
    sum(range(100_000))
    start_response("200 OK", [])
    return [b"fine"]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        make_server("127.0.0.1", int(sys.argv[1]), app, handler_class=Silent).serve_forever()
    os._exit(0)
os.wait()
time.sleep(600)
"""


def test_the_cpu_time_of_a_daemon_is_measured_not_that_of_its_launcher(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"daemon.py": DAEMON, "s.toml": '[servers.daemon]\ncommand = "python daemon.py {port}"\n'})
    ran = run_cli("run", "s.toml", "--users", "2", "--time", "1s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None, ran.stdout
    used_s = record.samples.cpu_s[-1] - record.samples.cpu_s[0]
    assert used_s > 0.2 * record.load_s


SLOW = """\
import time
def app(environ, start_response):
    time.sleep(1.5)
    start_response("200 OK", [])
    return [b"fine"]
"""
LATE = """\
[load]
users = [2]
time = "2s"
[servers.slow]
command = "python -m waitress --listen={host}:{port} slow:app"
ready_within = 1.2
"""


def test_readiness_without_a_ping_waits_for_one_task_once_the_server_listens(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"slow.py": SLOW, "s.toml": LATE})
    run_cli("run", "s.toml", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None


ELSEWHERE = """\
import socket, sys, time
listener = socket.socket(socket.AF_INET6)
listener.bind(("::1", int(sys.argv[1])))
listener.listen()
time.sleep(60)
"""


def test_a_server_that_listens_only_on_another_address_is_told_which_one_to_use(
    tmp_path: Path, run_cli: RunCli
) -> None:
    suite = '[ping]\nready_within = 1\n[servers.x]\ncommand = "python elsewhere.py {port}"\n'
    write(tmp_path, {"elsewhere.py": ELSEWHERE, "s.toml": suite})
    run_cli("run", "s.toml", "--time", "1s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert "at another address, such as ::1: expected 127.0.0.1" in record.failure.message
