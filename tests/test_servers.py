"""The contract that every file in servers/ keeps. A new file there is tested without another edit.

Most of it is asked of one server of each strategy, which performs whatever task it is told to; what ends a server
starts another one. What all of them have from common/serving is asked of one strategy.
"""

import ast
import contextlib
import itertools
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import (
    LIMIT_S,
    ROOT,
    SERVERS,
    TESTS,
    Served,
    gone,
    is_free,
    listening,
    receive,
    serving,
    start,
    wait_until,
)

from common.builtin_tasks import BUILTIN_TASKS
from common.contract import unmet
from common.harness.ready.strategies import all_strategies, read_strategy
from common.serving.client import HEAD_LIMIT_S
from common.serving.options import default_port, server_options
from common.task import perform

every_server = pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
MISTAKES = [
    (["--task", "nothing"], "unknown task 'nothing': expected primes, digest, sign_up"),
    (["--task", "no_such_module:f"], "cannot import task 'no_such_module:f'"),
    (["--task", "sample_tasks:is_async_generator"], "is an async generator function"),
    (["--task", "sample_tasks:says_all(open)"], "has an argument that is no literal: open"),
    (["--task", "sample_tasks:needs_arguments('acme')"], "can't be called with ('acme'): missing a required argument"),
    (["--task", "primes(3)"], "primes takes no arguments; expected primes"),
    (["--workers", "0"], "expected a whole number from 1 to 1000, not '0'"),
    (["--port", "banana"], "expected a whole number from 0 to 65535, not 'banana'"),
    (["--nonsense"], "unrecognized arguments: --nonsense"),
]
HEAD = b"POST /ping HTTP/1.1\r\nHost: here\r\n"
SECOND = b"GET /smuggled HTTP/1.1\r\nHost: here\r\n\r\n"
MALFORMED = [
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    HEAD + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n" + SECOND,
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SECOND,
    HEAD + b"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + SECOND,
    HEAD + b"Content-Length: +5\r\n\r\n" + SECOND,
    HEAD + b"Content-Length: abc\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nno number\r\n",
    b"GET /ping HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: [\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\xff\r\n\r\n",
    b"GET /ping HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(300)) + b"\r\n",
]
Choose = Callable[[str], None]


@pytest.fixture(scope="module")
def choose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Choose]:
    """Tells the servers that perform `sample_tasks:chosen` what to perform from now on."""
    chosen = tmp_path_factory.mktemp("chosen") / "task"
    chosen.write_text("primes")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHOSEN", str(chosen))
        yield chosen.write_text


@pytest.fixture(scope="module", params=SERVERS, ids=lambda path: path.stem)
def server(request: pytest.FixtureRequest, choose: Choose) -> Iterator[Served]:
    """Each strategy in turn, with three workers; at the end, whatever it was sent, it has printed nothing."""
    with serving(request.param, "--task", "sample_tasks:chosen", "--workers", "3") as served:
        yield served
        served.process.terminate()
        output, errors = served.process.communicate()
        assert (served.process.returncode, output, errors) == (0, "", "")


@pytest.fixture(autouse=True)
def primes_again(choose: Choose) -> None:
    choose("primes")


def test_the_files_of_the_mission_are_there_and_in_order() -> None:
    stems = [strategy.name for strategy in all_strategies()]
    assert stems[:12] == [
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
    ]
    assert stems == [path.stem for path in SERVERS]


def test_it_prints_one_line_when_it_listens(server: Served) -> None:
    assert server.first_line == f"{server.script.stem}: sample_tasks:chosen on http://127.0.0.1:{server.port}/\n"


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
    asked_for = 3 if "default_workers" in server.script.read_text() else 1
    assert int(answer.headers["x-workers"]) == asked_for


def test_it_is_ready(server: Served) -> None:
    answer = server.request("/ready")
    assert (answer.status, answer.body) == (200, "ready")
    assert answer.headers["content-type"].startswith("text/plain")


def test_anything_else_is_404(server: Served) -> None:
    for path in ("/nothing", "/ping/", "/ready/", "/index.html", "/nothing?<script>"):
        answer = server.request(path)
        assert answer.status == 404, path
        assert answer.body == "404 Not Found: there are /, /ping and /ready", path


