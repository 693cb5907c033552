"""What installs a program here."""

import os
import shutil

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
    "node": {"apt-get": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs"},
}


def install_command(program: str) -> str:
    """`apt-get install nginx`, with sudo where that is needed."""
    for manager, command in _INSTALL.items():
        if shutil.which(manager):
            needs_no_password = manager == "brew" or os.getuid() == 0
            package = _PACKAGES.get(program, {}).get(manager, program)
            return f"{'' if needs_no_password else 'sudo '}{command} {package}"
    return f"your system's package manager, package {program}"
