"""The servers of suites/streams send the same stream, one event after another."""

import contextlib
import http.client
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
from conftest import ROOT, wait_until

SUITE = ROOT / "suites" / "streams"
SERVERS = tomllib.loads((SUITE / "suite.toml").read_text())["servers"]


@contextlib.contextmanager
def connection_to(name: str) -> Iterator[http.client.HTTPConnection]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program, *arguments = shlex.split(
        SERVERS[name]["command"].format(python=sys.executable, host="127.0.0.1", port=port)
    )
    command = [program, *arguments] if program == sys.executable else [sys.executable, "-m", program, *arguments]
    process = subprocess.Popen(command, cwd=SUITE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_ready() -> bool:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            try:
                connection.request("GET", "/health")
                return b"ok" in connection.getresponse().read()
            except OSError:
                return False

    try:
        wait_until(is_ready)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            yield connection
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_of_the_suite_sends_fifty_events_one_after_another(name: str) -> None:
    with connection_to(name) as connection:
        connection.request("GET", "/chat")
        response = connection.getresponse()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        pieces = list(iter(lambda: response.read1(65536), b""))
    events = b"".join(pieces).decode().split("\n\n")[:-1]
    assert [int(event.split()[1]) for event in events] == list(range(50))
    assert len(pieces) > 5  # a buffer would send all of them together
