"""A load tool that is installed, with a home of its own: the user's settings change every default."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from common.errors import BadInputError
from common.load.driver import Driver

_INSTALL = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "apk": "apk add",
    "pacman": "pacman -S",
    "brew": "brew install",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A program, and the driver that knows it."""

    driver: Driver
    program: str
    home: Path

    def environment(self) -> dict[str, str]:
        """Where it finds its settings."""
        return {**os.environ, "HOME": str(self.home)}

    def command(self, users: int, time_s: float, url: str) -> list[str]:
        """The words that start so many users."""
        return list(self.driver.command(self.program, self.home, users, time_s, url))

    def version(self) -> str:
        """As it says itself."""
        command = self.driver.version_command(self.program)
        told = subprocess.run(command, capture_output=True, text=True, env=self.environment(), check=False)
        return self.driver.version(told.stdout + told.stderr)


@contextmanager
def at_home(driver: Driver) -> Iterator[Tool]:
    """The tool with a home of its own, which is removed at the end.

    Raises:
        BadInputError: it isn't installed; says the command that would install it.
    """
    program = find(driver)
    with TemporaryDirectory(prefix="under-siege-") as folder:
        home = Path(folder)
        for path, text in driver.settings.items():
            (home / path).parent.mkdir(exist_ok=True)
            (home / path).write_text(text)
        yield Tool(driver, program, home)


def find(driver: Driver) -> str:
    """The path of its program.

    Raises:
        BadInputError: it isn't installed; says the command that would install it.
    """
    program = shutil.which(driver.name)
    if program is None:
        raise BadInputError(f"{driver.name} is not installed; install it with: {install_command(driver)}")
    return program


def install_command(driver: Driver) -> str:
    """What installs it here."""
    for manager, command in _INSTALL.items():
        if shutil.which(manager) and manager in driver.packages:
            needs_no_password = manager == "brew" or os.getuid() == 0
            return f"{'' if needs_no_password else 'sudo '}{command} {driver.packages[manager]}"
    return f"your system's package manager, package {driver.name}"
