"""The Python that runs a server: where it is and which it is."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass

from common.errors import BadInputError

_ASK = """
import json, platform, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
version = platform.python_version() + ("t" if free else "")
print(json.dumps([version, " ".join(sys.version.split()), sys.version_info >= (3, 11)]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: its path and its version, with a `t` behind it if it was built without the GIL."""

    path: str
    version: str
    build: str  # as `sys.version` says


def interpreter(path: str = sys.executable) -> Interpreter:
    """Asks the interpreter who it is.

    Raises:
        BadInputError: it isn't there, isn't a Python, or is older than 3.11.
    """
    found = shutil.which(path)
    if found is None:
        raise BadInputError(f"no interpreter {path!r}: expected the path or the name of a Python")
    try:
        asked = subprocess.run([found, "-c", _ASK], capture_output=True, timeout=30, check=True)
        version, build, new_enough = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        raise BadInputError(f"{path!r} is not a Python that runs") from None
    if not new_enough:
        raise BadInputError(f"{path!r} is Python {version}; expected 3.11 or later")
    return Interpreter(found, version, build)
