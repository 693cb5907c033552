"""Find system packages: what a server requires, whether it is installed, and the command that installs it."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping

from common.errors import BadInputError

_INSTALL = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S",
}
# Names of packages, by program and package manager. The default is the name of the program.
_PACKAGES = {
    "postgresql": {"apt-get": "postgresql", "dnf": "postgresql-server"},
    "redis": {"apt-get": "redis-server"},
    "redis-server": {"dnf": "redis", "apk": "redis", "pacman": "redis"},
    "libev": {"apt-get": "libev-dev", "dnf": "libev-devel", "apk": "libev-dev"},
    "cc": {"apt-get": "gcc", "dnf": "gcc", "apk": "gcc", "pacman": "gcc"},
    "node": {"apt-get": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs"},
}


def install_command(program: str) -> str:
    """Return the command that installs a program, such as `apt-get install nginx`, with sudo if needed."""
    return install_one_of(dict.fromkeys(_INSTALL, program) | _PACKAGES.get(program, {}), program)


def install_one_of(packages: Mapping[str, str], name: str) -> str:
    """Return the command that installs a package whose name depends on the package manager."""
    for manager, command in _INSTALL.items():
        if shutil.which(manager) and manager in packages:
            sudo = "" if os.getuid() == 0 else "sudo "
            return f"{sudo}{command} {packages[manager]}"
    return f"your system's package manager, package {name}"


SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # directories of programs that are not on every user's PATH
_URL_VARIABLES = {"redis-server": "CELERY_BROKER_URL"}  # by program: if this variable is set, the program is not needed


def unmet(requires: str, version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """Return why a requirement is not met, such as `needs redis-server`, or an empty string if it is met.

    Raises:
        BadInputError: `requires` is not a valid requirement.
    """
    if not requires:
        return ""
    if re.fullmatch(r"[a-z][a-z0-9_.+-]*", requires):
        is_available = os.environ.get(_URL_VARIABLES.get(requires, "")) or path_of(requires)
        return "" if is_available else f"needs {requires}"
    wanted = re.fullmatch(r"python\s*>=\s*(\d+)\.(\d+)", requires)
    if wanted is None:
        raise BadInputError(
            f"REQUIRES = {requires!r}: expected a version such as 'python>=3.14', or a program such as 'redis-server'"
        )
    if version >= (int(wanted[1]), int(wanted[2])):
        return ""
    this = platform.python_version() if version == sys.version_info[:2] else ".".join(map(str, version))
    return f"needs Python {wanted[1]}.{wanted[2]} or later, and this is {this}"


def remedy(requires: str, other_python: str = "pass --python PATH") -> str:
    """Return the remedy for an unmet requirement."""
    return other_python if requires.startswith("python") else f"install it with: {install_command(requires)}"


def path_of(program: str) -> str | None:
    """Return the path of a program on the PATH or in the directories of `SYSTEM`, or None if it is in neither."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM]))
