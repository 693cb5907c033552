"""Fixtures and hooks for all tests: start servers and bench.py, and check that no test leaves processes behind.

The folder of a test is its ring, which has one rule:

* unit: pure, from records to figures, verdicts, views and texts. No process, no network, no sleep.
* live: real processes beside each other. What these tests assert is true however slow the machine is: responses, exit
  codes, ended processes, the structure of results. They wait for conditions, never for a time.
* measuring: what only a measurement shows. One test at a time.
* extended: studies, whole suites and long measurements, only with --all. So are variants marked `slow`.
"""

import asyncio
import contextlib
import dataclasses
import functools
import gc
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from command import CommandResult, invoke
from golden_file import assert_section
from leftover_processes import Look, described, end, marking
from other_pythons import ALL_PYTHONS, other_pythons
from scheduling import OrderedScheduling, ordered

from under_siege.host.environments import with_packages
from under_siege.host.interpreter import Interpreter
from under_siege.host.managed_process import offspring
from under_siege.host.programs import unmet
from under_siege.suite.server_files import read_strategy

pytest_plugins = ("cpu_costs", "pure_tests")

TESTS = Path(__file__).parent
SUPPORT = TESTS / "support"
ROOT = TESTS.parent
SERVERS = sorted((ROOT / "servers").glob("*.py"), key=lambda path: int(path.stem.split("_")[0]))
LIMIT_S = 90.0  # timeout for what hangs; a busy machine takes its time
WAITING = ("--task", "sign_up")  # an I/O-bound task, for runs in which the task does not matter

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell; servers would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


