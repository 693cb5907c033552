"""Find and describe the Python interpreters that run servers."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.errors import BadInputError
from under_siege.paths import server_environment
from under_siege.record.result_file import legible

_DESCRIBE = """
import json, platform, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
version = platform.python_version() + ("t" if free else "")
packages = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
in_venv = sys.prefix != sys.base_prefix
answer = [version, " ".join(sys.version.split()), sys.version_info[:2], sys.prefix, in_venv * packages]
"""
OLDEST_PYTHON = (3, 11)  # for servers that import `common`
OLDEST_USER_PYTHON = (3, 9)  # for the servers of a suite or an application
_PACKAGES = (
    *("aiohttp", "celery", "distributed", "flask", "gevent", "gunicorn", "kombu", "pebble", "psutil", "redis"),
    *("bottle", "cheroot", "django", "fastapi", "granian", "hypercorn", "litestar", "starlette", "tornado", "uvicorn"),
    *("waitress", "werkzeug"),
)
_LIST_PACKAGES = f"""
import importlib.metadata, json
answer = {{}}
for name in {_PACKAGES}:
    try:
        answer[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
"""
_LIST_DIRECTORIES = """
import json, sys
answer = [path for path in sys.path if path.endswith("-packages")]
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    version: str  # version number; ends in `t` if free-threaded
    build: str  # `sys.version`
    minor: tuple[int, int]  # such as (3, 14)
    prefix: str
    packages: tuple[str, ...] = ()  # package directories, if it belongs to a virtual environment
    missing: tuple[tuple[str, str], ...] = ()  # packages that can't be installed, each with the reason

    def is_same_as(self, other: "Interpreter") -> bool:
        """Return whether both interpreters are the same installation and build, perhaps under different names."""
        return (self.prefix, self.build) == (other.prefix, other.build)

    def why_missing(self, package: str) -> str:
        """Return why the package can't be installed, or an empty string if the reason is unknown."""
        return dict(self.missing).get(package, "")


def interpreter(path: str = sys.executable, oldest: tuple[int, int] = OLDEST_PYTHON) -> Interpreter:
    """Return the interpreter with this path or name; raise BadInputError if it is older than `oldest`."""
    least = "{}.{}".format(*oldest)
    if (found := shutil.which(path)) is None:
        raise BadInputError(f"no interpreter {path!r}: expected the path or the name of a Python interpreter")
    # Make the path absolute, because servers run in other directories. Keep links: virtual environments depend on them.
    program = str(Path(found).absolute())
    try:
        version, build, minor, prefix, packages = evaluate(program, _DESCRIBE)
    except (OSError, subprocess.SubprocessError, ValueError):
        raise BadInputError(f"{path!r} does not run as Python; expected Python {least} or later") from None
    if tuple(minor) < oldest:
        raise BadInputError(f"{path!r} is Python {version}; expected {least} or later")
    return Interpreter(program, version, build, tuple(minor), prefix, tuple(packages))


def packages_of(python: str) -> dict[str, str]:
    """Return the versions of installed packages that servers might use, or an empty dict if the Python does not run."""
    try:
        versions: dict[str, str] = evaluate(python, _LIST_PACKAGES, "-I")
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return versions


def package_directories(python: str) -> list[str]:
    """Return the directories from which a Python imports packages; raise the same errors as `evaluate`."""
    paths: list[str] = evaluate(python, _LIST_DIRECTORIES)
    return paths


def evaluate(python: str, source: str, *options: str) -> Any:
    """Run the source with a Python, and return the value of its variable `answer`, transferred as JSON.

    If `python` is the Python of the bench, the source runs in this process.

    Raises:
        OSError, subprocess.SubprocessError, ValueError: the Python or the source fails.
    """
    if python == sys.executable:
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 (a constant)
        return json.loads(json.dumps(names["answer"]))
    command = [python, *options, "-c", f"{source}\nprint(json.dumps(answer))"]
    return json.loads(
        subprocess.run(command, env=server_environment(), capture_output=True, timeout=30, check=True).stdout
    )


def distinct(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return the interpreters without duplicates; the same interpreter under another name is a duplicate, too."""
    return [each for index, each in enumerate(interpreters) if not any(map(each.is_same_as, interpreters[:index]))]


def with_unique_versions(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return the interpreters; add the directory to the version if several interpreters have the same version."""
    versions = [each.version for each in interpreters]
    return [
        replace(each, version=legible(f"{each.version} in {each.prefix}")) if versions.count(each.version) > 1 else each
        for each in interpreters
    ]
