"""Locate the project's files, and provide the arguments and environment that any Python needs to run its scripts."""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_BUNDLED = PACKAGE / "bundled"  # holds servers, common, lesson and its results if the bench was installed from a wheel
IS_INSTALLED = _BUNDLED.is_dir()
ROOT = _BUNDLED if IS_INSTALLED else PACKAGE.parent
_STARTED = Path(sys.argv[0]).name
PROGRAM = "under-siege" if IS_INSTALLED or _STARTED == "under-siege" else "bench.py"  # the command in messages
# The command that users can paste, in the form in which they started the program.
if PROGRAM == "under-siege":
    INVOCATION = PROGRAM
elif _STARTED == PROGRAM:
    INVOCATION = shlex.join([sys.orig_argv[0], sys.argv[0]])
else:
    INVOCATION = f"python {PROGRAM}"
# Whether this process is the bench itself, not another program that imports it, such as pytest.
IS_PROGRAM = _STARTED in ("bench.py", "under-siege") or Path(sys.argv[0]) == PACKAGE / "__main__.py"
HOST = "127.0.0.1"
USERS = 25  # default number of concurrent users, as in run_benchmark.sh


def own_command() -> list[str]:
    """Return the words that start this program again, with the same Python and arguments."""
    return [sys.executable, *sys.orig_argv[1:]] if IS_PROGRAM else [PROGRAM, *sys.argv[1:]]


def cache_directory() -> Path:
    """Return the directory for virtual environments: the repository or, if it is read-only, the user's cache."""
    if not IS_INSTALLED and os.access(ROOT, os.W_OK):
        return ROOT
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "under-siege"


def script(name: str, **arguments: object) -> list[str]:
    """Return the Python arguments that run a module of `subprocess_scripts` with these arguments, as a JSON object."""
    return ["-P", str(PACKAGE / "subprocess_scripts" / f"{name}.py"), json.dumps(arguments)]  # -P: not on sys.path


def server_environment() -> dict[str, str]:
    """Return this process's environment, changed so that any interpreter can import `common`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextlib.contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable, which new processes inherit, while the context is active."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
