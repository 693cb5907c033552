"""Servers whose command is `docker run`: a stand-in for docker starts them outside of the command's process tree."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command import invoke
from conftest import ROOT, SUPPORT, wait_until

from under_siege.drill.injection import ELSEWHERE
from under_siege.host.limits import own_controllers
from under_siege.record.result import load

BALLAST_MB = 150
SERVER = f"""
import sys
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

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


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


def free_port() -> int:
    """Return a port for the server inside, because other tests of containers may run at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def write_suite(folder: Path, options: str = "--rm --cpus 0.2") -> None:
    (folder / "server.py").write_text(SERVER)
    inside = free_port()
    command = (
        f"docker run {options} -p 127.0.0.1:{{port}}:{inside} image {sys.executable} {folder / 'server.py'} {inside}"
    )
    (folder / "suite.toml").write_text(
        f"[load]\nusers = 4\n[ping]\npath = '/ping'\n[servers.contained]\ncommand = \"{command}\"\n"
    )


def left_over(folder: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:2] == [str(folder / "server.py")]
        and process.status() != psutil.STATUS_ZOMBIE
    ]


def can_limit() -> bool:
    cpu = own_controllers().get("cpu")
    return cpu is not None and os.access(cpu.folder, os.W_OK)


@pytest.mark.skipif(not can_limit(), reason="no cgroup can be created here")
def test_a_container_is_measured_by_its_own_processes_and_cgroup(docker: dict[str, str], tmp_path: Path) -> None:
    write_suite(tmp_path)
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "2s", "--out", "r.json", folder=tmp_path, env=docker)
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None, ran.stderr
    assert max(record.samples.memory_bytes) > BALLAST_MB * 1e6
    assert record.samples.cpu_s[-1] - record.samples.cpu_s[0] > 0
    assert record.limits is not None
    assert record.limits.cpus == 0.2
    assert record.limits.throttled_periods > 0
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_container_is_left_when_the_bench_is_stopped(
    number: signal.Signals, docker: dict[str, str], tmp_path: Path
) -> None:
    write_suite(tmp_path, "--rm")
    command = [sys.executable, str(ROOT / "bench.py"), "run", "suite.toml", "--rounds", "1", "--time", "60s"]
    bench = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **docker}, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: bool(left_over(tmp_path)))
        bench.send_signal(number)
        bench.wait(60)
        wait_until(lambda: not left_over(tmp_path))
    finally:
        bench.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_container_with_an_id_file_and_a_daemon_of_the_suite_is_removed(
    number: signal.Signals, docker: dict[str, str], tmp_path: Path
) -> None:
    """The path of the file is relative to the folder of the suite, and only the suite knows the daemon."""
    suite, elsewhere = tmp_path / "suite", tmp_path / "elsewhere"
    suite.mkdir()
    elsewhere.mkdir()
    write_suite(suite, "--rm --cidfile id")
    with (suite / "suite.toml").open("a") as file:
        file.write(f"environment = {{ FAKE_DOCKER = '{docker['FAKE_DOCKER']}' }}\n")
    command = [sys.executable, str(ROOT / "bench.py"), "run", str(suite / "suite.toml"), "--rounds", "1"]
    environment = {**os.environ, "PATH": docker["PATH"]}
    bench = subprocess.Popen(
        [*command, "--time", "60s"],
        cwd=elsewhere,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: bool(left_over(suite)))
        bench.send_signal(number)
        bench.wait(60)
        wait_until(lambda: not left_over(suite) and not (suite / "id").exists())
    finally:
        bench.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_daemon_that_options_name_is_asked_to_remove_the_container(
    number: signal.Signals, docker: dict[str, str], tmp_path: Path
) -> None:
    """The options come before `run`, and name a folder relative to that of the suite."""
    suite, elsewhere = tmp_path / "suite", tmp_path / "elsewhere"
    for folder in (suite / "settings", elsewhere):
        folder.mkdir(parents=True)
    (suite / "settings" / "daemon").write_text(docker["FAKE_DOCKER"])
    write_suite(suite)
    text = (suite / "suite.toml").read_text()
    (suite / "suite.toml").write_text(text.replace("docker run", "docker --config settings run"))
    command = [sys.executable, str(ROOT / "bench.py"), "run", str(suite / "suite.toml"), "--rounds", "1"]
    environment = {**os.environ, "PATH": docker["PATH"]}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    bench = subprocess.Popen([*command, "--time", "60s"], cwd=elsewhere, env=environment, **quiet)
    try:
        wait_until(lambda: bool(left_over(suite)))
        bench.send_signal(number)
        bench.wait(60)
        wait_until(lambda: not left_over(suite))
    finally:
        bench.kill()


def test_a_process_that_only_has_the_number_of_the_container_is_neither_measured_nor_killed(
    docker: dict[str, str], tmp_path: Path
) -> None:
    """A daemon on another machine reports process ids of that machine."""
    write_suite(tmp_path, "--rm")
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


def test_a_container_that_the_run_did_not_start_is_kept(docker: dict[str, str], tmp_path: Path) -> None:
    write_suite(tmp_path, "--rm")
    words = tomllib.loads((tmp_path / "suite.toml").read_text())["servers"]["contained"]["command"].split()
    words = [f"{tmp_path}/bin/docker", "run", "--cidfile", str(tmp_path / "id"), *words[2:]]
    other = subprocess.Popen([word.format(port=free_port()) for word in words], env={**os.environ, **docker})
    try:
        wait_until(lambda: bool(left_over(tmp_path)))
        write_suite(tmp_path, "--rm --cidfile id")
        assert "id exists already" in failure_of(tmp_path, docker)
        assert left_over(tmp_path)
        assert (tmp_path / "id").exists()
    finally:
        other.terminate()
        other.wait(30)


def failure_of(folder: Path, environment: dict[str, str]) -> str:
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=folder, env=environment)
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (1, 2)
    return ran.stdout + ran.stderr


def test_a_daemon_that_can_not_be_reached_is_named(docker: dict[str, str], tmp_path: Path) -> None:
    write_suite(tmp_path)
    text = failure_of(tmp_path, {**docker, "FAKE_DOCKER": str(tmp_path / "none")})
    assert "Cannot connect to the Docker daemon" in " ".join(text.split())


def test_a_missing_runtime_is_named(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "suite.toml").write_text((tmp_path / "suite.toml").read_text().replace("docker run", "podman run"))
    assert "podman can't be started" in " ".join(failure_of(tmp_path, {"PATH": os.environ["PATH"]}).split())


@pytest.mark.parametrize(
    ("options", "words", "why"),
    [
        ("--rm", ("--cpus", "0.5"), "docker run --cpus 0.5"),
        ("-d", (), "remove -d"),
    ],
)
def test_unsuitable_options_cause_one_line(
    options: str, words: tuple[str, ...], why: str, docker: dict[str, str], tmp_path: Path
) -> None:
    write_suite(tmp_path, options)
    ran = invoke("run", "suite.toml", *words, "--rounds", "1", "--time", "1s", folder=tmp_path, env=docker)
    assert ran.returncode in (1, 2)
    assert why in " ".join((ran.stdout + ran.stderr).split())
