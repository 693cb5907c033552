"""Endless responses: the bench reads them up to a limit, and reports that they are too long."""

import asyncio
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest
from conftest import TESTS, WAITING, bench_command

from under_siege.host.managed_process import LONGEST_LINE_BYTES, reading_lines, until
from under_siege.load.http_client import HttpResponse, client, fetch
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load

ENDLESS = ["endless_answer", "endless_else"]
MOST_BYTES = 300_000_000
OK = b"HTTP/1.1 200 OK\r\n"


def test_endless_responses_do_not_exhaust_memory_or_affect_other_cases(tmp_path: Path) -> None:
    for name in ENDLESS:
        shutil.copy(TESTS / "servers" / "sends_endlessly.py", tmp_path / f"{name}.py")
    servers = [str(tmp_path / f"{name}.py") for name in ENDLESS]
    options = ["--time", "1s", "--rounds", "1", "--users", "2", "--workers", "1", "--out", "r.json", "--quiet"]
    options += WAITING
    command = bench_command("run", *servers, *options)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as bench:
        most_bytes = 0
        while bench.poll() is None:
            most_bytes = max(most_bytes, memory_bytes(bench.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                bench.wait(0.02)
        assert b"Traceback" not in bench.stderr.read()
    assert most_bytes < MOST_BYTES
    records = {record.server: record for record in load(tmp_path / "r.json").records}
    assert records["endless_answer"].failure.code == "wrong_answer"
    assert records["endless_answer"].failure.message.endswith("/ returned more than 65,545 bytes")
    assert any(problem.endswith("returned more than 65,536 bytes") for problem in records["endless_else"].pings.problem)
    assert records["endless_else"].transactions.status
    assert records["endless_else"].workers is None
    assert 0 < len(records["endless_else"].server_said) <= 4000


def memory_bytes(pid: int) -> int:
    """Return the peak memory of the process; 0 if it has just ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return 1024 * int(found[1]) if found else 0
    return 0


class EndlessServer:
    """A server that sends one client the head, and then repeats the block until the client disconnects."""

    def __init__(self, head: bytes, block: bytes = b"", pause_s: float = 0.0) -> None:
        self._head, self._block, self._pause_s = head, block, pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._talk)

    def answer(self, limit_s: float = 20.0) -> HttpResponse:
        """Fetch a response as the bench does; return it once the connection is closed."""

        async def ask() -> HttpResponse:
            async with client() as session:
                return await fetch(session, self.url, limit_s, expected_bytes=4)

        self._thread.start()
        try:
            with self._listener:
                return asyncio.run(ask())
        finally:
            self._thread.join(20)
            assert not self._thread.is_alive(), "the connection is still open"

    def _talk(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(self._head)
            while self._block:
                connection.sendall(self._block)
                time.sleep(self._pause_s)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (b"Connection: close\r\n\r\n", b"x" * 65536),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10000),
    ],
    ids=["without a length", "chunked"],
)
def test_an_endless_body_is_read_up_to_a_limit(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError, match=r"returned more than 65,540 bytes$") as caught:
        EndlessServer(OK + head, block).answer()
    assert caught.value.code == "wrong_answer"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (OK, b"X-More: and more\r\n" * 1000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: and more\r\n" * 1000),
    ],
    ids=["many headers", "many trailers"],
)
def test_endless_headers_cause_an_error_before_the_timeout(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError) as caught:
        EndlessServer(head, block).answer()
    assert caught.value.code == "no_answer"
    assert "not answered within" not in str(caught.value)  # the error is reported before the timeout
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (OK + b"\r\n", b"x"),
        (OK, b"X-More: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "headers", "continue"],
)
def test_an_endless_response_that_arrives_slowly_times_out(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError, match=r"was not answered within 0\.3 s"):
        EndlessServer(head, block, pause_s=0.05).answer(limit_s=0.3)


def test_an_overlong_output_line_is_truncated_and_the_next_line_is_read() -> None:
    taken: list[str] = []
    script = "import sys; sys.stdout.write(1000 * 1000 * 'x' + '\\nnext\\n')"

    async def read(stream: IO[bytes]) -> None:
        with reading_lines(stream.fileno(), lambda line, _: taken.append(line)):
            await until(lambda: len(taken) == 2, 20)

    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        asyncio.run(read(process.stdout))
    assert taken == ["x" * LONGEST_LINE_BYTES, "next"]
