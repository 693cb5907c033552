"""Errors of a server are reported with the exception from its traceback on stderr."""

from pathlib import Path

import pytest
from bench_runs import without_a_ceiling
from conftest import TESTS, WAITING

from under_siege.host.managed_process import LONGEST_ERROR, Tail, last_error
from under_siege.record.result import load

SERVER = str(TESTS / "servers" / "fails_with_a_traceback.py")
SUFFIX = "; the last error on stderr: KeyError: 'customer'"
HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "app.py", line 3, in report\n    return names["x"]\n           ~~~~~^^^^^\n'


@pytest.mark.parametrize(
    ("stderr", "exception"),
    [
        ("", ""),
        ("no database\n", ""),
        (f"{HEAD}{FRAME}KeyError: 'x'\n", "KeyError: 'x'"),
        (f"ERROR:root:{HEAD}{FRAME}KeyError: 'x'\nINFO: next request\n", "KeyError: 'x'"),
        (f"{HEAD}{FRAME}KeyError: 'x'\n\nDuring handling ...\n\n{HEAD}{FRAME}app.Lost: gone\n", "app.Lost: gone"),
        (f"{HEAD}{FRAME}KeyError: 'x'\n{HEAD}{FRAME}", ""),
        (f"{HEAD}{FRAME}KeyboardInterrupt\n", "KeyboardInterrupt"),
        (f"{HEAD}{FRAME}ValueError: one\n  two\nthree\n", "ValueError: one"),
        (f"{HEAD}{FRAME}ValueError: \x1b[31mred\u202e\n", "ValueError: \ufffd[31mred\ufffd"),
        (f"{HEAD}{FRAME}ValueError: {'x' * 500}\n", f"ValueError: {'x' * 500}"[: LONGEST_ERROR - 1] + "…"),
        (
            "  + Exception Group Traceback (most recent call last):\n"
            '  |   File "a.py", line 1\n  | ExceptionGroup: two\n'
            "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
            "    |   File \"a.py\", line 2\n    | KeyError: 'x'\n    +------------------------------------\n",
            "KeyError: 'x'",
        ),
    ],
)
def test_the_exception_of_the_last_traceback_is_found(stderr: str, exception: str) -> None:
    assert last_error(stderr) == exception


def test_the_exception_of_a_long_traceback_is_found() -> None:
    stderr = HEAD + FRAME * 100 + "RecursionError: too deep\n"
    assert stderr.count("\n") > 3 * Tail.LINES
    assert last_error(stderr) == "RecursionError: too deep"


def test_a_failed_trace_shows_the_exception(run_cli) -> None:
    ended = run_cli("trace", SERVER, "--requests", "1", *WAITING)
    assert ended.returncode == 1
    shown = " ".join(ended.stdout.split())
    assert (
        f"returned 500 with 21 bytes 'Internal Server Error' instead of 200 with 9 bytes 'signed up'{SUFFIX}" in shown
    )


def test_a_failed_response_check_under_load_shows_the_exception(run_cli, tmp_path: Path) -> None:
    few = ["--rounds", "1", "--time", "2s", "--users", "1", "--out", "r.json"]
    with without_a_ceiling():
        ended = run_cli("run", SERVER, *few, *WAITING, env={"FINE": "3"})
    assert ended.returncode in (1, 3), ended.stderr
    (record,) = load(tmp_path / "r.json").records
    assert any(problem.endswith(SUFFIX) for problem in record.checks.problem)
    assert "the last error on stderr: KeyError: 'customer'" in " ".join(ended.stdout.split())
