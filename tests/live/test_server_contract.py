"""The server contract, tested for all files in servers/, including new ones.

Most tests share one server for each strategy and each Python on the PATH, and choose the task before each request.
test_overload_and_shutdown.py tests overload and shutdown. Code in common/ is tested with only one strategy.
"""

import ast
import difflib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import (
    ROOT,
    SERVERS,
    SUPPORT,
    Served,
    gone,
    printed,
    receive,
    serving,
    start,
    wait_until,
    with_servers_packages,
)
from other_pythons import other_pythons

from common.options import default_port, server_options
from common.task import BUILTIN_TASKS, perform
from under_siege.host.interpreter import Interpreter
from under_siege.host.programs import unmet
from under_siege.suite.strategies import all_strategies, read_strategy

every_server = pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
INVALID_OPTIONS = [
    (["--task", "nothing"], "unknown task 'nothing': expected primes, digest, sign_up"),
    (["--task", "no_such_module:f"], "can't import task 'no_such_module:f'"),
    (["--task", "sample_tasks:is_async_generator"], "is an async generator function"),
    (["--task", "sample_tasks:returns_its_arguments(open)"], "has arguments that can't be read; expected literals"),
    (["--task", "sample_tasks:needs_arguments('acme')"], "can't be called with ('acme'): missing a required argument"),
    (["--task", "primes(3)"], "primes takes no arguments; use primes"),
    (["--workers", "0"], "expected a whole number from 1 to 1000, not '0'"),
    (["--port", "banana"], "expected a whole number from 0 to 65535, not 'banana'"),
    (["--nonsense"], "unrecognized arguments: --nonsense"),
]
Choose = Callable[[str], None]


@pytest.fixture(scope="module")
def choose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Choose]:
    """Yield a function that chooses the task that `sample_tasks:chosen` runs."""
    chosen = tmp_path_factory.mktemp("chosen") / "task"
    chosen.write_text("short")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHOSEN", str(chosen))
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
    """Start each strategy with two workers; check at the end that it printed nothing and ends at SIGTERM.

    An idle client must not delay the end.
    """
    script, python = request.param
    if python:
        skip_if_a_package_is_missing(script, python)
    with serving(script, "--task", "sample_tasks:chosen", "--workers", "2", python=python) as served:
        yield served
        idle = served.send("/ping")
        assert idle.getresponse().read() == b"pong"
        family = served.family()
        served.process.terminate()
        output, errors = served.process.communicate()
        assert (served.process.returncode, output, printed(errors)) == (0, "", [])
        wait_until(lambda: all(map(gone, family)))


@pytest.fixture(autouse=True)
def reset_to_a_short_task(choose: Choose) -> None:
    choose("short")


def test_strategies_are_sorted_by_the_numbers_in_their_file_names() -> None:
    stems = [strategy.name for strategy in all_strategies()]
    assert stems[:13] == [
        "1_sync",
        "2_async",
        "3_async_threadexecutor",
        "4_async_processexecutor",
        "5_asyncio",
        "6_gevent",
        "7_async_interpreters",
        "8_prefork",
        "9_async_pebble",
        "10_async_dask",
        "11_fastapi",
        "12_async_celery",
        "13_gunicorn_dirty",
    ]
    assert stems == [path.stem for path in SERVERS]


def test_a_server_prints_one_line_when_it_listens(server: Served) -> None:
    assert server.first_line == f"{server.script.stem}: sample_tasks:chosen on http://127.0.0.1:{server.port}/\n"


def test_the_response_body_is_the_result_of_the_task(server: Served) -> None:
    answer = server.request("/")
    assert (answer.status, answer.body) == (200, "short")
    assert answer.headers["content-type"].startswith("text/plain")


def test_response_headers_contain_the_worker_and_the_queue_and_task_times(server: Served, choose: Choose) -> None:
    choose("a_blink")
    headers = server.request("/").headers
    timing = re.fullmatch(r"queue;dur=(\d+\.\d+), task;dur=(\d+\.\d+)", headers["server-timing"])
    assert timing
    assert float(timing[2]) >= 50
    pid, thread = headers["x-worker"].split("/", 1)
    assert int(pid) in {process.pid for process in server.family()}
    assert thread


def test_the_ping_response_contains_the_number_of_workers(server: Served) -> None:
    answer = server.request("/ping")
    assert (answer.status, answer.body) == (200, "pong")
    assert answer.headers["content-type"].startswith("text/plain")
    takes_workers = "server_options()" not in server.script.read_text()
    assert int(answer.headers["x-workers"]) == (2 if takes_workers else 1)


