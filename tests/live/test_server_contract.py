"""The server contract, tested for all files in servers/, including new ones.

Most tests share one server for each strategy, and choose the task before each request. With --all, each Python on the
PATH runs each strategy. test_overload_and_shutdown.py tests killed servers and --queue.
"""

import functools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import (
    LIMIT_S,
    ROOT,
    SERVERS,
    SUPPORT,
    Served,
    gone,
    is_free,
    printed,
    receive,
    serving,
    wait_until,
    with_servers_packages,
)
from other_pythons import other_pythons

from common.task import BUILTIN_TASKS, perform
from under_siege.host.interpreter import Interpreter
from under_siege.host.programs import unmet
from under_siege.suite.server_files import read_strategy

every_server = pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
FAILING_TASKS = {
    "raises": "ValueError: the first line and a second one",
    "raises_later": "KeyError: 'later'",
    "raises_in_a_group": "KeyError: 'in a group'",
    "raises_awkwardly": "AwkwardError: this and that",
    "exits": "SystemExit: a task that thinks it is a program",
}
# Run servers with invalid options, one after the other in one process, because most of their time goes into imports.
RUN_ALL = """
import runpy, sys, warnings
warnings.simplefilter("ignore")  # gevent warns that other servers have imported modules before it patches them
for line in sys.stdin.read().splitlines():
    sys.argv = line.split()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        print(ended.code)
"""
Choose = Callable[[str], None]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file to which tasks write a character when they begin."""
    return tmp_path_factory.mktemp("begun") / "begun"


@pytest.fixture(scope="module")
def choose(begun: Path) -> Iterator[Choose]:
    """Yield a function that chooses the task that `sample_tasks:chosen` runs."""
    chosen = begun.with_name("task")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHOSEN", str(chosen))
        patched.setenv("BEGUN", str(begun))
        patched.setenv("TOLD", str(begun.with_name("told")))
        yield chosen.write_text


def with_each_python() -> Iterator[object]:
    """Yield each server with each Python that meets its requirement; `None` stands for the Python of the tests."""
    for script in SERVERS:
        requires = read_strategy(script).requires
        others = [python for python in other_pythons() if not unmet(requires, python.minor)]
        if not unmet(requires) or not others:
            yield pytest.param((script, None), id=script.stem)
        for python in others:
            yield pytest.param((script, python), id=f"{script.stem}-{python.version}")


def skip_if_a_package_is_missing(script: Path, python: Interpreter) -> None:
    for package, reason in with_servers_packages(python).missing:
        if re.search(rf"\b{package}\b", script.read_text()):
            pytest.skip(f"Python {python.version} lacks {package}: {reason}")


@pytest.fixture(scope="module", params=with_each_python())
def server(request: pytest.FixtureRequest, choose: Choose) -> Iterator[Served]:
    """Start each strategy with two workers."""
    script, python = request.param
    if python:
        skip_if_a_package_is_missing(script, python)
    with serving(script, "--task", "sample_tasks:chosen", "--workers", "2", python=python) as served:
        yield served


def workers_of(served: Served) -> int:
    """Return the number of workers of a server that was started with `--workers 2`."""
    return 1 if "server_options()" in served.script.read_text() else 2


@pytest.fixture(autouse=True)
def reset_to_a_short_task(choose: Choose, begun: Path) -> None:
    choose("short")
    begun.with_name("told").unlink(missing_ok=True)


def test_a_server_prints_one_line_when_it_listens(server: Served) -> None:
    assert server.first_line == f"{server.script.stem}: sample_tasks:chosen on http://127.0.0.1:{server.port}/\n"


def test_the_response_is_the_result_of_the_task_with_the_worker_and_the_times_in_headers(
    server: Served, choose: Choose
) -> None:
    choose("a_blink")
    answer = server.request("/")
    assert (answer.status, answer.body) == (200, "done")
    assert answer.headers["content-type"].startswith("text/plain")
    timing = re.fullmatch(r"queue;dur=(\d+\.\d+), task;dur=(\d+\.\d+)", answer.headers["server-timing"])
    assert timing
    assert float(timing[2]) >= 50
    pid, thread = answer.headers["x-worker"].split("/", 1)
    assert int(pid) in {process.pid for process in server.family()}
    assert thread


def test_health_checks_succeed_and_contain_the_number_of_workers(server: Served) -> None:
    ping, ready = server.request("/ping"), server.request("/ready")
    assert (ping.status, ping.body, ready.status, ready.body) == (200, "pong", 200, "ready")
    assert {one.headers["content-type"].partition(";")[0] for one in (ping, ready)} == {"text/plain"}
    assert int(ping.headers["x-workers"]) == workers_of(server)


def test_unknown_paths_return_404_and_unsupported_methods_405(server: Served) -> None:
    for path in ("/nothing", "/ping/more", "/index.html"):
        assert server.request(path).status == 404, path
    for path in ("/", "/ping", "/ready"):
        assert server.request(path, "POST").status == 405, path


def test_all_of_60_concurrent_requests_succeed(server: Served, choose: Choose) -> None:
    choose("a_blink")
    answers = [receive(connection) for connection in [server.send("/") for _ in range(60)]]
    assert [(answer.status, answer.body) for answer in answers] == [(200, "done")] * 60


def test_servers_listen_only_on_loopback(server: Served) -> None:
    addresses = [
        connection.laddr.ip
        for process in server.family()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert addresses
    assert set(addresses) == {"127.0.0.1"}


@functools.cache
def right_answer(task: str) -> str:
    return perform(task if task in BUILTIN_TASKS else f"sample_tasks:{task}").answer


def test_every_strategy_returns_the_same_result(server: Served, choose: Choose, monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    for task in (*BUILTIN_TASKS, "in_slices", "returns_umlauts", "awaits"):
        choose(task)
        answer = server.request("/")
        assert (answer.status, answer.body) == (200, right_answer(task)), task


def test_an_exception_in_the_task_causes_a_one_line_500_response_and_the_server_continues(
    server: Served, choose: Choose
) -> None:
    for task, body in FAILING_TASKS.items():
        choose(task)
        for _ in range(2):
            answer = server.request("/")
            assert (answer.status, answer.body) == (500, body), task
        assert server.request("/ping").body == "pong"
        choose("short")
        assert server.request("/").status == 200


def end_while_busy(served: Served, begun: Path, end: Callable[[], None]) -> None:
    """End the server while all its workers perform tasks; check that it exits with code 0 and leaves nothing behind.

    A worker that is still starting would print a traceback at Ctrl-C.
    """

    def all_workers_are_busy() -> bool:
        served.send("/")  # again and again: requests sent before a worker has started may all wait for another one
        return begun.exists() and len(begun.read_text()) >= workers_of(served)

    begun.unlink(missing_ok=True)
    wait_until(all_workers_are_busy)
    family = served.family()
    end()
    begun.with_name("told").touch()  # the tasks end
    output, errors = served.process.communicate(timeout=LIMIT_S)
    assert (served.process.returncode, output, printed(errors)) == (0, "", [])
    wait_until(lambda: all(map(gone, family)) and is_free(served.port))


def test_sigterm_ends_a_busy_server_with_an_idle_client_and_leaves_no_process_and_no_port(
    server: Served, choose: Choose, begun: Path
) -> None:
    """This test is the last one with this server, because it ends the server."""
    idle = server.send("/ping")
    assert idle.getresponse().read() == b"pong"
    choose("computes_until_told")
    end_while_busy(server, begun, server.process.terminate)


@every_server
def test_ctrl_c_ends_a_busy_server_and_leaves_no_process_and_no_port(script: Path, choose: Choose, begun: Path) -> None:
    choose("computes_until_told")
    with serving(script, "--task", "sample_tasks:chosen", "--workers", "2") as served:
        end_while_busy(served, begun, lambda: os.killpg(served.process.pid, signal.SIGINT))  # as a terminal does


def test_invalid_options_an_unknown_host_and_a_taken_port_cause_a_one_line_error() -> None:
    runnable = [script for script in SERVERS if not unmet(read_strategy(script).requires)]
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = {
            "--port 0 --task nothing": "unknown task 'nothing'",
            "--port 0 --host no.such.host.invalid": "can't listen on no.such.host.invalid port 0: ",
            f"--port {port}": f"can't listen on 127.0.0.1 port {port}: Address already in use",
        }
        cases = [(script, options, error) for script in runnable for options, error in refused.items()]
        ended = subprocess.run(
            [sys.executable, "-c", RUN_ALL],
            input="\n".join(f"{script} {options}" for script, options, _ in cases),
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'servers'}"},
            capture_output=True,
            text=True,
        )
    assert ended.stdout == "2\n" * len(cases), ended.stderr
    for line, (script, _, error) in zip(ended.stderr.splitlines(), cases, strict=True):
        assert line.startswith(f"{script.stem}: {error}")
