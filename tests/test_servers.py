"""The contract that every file in servers/ keeps. A new file there is tested without another edit."""

import ast
import contextlib
import itertools
import re
import signal
from collections.abc import Iterator

import psutil
import pytest
from conftest import ROOT, SERVERS, TESTS, Served, free_port, gone, is_free, receive, serving, start, wait_until

from common.builtin_tasks import BUILTIN_TASKS
from common.contract import unmet
from common.harness.ready.strategies import all_strategies, read_strategy
from common.task import perform

every_server = pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)


@pytest.fixture(scope="module", params=SERVERS, ids=lambda path: path.stem)
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Each server in turn, with the default task."""
    with serving(request.param) as served:
        yield served


def test_the_files_of_the_mission_are_there_and_in_order() -> None:
    stems = [strategy.name for strategy in all_strategies()]
    assert stems[:10] == [
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
    ]
    assert stems == [path.stem for path in SERVERS]


def test_the_answer_is_that_of_the_task_and_nothing_else(server: Served) -> None:
    answer = server.request("/")
    assert (answer.status, answer.body) == (200, perform("primes").answer)
    assert answer.headers["content-type"].startswith("text/plain")


def test_the_answer_tells_where_and_how_long(server: Served) -> None:
    headers = server.request("/").headers
    timing = re.fullmatch(r"queue;dur=(\d+\.\d+), task;dur=(\d+\.\d+)", headers["server-timing"])
    assert timing
    assert float(timing[2]) > 0
    pid, thread = headers["x-worker"].split("/", 1)
    assert int(pid) in {process.pid for process in server.family()}
    assert thread


def test_the_ping_is_answered_and_tells_how_many_workers_there_are(server: Served) -> None:
    answer = server.request("/ping")
    assert (answer.status, answer.body) == (200, "pong")
    assert answer.headers["content-type"].startswith("text/plain")
    assert int(answer.headers["x-workers"]) >= 1


@pytest.mark.parametrize("path", ["/nothing", "/ping/", "/index.html", "/nothing?<script>"])
def test_anything_else_is_404(server: Served, path: str) -> None:
    answer = server.request(path)
    assert answer.status == 404
    assert answer.body == "404 Not Found: there are / and /ping"


@pytest.mark.parametrize("path", ["/", "/ping"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_a_wrong_method_is_405(server: Served, method: str, path: str) -> None:
    answer = server.request(path, method)
    assert answer.status == 405
    assert "\n" not in answer.body


def test_it_listens_on_this_machine_only(server: Served) -> None:
    listening = [
        connection.laddr.ip
        for process in server.family()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) == {"127.0.0.1"}


@every_server
@pytest.mark.parametrize("task", [*BUILTIN_TASKS, "sample_tasks:in_slices", "sample_tasks:says_umlauts"])
def test_every_task_gets_the_same_answer_from_every_strategy(script, task: str, monkeypatch) -> None:
    monkeypatch.chdir(TESTS)
    with serving(script, "--task", task) as served:
        answer = served.request("/")
    assert (answer.status, answer.body) == (200, perform(task).answer)


@every_server
@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("raises", "ValueError: the first line and a second one"),
        ("raises_later", "KeyError: 'later'"),
        ("raises_awkwardly", "AwkwardError: this and that"),
        ("exits", "SystemExit: a task that thinks it is a program"),
    ],
)
def test_a_task_that_raises_is_a_500_of_one_line_and_the_server_goes_on(script, task: str, body: str) -> None:
    with serving(script, "--task", f"sample_tasks:{task}") as served:
        for _ in range(2):
            answer = served.request("/")
            assert (answer.status, answer.body) == (500, body)
        assert served.request("/ping").body == "pong"
        served.process.terminate()
        _, errors = served.process.communicate()
    assert errors == ""


@every_server
def test_it_prints_one_line_when_it_listens_and_nothing_per_request(script) -> None:
    with serving(script, "--task", "sample_tasks:short") as served:
        assert served.first_line == f"{script.stem}: sample_tasks:short on http://127.0.0.1:{served.port}/\n"
        for path in ("/", "/ping", "/nothing"):
            served.request(path)
        served.process.terminate()
        output, errors = served.process.communicate()
    assert (output, errors) == ("", "")


@every_server
@pytest.mark.parametrize("task", ["half_a_second", "half_a_second_of_computing"])
@pytest.mark.parametrize("by", ["SIGTERM", "Ctrl-C"])
def test_told_to_stop_it_finishes_what_it_has_begun_and_leaves_nothing(
    script, task: str, by: str, tmp_path, monkeypatch
) -> None:
    begun = tmp_path / "begun"
    monkeypatch.setenv("BEGUN", str(begun))
    with serving(script, "--task", f"sample_tasks:{task}") as served:
        connection = served.send("/")
        wait_until(begun.exists)
        family = served.family()
        if by == "SIGTERM":
            served.process.terminate()
        else:
            for process in family:  # as a terminal does it, for the whole group
                process.send_signal(signal.SIGINT)
        answer = receive(connection)
        assert (answer.status, answer.body) == (200, "at last" if task == "half_a_second" else "computed")
        assert served.process.wait(timeout=6) == 0
        assert served.process.stderr.read() == ""
        wait_until(lambda: all(gone(process) for process in family), 5)
        wait_until(lambda: is_free(served.port), 5)


def test_whatever_it_has_begun_it_ends_after_five_seconds(tmp_path, monkeypatch) -> None:
    """All servers at once, because each takes the whole five seconds."""
    with contextlib.ExitStack() as stack:
        started = []
        able = [script for script in SERVERS if not unmet(read_strategy(script).requires)]
        for script, task in itertools.product(able, ("half_a_minute", "half_a_minute_of_computing")):
            begun = tmp_path / f"{script.stem}-{task}"
            monkeypatch.setenv("BEGUN", str(begun))
            served = stack.enter_context(serving(script, "--task", f"sample_tasks:{task}"))
            stack.callback(served.send("/").close)
            wait_until(begun.exists)
            started.append((served, served.family()))
        for served, _ in started:
            served.process.terminate()
        for served, family in started:
            assert served.process.wait(timeout=20) == 0, served.first_line
            wait_until(lambda family=family: all(gone(process) for process in family), 5)
            wait_until(lambda port=served.port: is_free(port), 5)


@every_server
def test_an_idle_client_does_not_keep_it_from_ending(script) -> None:
    with serving(script) as served:
        idle = served.send("/ping")
        assert idle.getresponse().read() == b"pong"
        served.process.terminate()
        assert served.process.wait(timeout=3) == 0
        idle.close()


@every_server
def test_killed_it_leaves_no_worker_behind(script) -> None:
    with serving(script, "--task", "sample_tasks:short") as served:
        served.request("/")
        family = served.family()
        served.process.kill()
        wait_until(lambda: all(gone(process) for process in family), 10)
        wait_until(lambda: is_free(served.port), 5)


@every_server
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--task", "nothing"], "unknown task 'nothing': expected primes, digest, sign_up"),
        (["--task", "no_such_module:f"], "cannot import task 'no_such_module:f'"),
        (["--task", "sample_tasks:is_async"], "is an async function"),
        (["--workers", "0"], "expected a whole number from 1 to 1000, not '0'"),
        (["--port", "banana"], "expected a whole number from 0 to 65535, not 'banana'"),
        (["--host", "no.such.host.invalid"], "can't listen on no.such.host.invalid"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_a_mistake_is_answered_with_one_line_and_exit_code_2(script, options: list[str], complaint: str) -> None:
    process = start(script, "--port", str(free_port()), *options)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert output == ""
    assert complaint in errors
    assert len(errors.splitlines()) == 1


@every_server
def test_a_taken_port_is_named_in_one_line(script) -> None:
    with serving(SERVERS[1]) as other:
        process = start(script, "--port", str(other.port))
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert output == ""
    assert f"can't listen on 127.0.0.1 port {other.port}: Address already in use; try another" in errors
    assert len(errors.splitlines()) == 1


@every_server
def test_workers_are_as_many_as_asked_for_where_there_is_a_pool(script) -> None:
    with serving(script, "--workers", "3", "--task", "sample_tasks:short") as served:
        workers = int(served.request("/ping").headers["x-workers"])
    assert workers == (3 if "default_workers" in script.read_text() else 1)


@every_server
def test_its_default_port_follows_its_number(script) -> None:
    number = int(script.stem.split("_")[0])
    process = start(script, "--help")
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert f"default: {8000 + number - 1}" in output


@every_server
def test_a_file_shows_the_strategy_and_nothing_else(script) -> None:
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


def test_threads_and_processes_differ_in_docstring_imports_and_pool_only() -> None:
    threads, processes = (
        set((ROOT / "servers" / name).read_text().splitlines()[1:])
        for name in ("3_async_threadexecutor.py", "4_async_processexecutor.py")
    )
    for line in threads ^ processes:
        assert line.startswith(("from ", "import ")) or "Pool" in line, line
