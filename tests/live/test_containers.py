"""Servers whose command is `docker run`: a stand-in for docker starts them outside of the command's process tree."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command import invoke
from conftest import ROOT, SUPPORT, bench_command, wait_until

from under_siege.drill.injection import ELSEWHERE
from under_siege.host.limits import own_controllers
from under_siege.host.process_tree import is_running
from under_siege.record.result import load

BALLAST_MB = 60
SERVER = f"""
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
ballast = bytearray({BALLAST_MB}_000_000)
ballast[::4096] = b"x" * len(ballast[::4096])

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/":
            sum(range(500_000))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_): pass

class Server(ThreadingHTTPServer):
    request_queue_size = 128

with open(__file__ + ".pid", "w") as file:
    file.write(str(os.getpid()))
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
FEW = ("--rounds", "1", "--time", "1s", "--quiet", "--out", "r.json")


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield environment variables with which `docker` is the stand-in, whose daemon runs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(f'#!/bin/sh\nexec {sys.executable} {SUPPORT / "fake_docker.py"} "$@"\n')
    (programs / "docker").chmod(0o755)
    path = str(tmp_path / "daemon")
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_DOCKER": path}
    daemon = subprocess.Popen([sys.executable, str(SUPPORT / "fake_docker.py"), "daemon", path], cwd=ROOT)
    try:
        wait_until(lambda: Path(path).exists())
        yield environment
    finally:
        daemon.terminate()
        daemon.wait(30)


def write_suite(folder: Path, **commands: str) -> None:
    """Write a suite with these servers; each command is the part before the published port, such as `docker run`."""
    folder.mkdir(exist_ok=True)
    (folder / "server.py").write_text(SERVER)
    servers = "".join(
        f"[servers.{name}]\ncommand = '{command} -p 127.0.0.1:{{port}}:1{{port}} image "
        f"{sys.executable} {folder / 'server.py'} 1{{port}}'\n"
        for name, command in commands.items()
    )
    (folder / "suite.toml").write_text(f"[load]\nusers = 4\n[ping]\npath = '/ping'\n{servers}")


def server_is_running(folder: Path) -> bool:
    """Return whether the server inside the container is running."""
    pid = folder / "server.py.pid"
    return pid.exists() and pid.read_text() != "" and is_running(int(pid.read_text()))


def can_limit() -> bool:
    cpu = own_controllers().get("cpu")
    return cpu is not None and os.access(cpu.folder, os.W_OK)


@pytest.mark.skipif(not can_limit(), reason="no cgroup can be created here")
def test_a_container_is_measured_by_its_own_processes_and_cgroup(docker: dict[str, str], tmp_path: Path) -> None:
    write_suite(tmp_path, contained="docker run --rm --cpus 0.5")
    ran = invoke("run", "suite.toml", *FEW, folder=tmp_path, env=docker)
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None, ran.stderr
    assert max(record.samples.memory_bytes) > BALLAST_MB * 1e6
    assert record.samples.cpu_s[-1] - record.samples.cpu_s[0] > 0
    assert [process.is_listening for process in record.processes] == [True]
    assert record.limits is not None
    assert record.limits.cpus == 0.5
    assert record.limits.periods > 0
    assert not server_is_running(tmp_path)


@pytest.mark.parametrize(
    ("number", "words", "daemon_from"),
    [
        (signal.SIGINT, "docker run --rm", "environment"),
        (signal.SIGKILL, "docker run --rm --cidfile id", "suite"),
        (signal.SIGTERM, "docker --config settings run --rm", "options"),
    ],
)
def test_no_container_is_left_when_the_bench_is_stopped(
    number: signal.Signals, words: str, daemon_from: str, docker: dict[str, str], tmp_path: Path
) -> None:
    """Paths are relative to the folder of the suite, and only the suite or the options may name the daemon."""
    suite, environment = tmp_path / "suite", {**os.environ, **docker}
    write_suite(suite, contained=words)
    if daemon_from != "environment":
        daemon = environment.pop("FAKE_DOCKER")
        (suite / "settings").mkdir()
        (suite / "settings" / "daemon").write_text(daemon)
        if daemon_from == "suite":
            with (suite / "suite.toml").open("a") as file:
                file.write(f"environment = {{ FAKE_DOCKER = '{daemon}' }}\n")
    command = bench_command("run", str(suite / "suite.toml"), "--rounds", "1", "--time", "60s", "--out", "r.json")
    bench = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: server_is_running(suite), 100)
        bench.send_signal(number)
        bench.wait(100)
        wait_until(lambda: not server_is_running(suite) and not (suite / "id").exists())
    finally:
        bench.kill()


