"""Students make mistakes in a server file, and start its application with the library's command."""

import http.client
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import LIMIT_S, ROOT, is_free, serving, wait_until

SERVERS = ROOT / "servers"


@pytest.mark.parametrize("name", ["1_sync", "2_async", "5_asyncio", "6_gevent", "8_prefork", "11_fastapi"])
def test_a_mistake_in_a_handler_is_printed_with_its_line(name: str, tmp_path: Path) -> None:
    text = (SERVERS / f"{name}.py").read_text()
    mistaken = tmp_path / f"{name}.py"
    mistaken.write_text(re.sub(r"perform\w*\(", "misspelt(", text))
    with serving(mistaken) as served:
        assert served.request("/").status == 500
        served.process.terminate()
        _, errors = served.process.communicate(timeout=LIMIT_S)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "perform(" in line or "slices(" in line)
    assert f'{name}.py", line {line}, in ' in errors
    assert errors.rstrip().endswith("NameError: name 'misspelt' is not defined")


@contextmanager
def running(*command: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", *command], cwd=SERVERS, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(LIMIT_S)


@pytest.mark.parametrize("command", ["uvicorn 11_fastapi:app --port {}", "gunicorn 8_prefork:app --bind 127.0.0.1:{}"])
def test_the_command_of_the_library_serves_the_application_of_a_file(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(*command.format(port).split()):
        wait_until(lambda: not is_free(port))
        bodies = {}
        for path in ("/", "/ping", "/ready"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
            connection.request("GET", path)
            bodies[path] = connection.getresponse().read()
            connection.close()
    assert bodies == {"/": b"4017", "/ping": b"pong", "/ready": b"ready"}
