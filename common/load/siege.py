"""Siege as a load driver: how it is called, and what the lines mean that it prints."""

import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from common.errors import BadInputError

# The user's own siege.conf changes every default, so siege gets a file of ours and a home of ours.
_RC = """\
verbose = true
csv = true
display-id = true
color = off
json_output = false
parser = false
logging = false
show-logfile = false
connection = close
protocol = HTTP/1.1
accept-encoding = identity
zero-data-ok = true
benchmark = true
cache = false
limit = 100000
failures = 1000000000
timeout = 3600
"""

# `   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55` (siege 4.0.7 with csv and display-id; the same in the
# sources of 4.0.2 to 4.1.7, some of which colour it even though they were told not to)
_LINE = re.compile(
    r"""
    (?:\x1b\[[\d;]*m)*
    \s*(?P<user>\d{1,6}), HTTP/[\d.]+, (?P<status>\d{3}), \s*(?P<siege_s>\d{1,6}(?:\.\d+)?), \s*(?P<size>\d{1,15}),
    .*, \d+, [-\d]+[ ][:\d]+
    (?:\x1b\[[\d;]*m)*
    """,
    re.VERBOSE | re.ASCII,
)
_INSTALLERS = {
    "apt-get": "apt-get install siege",
    "dnf": "dnf install siege",
    "apk": "apk add siege",
    "pacman": "pacman -S siege",
    "brew": "brew install siege",
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of siege: an answer that came."""

    user: int
    status: int
    siege_s: float  # in steps of 10 ms
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Siege:
    """An installed siege with a home of its own."""

    path: str
    home: Path

    def command(self, users: int, time_s: float, url: str) -> list[str]:
        """The words that start it. It is ended by SIGTERM; its own limit is only for the case that nobody does that."""
        limit = f"-t{math.ceil(time_s) + 30}S"
        return [self.path, f"--rc={self.home / 'siegerc'}", f"-c{users}", limit, url]

    def version(self, environment: dict[str, str]) -> str:
        """Such as `4.0.7`."""
        told = subprocess.run([self.path, "--version"], capture_output=True, text=True, env=environment, check=False)
        found = re.search(r"SIEGE (\S+)", told.stdout + told.stderr)
        return found[1] if found else "unknown"


@contextmanager
def siege_at_home() -> Iterator[Siege]:
    """Siege with a home of its own, which is removed at the end.

    Raises:
        BadInputError: siege isn't installed; says the command that would install it.
    """
    path = find_siege()
    with TemporaryDirectory(prefix="under-siege-") as folder:
        home = Path(folder)
        (home / "siegerc").write_text(_RC)
        # Without a file there, siege writes one and two lines about it on stdout.
        (home / ".siege").mkdir()
        (home / ".siege" / "siege.conf").write_text(_RC)
        yield Siege(path, home)


def find_siege() -> str:
    """Its path.

    Raises:
        BadInputError: it isn't installed; says the command that would install it.
    """
    path = shutil.which("siege")
    if path is None:
        raise BadInputError(f"siege is not installed; install it with: {install_command()}")
    return path


def install_command() -> str:
    """What installs siege here."""
    for manager, command in _INSTALLERS.items():
        if shutil.which(manager):
            return command if manager == "brew" or os.getuid() == 0 else f"sudo {command}"
    return "your system's package manager, package siege"


def parse(line: str) -> Transaction | None:
    """A line of siege's stdout; None if it is no transaction."""
    found = _LINE.fullmatch(line.rstrip())
    if found is None:
        return None
    return Transaction(int(found["user"]), int(found["status"]), float(found["siege_s"]), int(found["size"]))


def socket_failures(report: str) -> int:
    """From siege's own summary: the requests that got no answer, and answers of 5xx."""
    found = re.search(r"Failed transactions:\s*(\d{1,15})\b", report, re.ASCII)
    return int(found[1]) if found else 0
