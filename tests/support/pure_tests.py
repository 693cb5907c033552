"""Pytest plugin that fails a test of tests/unit as soon as it starts a process, uses the network or sleeps."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[1] / "unit"
FORBIDDEN = {
    *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"),
    "time.sleep",  # from Python 3.13 on
}
running: set[Path] = set()  # the file of the unit test that runs now, if any


def refuse(event: str, _: object) -> None:
    if running and event in FORBIDDEN:
        pytest.fail(f"{event}: a test in tests/unit starts no process, uses no network, and does not sleep")


sys.addaudithook(refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running.update({item.path} if item.path.is_relative_to(UNIT) else ())
    try:
        return (yield)
    finally:
        running.clear()
