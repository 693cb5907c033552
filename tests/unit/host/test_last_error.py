"""The exception that is quoted from the stderr of a server."""

import pytest

from under_siege.host.managed_process import LONGEST_ERROR, Tail, last_error

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
