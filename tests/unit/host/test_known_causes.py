"""Errors whose cause lies outside the code that raises them."""

import json

import pytest

from under_siege.host.known_causes import known_cause
from under_siege.host.managed_process import last_error, last_line

OUTPUTS = {
    "RuntimeError: asyncio.run() cannot be called from a running event loop": "while its event loop runs",
    "RuntimeError: no running event loop": "before its loop runs",
    "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused.": (
        "nothing listens at localhost:6379, where Redis usually does, so start it first"
    ),
    "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 5432)": "127.0.0.1:5432, where PostgreSQL",
    'connection to server at "db" (10.0.0.2), port 5433 failed: Connection refused': "db:5433 so start it",
    'connection to server on socket "/run/postgresql/.s.PGSQL.5432" failed: No such file or directory': (
        "nothing listens at /run/postgresql:5432, where PostgreSQL usually does, so start it first"
    ),
    'connection to server on socket "/run/.s.PGSQL.5432" failed: FATAL:  role "root" does not exist': "",
    "[2026-11-28] [7] [CRITICAL] WORKER TIMEOUT (pid:8)": "raise --timeout, or use gthread",
    "WARNING: Maximum request limit of 50 exceeded. Terminating process.": "a supervisor has to start it again",
    "(2003, \"Can't connect to MySQL server on 'db' ([Errno 111] Connection refused)\")": "listens at db at the port",
    "(2003, \"Can't connect to MySQL server on '127.0.0.1:3307' (111)\")": "nothing listens at 127.0.0.1:3307 so",
    "(2003, \"Can't connect to MySQL server on 'db' ([Errno -2] Name or service not known)\")": "",
    "(2003, \"Can't connect to MySQL server on 'db' (timed out)\")": "",
    "Error 110 connecting to 10.0.0.1:6379. Connection timed out.": "",
    "OSError: [Errno 113] Connect call failed ('10.0.0.1', 5432)": "",
    "KeyError: 'x'": "",
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_cause_of_an_error_is_known(output: str) -> None:
    cause = known_cause(f"Traceback (most recent call last):\n{output}\n")
    assert OUTPUTS[output] in cause
    assert bool(OUTPUTS[output]) == bool(cause)


def test_the_last_error_counts() -> None:
    first, second = list(OUTPUTS)[1:3]
    assert "Redis" in known_cause(f"{first}\n{second}\n")


def test_a_refused_connection_counts_only_if_it_led_to_the_last_exception() -> None:
    refused = "Error 111 connecting to localhost:6379. Connection refused."
    key = "Traceback (most recent call last):\nKeyError: 'SECRET'\n"
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    redis = f"Traceback (most recent call last):\nredis.exceptions.ConnectionError: {refused}\n"
    assert known_cause(f"WARNING cache off: {refused}\n{key}") == ""
    assert known_cause(f"{redis}{key}") == ""
    assert "Redis" in known_cause(f"{redis}{chained}{key}")
    assert "Redis" in known_cause(f"{key}{redis}")
    assert "Redis" in known_cause(refused)
    assert "raise --timeout" in known_cause(f"[CRITICAL] WORKER TIMEOUT (pid:8)\n{key}")


TRACEBACK = 'Traceback (most recent call last):\n  File "app.py", line 3\n{}'
REDIS = "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused."
LOGS = {
    "structlog": {"event": "failed", "level": "error", "exception": TRACEBACK.format(REDIS)},
    "structlog, structured": {
        "event": "failed",
        "exception": [{"exc_type": "ConnectionError", "exc_value": REDIS.partition(": ")[2], "frames": []}],
    },
    "python-json-logger": {"message": "failed", "exc_info": TRACEBACK.format(REDIS)},
    "loguru": {"text": f"12:00 | ERROR | failed\n{TRACEBACK.format(REDIS)}\n", "record": {"level": {"name": "ERROR"}}},
}


@pytest.mark.parametrize("library", LOGS)
def test_an_error_in_a_json_log_has_the_cause_and_the_exception_of_a_plain_one(library: str) -> None:
    before, after = json.dumps({"event": "started"}), json.dumps({"event": "stopping"})
    output = f"{before}\n{json.dumps(LOGS[library])}\n{after}\n"
    assert "where Redis usually does" in known_cause(output)
    assert last_error(output).endswith("ConnectionError: Error 111 connecting to localhost:6379. Connection refused.")
    assert last_line(output) == "its last line: stopping"
    assert last_error('{"event": "started"}\n{not JSON}\n') == known_cause('{"event": "started"}\n[1]\n') == ""
