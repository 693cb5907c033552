#!/usr/bin/env python3
"""Measure how much longer a response takes if the wrapper of the "what if" rows answers it elsewhere.

    .venv/bin/python scripts/what_if_overhead.py

A client sends requests to two equal routes of a FastAPI and of a Flask application in turn, one of which is moved. The
script prints the difference of their median response times, and how much of a response each route takes.
"""

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from under_siege.suite.what_if import FOLDER, WRAPPER

REQUESTS = 2000
FIRST = 500  # the first responses are not counted
PORT = 18767
APPLICATIONS = {
    "asgi": "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/moved')\nasync def moved(): return 'x'\n"
    "@app.get('/stays')\nasync def stays(): return 'x'\n",
    "wsgi": "from flask import Flask\napp = Flask(__name__)\n@app.get('/moved')\ndef moved(): return 'x'\n"
    "@app.get('/stays')\ndef stays(): return 'x'\n",
}
COMMANDS = {
    "asgi": f"uvicorn --factory {WRAPPER}:asgi --port {PORT} --no-access-log --log-level critical",
    "wsgi": f"gunicorn {WRAPPER}:wsgi() -k gthread --threads 40 -b 127.0.0.1:{PORT} --keep-alive 5",
}


def response_times_ms(connection: http.client.HTTPConnection) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"/moved": [], "/stays": []}
    for _ in range(REQUESTS):
        for path, times_ms in times.items():
            began_s = time.perf_counter()
            connection.request("GET", path)
            connection.getresponse().read()
            times_ms.append(1000 * (time.perf_counter() - began_s))
    return {path: times_ms[FIRST:] for path, times_ms in times.items()}


def connected(server: "subprocess.Popen[bytes]") -> http.client.HTTPConnection:
    while server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        try:
            connection.request("GET", "/stays")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.1)
        else:
            return connection
    raise SystemExit("what_if_overhead: the server ended before its first response")


def measure(kind: str, pool: str, folder: str) -> dict[str, list[float]]:
    """Return the response times of both routes, in milliseconds."""
    variables = {"PYTHONPATH": str(FOLDER), "UNDER_SIEGE_APP": f"{kind}_app:app", "UNDER_SIEGE_ROUTE": "/moved"}
    command: Sequence[str] = [sys.executable, "-m", *COMMANDS[kind].split()]
    server = subprocess.Popen(command, env={**os.environ, **variables, "UNDER_SIEGE_POOL": pool}, cwd=folder)
    try:
        return response_times_ms(connected(server))
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind, source in APPLICATIONS.items():
            Path(folder, f"{kind}_app.py").write_text(source)
        for kind, pool in (("asgi", "2"), ("asgi", "threads"), ("wsgi", "2")):
            medians = {path: statistics.median(times) for path, times in measure(kind, pool, folder).items()}
            place = "threads" if pool == "threads" else f"{pool} processes"
            print(
                f"{kind} in {place}: {medians['/moved'] - medians['/stays']:.3f} ms longer; "
                f"as it is, a response takes {medians['/stays']:.3f} ms"
            )


if __name__ == "__main__":
    main()
