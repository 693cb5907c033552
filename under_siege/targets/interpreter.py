"""The Python that runs a server: where it is and which it is."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

from common.errors import BadInputError
from under_siege.model.result_file import legible
from under_siege.paths import server_environment

_ASK = """
import json, platform, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
version = platform.python_version() + ("t" if free else "")
packages = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
in_venv = sys.prefix != sys.base_prefix
answer = [version, " ".join(sys.version.split()), sys.version_info[:2], sys.prefix, in_venv * packages]
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: its path and its version, with a `t` behind it if it was built without the GIL."""

    path: str
    version: str
    build: str  # as `sys.version` says
    minor: tuple[int, int]  # (3, 14)
    prefix: str
    packages: tuple[str, ...] = ()  # the folders of its packages if it is that of a virtual environment
    missing: tuple[tuple[str, str], ...] = ()  # packages that it can't have, each with the reason

    def is_same_as(self, other: "Interpreter") -> bool:
        """Whether it is the same Python, perhaps under another name: in the same place, and built at the same time."""
        return (self.prefix, self.build) == (other.prefix, other.build)

    def why_missing(self, package: str) -> str:
        """Why it does not have the package; empty where that isn't known."""
        return dict(self.missing).get(package, "")


def interpreter(path: str = sys.executable) -> Interpreter:
    """Return the interpreter as it describes itself.

    Raises:
        BadInputError: it isn't there, isn't a Python, or is older than 3.11.
    """
    found = shutil.which(path)
    if found is None:
        raise BadInputError(f"no interpreter {path!r}: expected the path or the name of a Python")
    try:
        version, build, minor, prefix, packages = answer_of(found, _ASK)
    except (OSError, subprocess.SubprocessError, ValueError):
        raise BadInputError(f"{path!r} is not a Python that runs") from None
    if tuple(minor) < (3, 11):
        raise BadInputError(f"{path!r} is Python {version}; expected 3.11 or later")
    return Interpreter(found, version, build, tuple(minor), prefix, tuple(packages))


def answer_of(python: str, source: str, *options: str) -> Any:
    """Return the JSON value of `answer` once the Python has run the source; the Python of the bench needs no process.

    Raises:
        OSError, subprocess.SubprocessError, ValueError: it can't run.
    """
    if python == sys.executable:
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 (a constant)
        return json.loads(json.dumps(names["answer"]))
    command = [python, *options, "-c", f"{source}\nprint(json.dumps(answer))"]
    return json.loads(
        subprocess.run(command, env=server_environment(), capture_output=True, timeout=30, check=True).stdout
    )


def each_once(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return them without those that are another name for one before them."""
    return [one for index, one in enumerate(interpreters) if not any(map(one.is_same_as, interpreters[:index]))]


def told_apart(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return them with the directory behind the version of those that share it with another."""
    versions = [one.version for one in interpreters]
    return [
        replace(one, version=legible(f"{one.version} in {one.prefix}")) if versions.count(one.version) > 1 else one
        for one in interpreters
    ]