def test_a_container_that_cannot_be_started_or_is_not_the_own_one_fails_the_case(
    docker: dict[str, str], tmp_path: Path
) -> None:
    write_suite(
        tmp_path,
        missing="podman run",
        of_another_run="docker run --cidfile id",
        unreachable="env FAKE_DOCKER=none docker run",
    )
    (tmp_path / "id").write_text("0123")
    ran = invoke("run", "suite.toml", *FEW, folder=tmp_path, env=docker)
    failures = {record.server: record.failure for record in load(tmp_path / "r.json").records}
    assert ran.returncode == 1
    assert {server: failure and failure.code for server, failure in failures.items()} == {
        "missing": "no_runtime",
        "of_another_run": "id_file_exists",
        "unreachable": "no_runtime",
    }
    assert "Cannot connect to the Docker daemon" in failures["unreachable"].message
    assert (tmp_path / "id").read_text() == "0123"


def test_a_process_that_only_has_the_number_of_the_container_is_neither_measured_nor_killed(
    docker: dict[str, str], tmp_path: Path
) -> None:
    """A daemon on another machine reports process ids of that machine."""
    write_suite(tmp_path, contained="docker run --rm")
    faults = [word for name in ("stop", "worker", "pause", "leave") for word in ("--fault", name)]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as unrelated:
        environment = {**docker, "FAKE_DOCKER_PID": str(unrelated.pid)}
        words = ("drill", "suite.toml", "--rounds", "1", "--out", "r.json", "--quiet", *faults)
        ran = invoke(*words, folder=tmp_path, env=environment)
        assert unrelated.poll() is None
        assert psutil.Process(unrelated.pid).status() != psutil.STATUS_STOPPED
        unrelated.communicate(b"\n")
    incidents = {one.fault: one for one in load(tmp_path / "r.json").incidents}
    assert {name: one.failure for name, one in incidents.items()} == dict.fromkeys(incidents)
    reasons = {name: one.without for name, one in incidents.items() if name in ("stop", "worker", "pause", "leave")}
    assert reasons == dict.fromkeys(reasons, ELSEWHERE)
    assert ran.returncode == 3
    assert ELSEWHERE in " ".join(ran.stdout.split())


STRANGER = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_process_that_listens_in_place_of_the_server_is_not_measured(tmp_path: Path) -> None:
    """As the proxy of a container that a script starts, it began after the command, but is not its descendant."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    silent = "import sys, time; open(sys.argv[1] + '.port', 'w').close(); time.sleep(600)"
    (tmp_path / "silent.py").write_text(silent)
    (tmp_path / "suite.toml").write_text("[servers.silent]\ncommand = 'python silent.py {port}'\n")
    command = [sys.executable, str(ROOT / "bench.py"), "run", "suite.toml", "--rounds", "1", "--time", "1s"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    strangers: dict[str, subprocess.Popen[bytes]] = {}

    def start_strangers() -> bool:
        for port in {path.stem for path in tmp_path.glob("*.port")} - set(strangers):
            strangers[port] = subprocess.Popen([sys.executable, "stranger.py", port], cwd=tmp_path)
        return bench.poll() is not None

    with subprocess.Popen(command, cwd=tmp_path, **pipes) as bench:
        try:
            wait_until(start_strangers, 60)
            assert bench.returncode == 1
            assert "another process, which this run did not start, listens on" in " ".join(bench.stdout.read().split())
            assert [stranger.poll() for stranger in strangers.values()] == [None] * len(strangers)
        finally:
            bench.kill()
            for stranger in strangers.values():
                stranger.kill()
                stranger.wait()


def test_limits_of_the_bench_are_refused_for_a_container_which_has_its_own(tmp_path: Path) -> None:
    write_suite(tmp_path, contained="docker run --rm")
    ran = invoke("run", "suite.toml", "--cpus", "0.5", *FEW, folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "docker run --cpus 0.5" in ran.stderr
