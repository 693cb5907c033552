"""Users who pause, and requests that arrive at a given rate."""

import sys
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_tool_checks import needed

from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import Load, parse_pause, parse_rate_per_s
from under_siege.load.tool import LoadSpec
from under_siege.record.record import Record

USERS, THREADS, PAUSE_S, ARRIVALS_PER_S = 40, 4, 0.5, 20
WSGI = """
import time
def app(environ, start_response):
    if environ["PATH_INFO"] == "/":
        time.sleep(0.02)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
# Each of its threads serves one connection until the client closes it; pings have threads of their own.
HOLDS_CONNECTIONS = f"""
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
threads = threading.Semaphore({THREADS})

class Handler(BaseHTTPRequestHandler):
    protocol_version, has_thread = "HTTP/1.1", False
    def do_GET(self):
        if self.path == "/" and not self.has_thread:
            threads.acquire()
            self.has_thread = True
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def finish(self):
        super().finish()
        if self.has_thread:
            threads.release()
    def log_message(self, *_): pass

class Server(ThreadingHTTPServer):
    request_queue_size = 128

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
ONE_AT_A_TIME = HOLDS_CONNECTIONS.replace("threads.acquire()", "threads.acquire(); time.sleep(1)")
GTHREAD = f"-m gunicorn --worker-class gthread --threads {THREADS} --bind 127.0.0.1:{{port}} app:app"


def measured(folder: Path, load_keys: str, command: str = "server.py {port}") -> Record:
    (folder / "app.py").write_text(WSGI)
    (folder / "suite.toml").write_text(
        f"[load]\n{load_keys}\n[ping]\npath = '/ping'\n[servers.one]\ncommand = '{sys.executable} {command}'\n"
    )
    result, ran = run_once(folder, "suite.toml", "--time", "3s")
    (record,) = result.records
    (case,) = summarize(result).cases
    assert {reason.code for reason in case.reasons} <= {"pings", "generator"}, (case.reasons, ran.stderr)
    return record


@pytest.mark.parametrize("tool", ["", "wrk", "locust"])
def test_users_who_pause_load_gthread_as_littles_law_predicts(tool: str, tmp_path: Path) -> None:
    """40 users share 4 threads without a problem, because gthread needs no thread for an idle connection."""
    if tool:
        needed(tool)
    tool_key = f'tool = "{tool}"\n' if tool else ""
    record = measured(tmp_path, f'{tool_key}users = {USERS}\npause = "{PAUSE_S}s"\nkeep_alive = true', GTHREAD)
    assert record.tool == (tool or "client")
    (case,) = summarize(run_once(tmp_path, "suite.toml", "--time", "3s")[0]).cases
    p50_s = case.response_s.p50
    assert p50_s >= 0.02
    expected_per_s = USERS / (PAUSE_S + p50_s)
    assert case.rate_per_s.mean == pytest.approx(expected_per_s, rel=0.2)


def test_idle_connections_occupy_the_threads_of_a_server_that_serves_one_connection_per_thread(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(HOLDS_CONNECTIONS)
    load = f'users = {USERS}\npause = "{PAUSE_S}s"\nkeep_alive = '
    kept = run_without_checks(tmp_path, load + "true")
    closed = run_without_checks(tmp_path, load + "false")
    answered = {
        is_kept: {user for user, status in zip(of.user, of.status, strict=True) if status == 200}
        for is_kept, of in ((True, kept.transactions), (False, closed.transactions))
    }
    assert len(answered[True]) <= THREADS
    assert len(answered[False]) > 5 * THREADS


def run_without_checks(folder: Path, load_keys: str) -> Record:
    (folder / "suite.toml").write_text(
        f"[load]\n{load_keys}\n[ping]\npath = '/ping'\n[servers.one]\ncommand = '{sys.executable} server.py {{port}}'\n"
    )
    (record,) = run_once(folder, "suite.toml", "--time", "2s")[0].records
    return record


def test_requests_arrive_at_the_given_rate(tmp_path: Path) -> None:
    record = measured(tmp_path, f'arrivals = "{ARRIVALS_PER_S}/s"', GTHREAD)
    assert "users" not in record.values
    assert record.values["arrivals"] == "20/s"
    assert len(record.transactions.status) == pytest.approx(3 * ARRIVALS_PER_S, abs=8)


def test_requests_arrive_even_if_earlier_ones_are_unanswered(tmp_path: Path) -> None:
    """The server answers at most 4 requests a second, so most of the requests wait until the load ends."""
    (tmp_path / "server.py").write_text(ONE_AT_A_TIME)
    record = run_without_checks(tmp_path, f'arrivals = "{ARRIVALS_PER_S}/s"')
    statuses = record.transactions.status
    assert 1.6 * ARRIVALS_PER_S <= len(statuses) <= 2 * ARRIVALS_PER_S + 2  # on a busy machine, the client starts late
    assert statuses.count(0) > ARRIVALS_PER_S
    assert statuses.count(200) <= 3 * THREADS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--pause", "soon"), "--pause 'soon': expected a pause such as 1s, 0.5s-2s or exponential 1s"),
        (("--pause", "2s-1s"), "expected a pause"),
        (("--arrivals", "20"), "--arrivals '20': expected a rate such as 20/s"),
        (("--arrivals", "20/s", "--pause", "1s"), "remove --pause"),
        (("--arrivals", "20/s", "--users", "3"), "remove --users"),
    ],
)
def test_an_impossible_pause_or_rate_causes_a_one_line_error(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    ran = invoke("run", "2", *words, folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert why in ran.stderr


def test_pauses_and_rates_are_parsed() -> None:
    assert [parse_pause("1s").mean_s, parse_pause("0.5s-2s").mean_s, parse_pause("0s-2s").mean_s] == [1.0, 1.25, 1.0]
    assert (parse_pause("exponential 500ms").mean_s, parse_pause("exponential 500ms").is_exponential) == (0.5, True)
    assert [parse_rate_per_s(text) for text in ("20/s", "90/min", "0/s", "20/day")] == [20.0, 1.5, None, None]


def test_a_tool_that_can_neither_pause_nor_send_at_a_rate_says_which_tool_can() -> None:
    pausing = LoadSpec(4, 1.0, "http://here/", pause=parse_pause("1s"))
    arriving = LoadSpec.of(Load(arrivals_per_s=20.0), 0)
    for name in ("siege", "ab", "stressor", "jobs"):
        assert "can't pause between requests; use wrk, locust or client" in DRIVERS[name].refusal(pausing)
        assert 'set tool = "client"' in DRIVERS[name].refusal(arriving)
    assert "set keep_alive = true" in DRIVERS["wrk"].refusal(pausing)
    assert DRIVERS["client"].refusal(pausing) == DRIVERS["client"].refusal(arriving) == ""
