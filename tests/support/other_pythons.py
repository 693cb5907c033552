"""Find other Python versions on the PATH, if all Pythons are to be tested (`./run_tests.sh --all`).

Run as a script, this module creates the environments in which tests run servers with these versions.
"""

import asyncio
import contextlib
import functools
import os
import sys
from pathlib import Path

from common.errors import BadInputError
from under_siege.host.environments import with_packages
from under_siege.host.interpreter import OLDEST_USER_PYTHON, Interpreter, distinct, interpreter

ALL_PYTHONS = "UNDER_SIEGE_ALL_PYTHONS"  # this environment variable is set if they are
NAMES = ["python3.11", "python3.12", "python3.13", "python3.14", "python3.14t", "python3.15", "python3.15t"]


@functools.cache
def other_pythons() -> tuple[Interpreter, ...]:
    """Return one interpreter for each version on the PATH except that of the tests, in ascending order."""
    found = []
    for name in NAMES if ALL_PYTHONS in os.environ else ():
        try:
            found.append(interpreter(name))
        except BadInputError:  # not installed, or a launcher that finds no Python
            continue
    return tuple(python for python in distinct(found) if python.build != interpreter().build)


@functools.cache
def old_pythons() -> tuple[Interpreter, ...]:
    """Return the installed Pythons, also those of pyenv, that run applications of users but not the bench."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = []
    for name in ("3.9", "3.10") if ALL_PYTHONS in os.environ else ():
        for path in (f"python{name}", *map(str, sorted(root.glob(f"versions/{name}.*/bin/python")))):
            with contextlib.suppress(BadInputError):
                found.append(interpreter(path, OLDEST_USER_PYTHON))
                break
    return tuple(found)


def _tell(line: str) -> None:
    if line.startswith("creating"):
        print("setup:", line, file=sys.stderr)


async def _make_all() -> None:
    for python in other_pythons():
        await with_packages(python, _tell)


if __name__ == "__main__":
    asyncio.run(_make_all())