def test_a_wrong_method_is_405(server: Served) -> None:
    for method, path in itertools.product(
        ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PROPFIND"), ("/", "/ping", "/ready")
    ):
        answer = server.request(path, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET"), (method, path)
        assert "\n" not in answer.body, (method, path)


@pytest.mark.parametrize("bytes_", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_proper_request_has_one_answer_at_most(server: Served, bytes_: bytes) -> None:
    """Where it ends is ambiguous, or it is nothing at all; that it prints nothing is asked at the end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as client:
        client.sendall(bytes_)
        client.shutdown(socket.SHUT_WR)
        answers = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(65536):
                answers += more
    assert len(re.findall(rb"HTTP/1\.[01] [0-9]{3} ", answers)) <= 1
    assert server.request("/ping").body == "pong"


def test_it_listens_on_this_machine_only(server: Served) -> None:
    addresses = [
        connection.laddr.ip
        for process in server.family()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert addresses
    assert set(addresses) == {"127.0.0.1"}


@pytest.mark.parametrize("task", [*BUILTIN_TASKS, "in_slices", "says_umlauts", "awaits"])
def test_every_task_gets_the_same_answer_from_every_strategy(server, choose, task: str, monkeypatch) -> None:
    monkeypatch.chdir(TESTS)
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
        ("raises_cancelled", "CancelledError: by hand"),
        ("raises_awkwardly", "AwkwardError: this and that"),
        ("exits", "SystemExit: a task that thinks it is a program"),
    ],
)
def test_a_task_that_raises_is_a_500_of_one_line_and_the_server_goes_on(server, choose, task: str, body: str) -> None:
    choose(task)
    for _ in range(2):
        answer = server.request("/")
        assert (answer.status, answer.body) == (500, body)
    assert server.request("/ping").body == "pong"
    choose("primes")
    assert server.request("/").status == 200


@every_server
@pytest.mark.parametrize(("task", "by"), [("a_moment", "Ctrl-C"), ("a_moment_of_computing", "SIGTERM")])
def test_told_to_stop_it_finishes_what_it_has_begun_and_leaves_nothing(
    script: Path, task: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that in a folder with a module of the same name as ours."""
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    shutil.copy(TESTS / "sample_tasks.py", tmp_path / "beside_it.py")
    (tmp_path / "common.py").write_text("raise RuntimeError('not this one')")
    with serving(script, "--task", f"beside_it:{task}", "--workers", "1", cwd=tmp_path) as served:
        connections = [served.send("/") for _ in range(3)]  # one at a time: what waits has been accepted, too
        wait_until((tmp_path / "begun").exists)
        family = served.family()
        for process in family if by == "Ctrl-C" else family[:1]:  # a terminal tells the whole group
            process.send_signal(signal.SIGINT if by == "Ctrl-C" else signal.SIGTERM)
        for connection in connections:
            answer = receive(connection)
            assert (answer.status, answer.body) == (200, "at last" if task == "a_moment" else "computed")
        assert served.process.wait(timeout=LIMIT_S) == 0
        assert (served.process.stdout.read(), served.process.stderr.read()) == ("", "")
        wait_until(lambda: all(gone(process) for process in family))
        wait_until(lambda: is_free(served.port))


@pytest.mark.measures
def test_silent_clients_are_not_waited_for_and_idle_ones_do_not_keep_it_from_ending() -> None:
    """All servers at once; sooner than their grace would end them."""
    able = [script for script in SERVERS if not unmet(read_strategy(script).requires)]
    with contextlib.ExitStack() as stack:
        starting = [stack.enter_context(listening(script, start(script, "--port", "0"))) for script in able]
        started, silents = [ready() for ready in starting], []
        for served in started:
            idle = stack.enter_context(contextlib.closing(served.send("/ping")))
            assert idle.getresponse().read() == b"pong"
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 4 * HEAD_LIMIT_S))
            silent.sendall(b"GET /ping HT")
            silents.append(silent)
        for silent in silents:
            while silent.recv(1000):
                pass  # it may be told why
        for served in started:
            served.process.terminate()
        for served in started:
            assert served.process.wait(timeout=4) == 0, served.first_line