def test_the_readiness_check_of_an_idle_server_succeeds(server: Served) -> None:
    answer = server.request("/ready")
    assert (answer.status, answer.body) == (200, "ready")
    assert answer.headers["content-type"].startswith("text/plain")


def test_unknown_paths_return_404(server: Served) -> None:
    for path in ("/nothing", "/ping/more", "/index.html"):
        assert server.request(path).status == 404, path


def test_unsupported_methods_return_405(server: Served) -> None:
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


@pytest.mark.parametrize("task", [*BUILTIN_TASKS, "in_slices", "returns_umlauts", "awaits"])
def test_every_strategy_returns_the_same_result(server, choose, task: str, monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    choose(task)
    answer = server.request("/")
    right = perform(task if task in BUILTIN_TASKS else f"sample_tasks:{task}").answer
    assert (answer.status, answer.body) == (200, right)


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("raises", "ValueError: the first line and a second one"),
        ("raises_later", "KeyError: 'later'"),
        ("raises_in_a_group", "KeyError: 'in a group'"),
        ("raises_awkwardly", "AwkwardError: this and that"),
        ("exits", "SystemExit: a task that thinks it is a program"),
    ],
)
def test_an_exception_in_the_task_causes_a_one_line_500_response_and_the_server_continues(
    server, choose, task: str, body: str
) -> None:
    choose(task)
    for _ in range(2):
        answer = server.request("/")
        assert (answer.status, answer.body) == (500, body)
    assert server.request("/ping").body == "pong"
    choose("short")
    assert server.request("/").status == 200


def refused(script: Path, *options: str) -> str:
    """Start the server with these options, and return the one-line error with which it exits."""
    process = start(script, *options)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert len(errors.splitlines()) == 1
    return errors


@pytest.mark.parametrize(("options", "error"), INVALID_OPTIONS)
def test_invalid_options_cause_a_one_line_error(
    options: list[str], error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Test only the option parser; test_no_strategy_starts_with_invalid_options tests the servers."""
    monkeypatch.setattr("sys.argv", [str(SERVERS[1]), "--port", "0", *options])
    with pytest.raises(SystemExit) as ended:
        server_options()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("2_async: ")
    assert error in line


@every_server
def test_no_strategy_starts_with_invalid_options(script: Path) -> None:
    (options, error), *_ = INVALID_OPTIONS
    assert error in refused(script, "--port", "0", *options)


@every_server
def test_an_unknown_host_causes_a_one_line_error(script: Path) -> None:
    error = "can't listen on no.such.host.invalid port 0: "
    assert error in refused(script, "--port", "0", "--host", "no.such.host.invalid")


@every_server
def test_a_taken_port_causes_a_one_line_error(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = f"can't listen on 127.0.0.1 port {port}: Address already in use; try another"
        assert error in refused(script, "--port", str(port))


def test_servers_have_a_default_task_and_a_default_port() -> None:
    assert [default_port(path.stem) for path in SERVERS] == list(range(8000, 8000 + len(SERVERS)))
    process = start(SERVERS[4], "--help")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "default: 8004" in output
    with serving(SERVERS[4]) as served:
        assert served.first_line == f"5_asyncio: primes on http://127.0.0.1:{served.port}/\n"
        assert served.request("/").body == perform("primes").answer


@every_server
def test_a_server_file_is_short_and_neither_parses_options_nor_handles_signals(script: Path) -> None:
    source = script.read_text()
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    assert docstring
    assert len(docstring.splitlines()[0]) <= 120
    lines = source.splitlines()[tree.body[0].end_lineno :]
    assert sum(1 for line in lines if line.strip() and not line.strip().startswith("#")) <= 25
    assert not any(isinstance(node, ast.Try) for node in ast.walk(tree))
    assert not re.search(r"\b(argparse|logging|signal|sys)\b", source)
    assert 'fork"' not in source


def test_at_most_six_lines_differ_between_the_servers_with_threads_and_with_processes() -> None:
    threads, processes = (
        (ROOT / "servers" / name).read_text().splitlines()
        for name in ("3_async_threadexecutor.py", "4_async_processexecutor.py")
    )
    changes = difflib.SequenceMatcher(None, threads, processes, autojunk=False).get_opcodes()
    assert sum(max(b - a, d - c) for kind, a, b, c, d in changes if kind != "equal") <= 6
