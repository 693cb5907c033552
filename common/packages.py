"""What installs a program here."""

import os
import shutil
from collections.abc import Mapping

_INSTALL = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S",
    "brew": "brew install",
}
# Of programs that are not called as their package is.
_PACKAGES = {
    "postgresql": {"apt-get": "postgresql", "dnf": "postgresql-server", "brew": "postgresql@17"},
    "redis": {"apt-get": "redis-server"},
    "redis-server": {"dnf": "redis", "apk": "redis", "pacman": "redis", "brew": "redis"},
    "libev": {"apt-get": "libev-dev", "dnf": "libev-devel", "apk": "libev-dev"},
    "npm": {"brew": "node"},
    "cc": {"apt-get": "gcc", "dnf": "gcc", "apk": "gcc", "pacman": "gcc", "brew": "gcc"},
    "node": {"apt-get": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs"},
}


def install_command(program: str) -> str:
    """`apt-get install nginx`, with sudo where that is needed."""
    return install_one_of(dict.fromkeys(_INSTALL, program) | _PACKAGES.get(program, {}), program)


def install_one_of(packages: Mapping[str, str], name: str) -> str:
    """The same for what is called so by the package managers that have it."""
    for manager, command in _INSTALL.items():
        if shutil.which(manager) and manager in packages:
            needs_no_password = manager == "brew" or os.getuid() == 0
            return f"{'' if needs_no_password else 'sudo '}{command} {packages[manager]}"
    return f"your system's package manager, package {name}"