def test_whatever_it_has_begun_it_ends_after_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All servers at once, because each takes the whole five seconds."""
    able = [script for script in SERVERS if not unmet(read_strategy(script).requires)]
    with contextlib.ExitStack() as stack:
        starting = []
        for script, task in itertools.product(able, ("half_a_minute", "half_a_minute_of_computing")):
            begun = tmp_path / f"{script.stem}-{task}"
            monkeypatch.setenv("BEGUN", str(begun))
            words = ("--port", "0", "--task", f"sample_tasks:{task}", "--workers", "1")
            starting.append((stack.enter_context(listening(script, start(script, *words))), begun))
        started = []
        for ready, begun in starting:
            served = ready()
            stack.callback(served.send("/").close)
            started.append((served, begun))
        for _, begun in started:
            wait_until(begun.exists)
        families = [served.family() for served, _ in started]
        for served, _ in started:
            served.process.terminate()
        for (served, _), family in zip(started, families, strict=True):
            assert served.process.wait(timeout=LIMIT_S) == 0, served.first_line
            assert served.process.stderr.read() == f"{served.script.stem}: 1 request dropped, not done within 5 s\n"
            wait_until(lambda family=family: all(gone(process) for process in family))
            wait_until(lambda port=served.port: is_free(port))


WORK = """
import time
from pathlib import Path

def work():
    if Path("long").exists():
        Path("begun").touch()
        time.sleep(100)
    return "of the user"
"""


@every_server
def test_killed_it_leaves_no_worker_behind(script: Path, tmp_path: Path) -> None:
    """Started as simply as can be, and where the user has a `common` of their own; killed in the midst of a task."""
    (tmp_path / "common.py").write_text(WORK)
    with serving(script, "--task", "common:work", cwd=tmp_path) as served:
        assert served.request("/").body == "of the user"
        assert int(served.request("/ping").headers["x-workers"]) >= 1
        (tmp_path / "long").touch()
        with contextlib.closing(served.send("/")):
            wait_until((tmp_path / "begun").exists)
            family = served.family()
            served.process.kill()
            wait_until(lambda: all(gone(process) for process in family))
            wait_until(lambda: is_free(served.port))


def refused(script: Path, *options: str) -> str:
    """The line with which it refuses these options."""
    process = start(script, *options)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert len(errors.splitlines()) == 1
    return errors


@pytest.mark.parametrize(("options", "complaint"), MISTAKES)
def test_a_mistake_is_answered_with_one_line_and_exit_code_2(
    options: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked of what reads the options; that every strategy does: test_no_strategy_starts_with_a_mistake."""
    monkeypatch.setattr("sys.argv", [str(SERVERS[1]), "--port", "0", *options])
    with pytest.raises(SystemExit) as ended:
        server_options()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("2_async: ")
    assert complaint in line


def test_a_host_that_is_none_is_answered_with_one_line_and_exit_code_2() -> None:
    assert "can't listen on no.such.host.invalid" in refused(
        SERVERS[1], "--port", "0", "--host", "no.such.host.invalid"
    )


@every_server
def test_no_strategy_starts_with_a_mistake(script: Path) -> None:
    (options, complaint), *_ = MISTAKES
    assert complaint in refused(script, "--port", "0", *options)


@every_server
def test_a_taken_port_is_named_in_one_line(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        complaint = f"can't listen on 127.0.0.1 port {port}: Address already in use; try another"
        assert complaint in refused(script, "--port", str(port))


def test_its_default_task_is_primes_and_its_default_port_follows_its_number() -> None:
    assert [default_port(path.stem) for path in SERVERS] == list(range(8000, 8000 + len(SERVERS)))
    process = start(SERVERS[4], "--help")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "default: 8004" in output
    with serving(SERVERS[4]) as served:
        assert served.first_line == f"5_asyncio: primes on http://127.0.0.1:{served.port}/\n"
        assert served.request("/").body == perform("primes").answer


@every_server
def test_a_file_shows_the_strategy_and_nothing_else(script: Path) -> None:
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