RINGS = {"unit", "live", "measuring"}  # folders whose tests always run; the tests in `extended` need --all


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="update the expected files instead of comparing with them")
    parser.addoption("--all", action="store_true", help="also run tests/extended, slow variants and the other Pythons")
    parser.addoption(
        "--measuring", choices=["no", "only"], help="no: skip the tests in tests/measuring; only: skip all others"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[ALL_PYTHONS] = "1"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't import tests that will not run, unless the command names them: importing takes time."""
    ring = collection_path.relative_to(TESTS).parts[:1]
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or not ring or collection_path.parent != TESTS:
        return None
    return True if collection_path.is_dir() and not _runs(ring[0], config) else None


def _runs(ring: str, config: pytest.Config) -> bool:
    """Return whether the options choose the tests in this folder."""
    measuring = config.getoption("--measuring")
    is_chosen = measuring is None or (ring == "measuring") == (measuring == "only")
    return is_chosen and (ring in RINGS or config.getoption("--all"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that the options choose, and sort them."""

    def is_chosen(item: pytest.Item) -> bool:
        is_slow = item.get_closest_marker("slow") and not config.getoption("--all")
        return _runs(item.path.relative_to(TESTS).parts[0], config) and not is_slow

    chosen = [item for item in items if is_chosen(item)]
    config.hook.pytest_deselected(items=list({*items}.difference(chosen)))
    items[:] = ordered(chosen, several_processes=hasattr(config, "workerinput"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason for skipping once, with the number of skipped tests."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    for reason, tests in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {tests}: {reason}")


def pytest_collection() -> None:
    """Disable garbage collection until all test files are imported, to save time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude imported objects from later garbage collections, and enable garbage collection again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OrderedScheduling:
    return OrderedScheduling(config, log)


@pytest.fixture
def renew(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--renew"))


@pytest.fixture
def golden(request: pytest.FixtureRequest, renew: bool) -> Callable[..., None]:
    """Return a function that compares texts with the section of this test in tests/golden/MODULE.txt."""
    module = request.path.stem.removeprefix("test_")
    return functools.partial(assert_section, module, request.node.name, renew=renew)


def thorough(values: Iterable[object], quick: Sequence[object]) -> list[object]:
    """Return the values as test parameters; those that are not in `quick` run only with `--all`."""
    arguments = [value if isinstance(value, tuple) else (value,) for value in values]
    fast = [value if isinstance(value, tuple) else (value,) for value in quick]
    return [pytest.param(*these, marks=() if these in fast else pytest.mark.slow) for these in arguments]


def wait_until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> object:
    """Call the condition until its result is true, and return this result; fail after `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{condition} was not true within {limit_s} s"
        time.sleep(0.03)  # polling more often would be expensive, because some conditions inspect all processes
    return result


@dataclasses.dataclass
class Answer:
    status: int
    body: str
    headers: dict[str, str]


@dataclasses.dataclass
class Served:
    """A running server."""

    script: Path
    process: subprocess.Popen[str]
    first_line: str
    port: int
    sent: list[http.client.HTTPConnection]  # closed when the server is stopped, even if the test failed

    def request(self, path: str = "/", method: str = "GET") -> Answer:
        return receive(self.send(path, method))

    def send(self, path: str = "/", method: str = "GET") -> http.client.HTTPConnection:
        """Send a request and return its connection, from which `receive` reads the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        self.sent.append(connection)
        connection.request(method, path)
        return connection

    def family(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *offspring(self.process.pid)]


def receive(connection: http.client.HTTPConnection) -> Answer:
    with contextlib.closing(connection):
        response = connection.getresponse()
        return Answer(response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()})


@functools.cache
def python_for(script: Path) -> str:
    """Return the path of this Python or, if it can't run the server, of another Python on the PATH.

    Skip the test if no Python can run the server.
    """
    requires = read_strategy(script).requires
    unmet_requirement = unmet(requires)
    if not unmet_requirement:
        return sys.executable
    for other in other_pythons():
        if not unmet(requires, other.minor):
            return with_servers_packages(other).path
    pytest.skip(f"{script.stem} {unmet_requirement}; no Python on the PATH meets this requirement")


@functools.cache
def with_servers_packages(python: Interpreter) -> Interpreter:
    return asyncio.run(with_packages(python, print))


def start(script: Path, *options: str, cwd: Path = SUPPORT, python: Interpreter | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [with_servers_packages(python).path if python else python_for(script), str(script), *options],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def listening(script: Path, process: subprocess.Popen[str]) -> Iterator[Callable[[], Served]]:
    """Yield a function that waits until the server listens; kill the server and its children at the end."""
    sent: list[http.client.HTTPConnection] = []

    def ready() -> Served:
        first_line = process.stdout.readline()
        assert first_line, process.stderr.read()
        return Served(script, process, first_line, int(re.search(r":(\d+)/$", first_line)[1]), sent)

    try:
        yield ready
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if not process.stdout.closed:
            process.communicate()
        for connection in sent:
            connection.close()


@contextlib.contextmanager
def serving(script: Path, *options: str, cwd: Path = SUPPORT, python: Interpreter | None = None) -> Iterator[Served]:
    """Start the server on a free port; kill it at the end."""
    with listening(script, start(script, "--port", "0", *options, cwd=cwd, python=python)) as ready:
        yield ready()


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


GIL_ENABLED = re.compile(r"RuntimeWarning: The global interpreter lock \(GIL\) has been enabled to load module 'gevent")

POOL_OF_PYTHON_3_11 = re.compile(
    r"Exception in thread Thread-\d+:\nTraceback \(most recent call last\):\n(?:  .*\n)+"
    r"concurrent\.futures\._base\.InvalidStateError: CANCELLED: .*\n?"
)


def printed(errors: str) -> list[str]:
    """Return the lines that a server printed on stderr, except those that come from Python or a library itself.

    These are the warning of free-threaded Pythons about gevent and, at the end of a pool with cancelled tasks, a
    traceback of `ProcessPoolExecutor` in Python 3.11, which a later Python no longer prints.
    """
    errors = POOL_OF_PYTHON_3_11.sub("", errors)
    return [line for line in errors.splitlines() if not GIL_ENABLED.search(line)]


def bench_command(*words: str) -> list[str]:
    return [sys.executable, str(ROOT / "bench.py"), *words]


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs bench.py as a subprocess in an empty directory."""

    def call(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            bench_command(*words), cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **(env or {})}
        )

    return call


@pytest.fixture
def run_cli(tmp_path: Path) -> Callable[..., CommandResult]:
    """Return a function that runs bench.py in this process, which saves the second that imports take."""

    def call(*words: str, env: dict[str, str] | None = None) -> CommandResult:
        return invoke(*words, folder=tmp_path, env=env)

    return call


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Don't draw the charts of pages, which would take a second.

    Chart specifications are still created; test_charts.py tests that they can be drawn.
    """
    monkeypatch.setattr("under_siege.show.html_page.for_page", lambda *_: "<svg></svg>")


@pytest.fixture(autouse=True, scope="session")
def no_leftovers_of_fixtures() -> Iterator[None]:
    """Check at the end of the session that no fixture left processes behind."""
    with marking() as left:
        yield
        _check_leftovers(left)


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest, no_leftovers_of_fixtures: None) -> Iterator[None]:
    """Check after every test that it left no processes behind."""
    if request.path.relative_to(TESTS).parts[0] == "unit":  # pure_tests.py refuses processes
        yield
        return
    with marking() as left:
        yield
        _check_leftovers(left)


def _check_leftovers(left: Look) -> None:
    deadline = time.monotonic() + LIMIT_S
    while found := left():
        if time.monotonic() > deadline:
            leftovers = described(found)
            end(found)
            pytest.fail(f"left behind: {leftovers}", pytrace=False)
        time.sleep(0.01)
