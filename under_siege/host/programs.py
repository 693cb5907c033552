"""Find the programs that servers and load tools need, and install a missing load tool.

Each load tool runs with a home directory of its own.
"""

import asyncio
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from common.errors import BadInputError
from under_siege.host.environments import environment_of
from under_siege.host.interpreter import interpreter
from under_siege.load.tool import Driver, LoadSpec
from under_siege.paths import ROOT, server_environment

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


@dataclass(frozen=True, slots=True)
class Tool:
    """An installed load tool."""

    driver: Driver
    program: str
    home: Path

    def environment(self) -> dict[str, str]:
        """Return the tool's environment variables, which set its home directory and omit the user's Locust settings."""
        others = {name: value for name, value in server_environment().items() if not name.startswith("LOCUST_")}
        return {**others, "HOME": str(self.home)}

    def command(self, order: LoadSpec) -> list[str]:
        """Return the command that generates the load; write the files that it needs, and remove earlier results."""
        for name in self.driver.results:
            (self.home / name).unlink(missing_ok=True)
        _write(self.home, self.driver.files(order))
        return self.driver.command(self.program, self.home, order)

    def results(self) -> dict[str, str]:
        """Return the contents of the result files that the tool has written."""
        written = [name for name in self.driver.results if (self.home / name).is_file()]
        return {name: (self.home / name).read_text(errors="replace") for name in written}

    def version(self) -> str:
        command = [self.program, *self.driver.version_options]
        run = subprocess.run(command, capture_output=True, text=True, env=self.environment(), check=False)
        return self.driver.version(run.stdout + run.stderr)


@contextmanager
def isolated_tool(driver: Driver) -> Iterator[Tool]:
    """Yield the tool with a temporary home directory; raise BadInputError if it is not installed."""
    program = find(driver)
    with TemporaryDirectory(prefix="under-siege-") as name:
        _write(Path(name), driver.settings)
        yield Tool(driver, program, Path(name))


async def tool_in(home: Path, driver: Driver, tell: Callable[[str], None]) -> tuple[Tool, str]:
    """Return the tool, which uses `home` as its home directory, and its version.

    On first use, install a PyPI tool in its own environment if it is missing or has an unsupported version.

    Raises:
        BadInputError: the tool is not installed and can't be installed.
    """
    _write(home, driver.settings)
    for program in _programs(driver):
        tool = Tool(driver, program, home)
        version = await asyncio.to_thread(tool.version)
        if _is_supported(version, driver.requirement):
            return tool, version
    tool = Tool(driver, await _installed(driver, tell), home)
    return tool, await asyncio.to_thread(tool.version)


def _is_supported(version: str, requirement: str) -> bool:
    try:
        return not requirement or Requirement(requirement).specifier.contains(version, prereleases=True)
    except InvalidVersion:  # the program printed no version, for example because it is broken
        return False


async def _installed(driver: Driver, tell: Callable[[str], None]) -> str:
    """Return the path of the program; on first use, install a PyPI tool in its own environment."""
    if not driver.requirement:
        return find(driver)
    python = interpreter()
    try:
        environment = await environment_of((driver.requirement,), python, ROOT, tell)
    except BadInputError as error:
        raise BadInputError(
            f"{driver.name} can't be installed for Python {python.version}: {error}; fix this problem and retry, "
            f"or install {driver.requirement} yourself and put {driver.name} on the PATH"
        ) from None
    return str(environment / "bin" / driver.program)


def _write(home: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files that only this user can read, because they may contain secrets."""
    for path, contents in files.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).touch(0o600)
        (home / path).write_bytes(contents.encode() if isinstance(contents, str) else contents)


def check(driver: Driver, orders: Iterable[LoadSpec], *statuses: int) -> None:
    """Raise BadInputError if the tool can't generate one of the loads, or can't recognize an expected status."""
    odd = next((status for status in statuses if not 200 <= status < 300), None)
    if odd is not None and not driver.streams_responses:
        raise BadInputError(f"{driver.name} accepts only status 2xx, but {odd} is expected; use siege")
    for order in orders:
        if refusal := driver.refusal(order):
            raise BadInputError(refusal)


def find(driver: Driver) -> str:
    """Return the path of the program; if it is missing, raise BadInputError with the command that installs it."""
    if programs := _programs(driver):
        return programs[0]
    raise BadInputError(f"{driver.name} is not installed; install it with: {install_command_of(driver)}")


def is_installed(driver: Driver) -> bool:
    """Return whether the program of a load tool is installed."""
    return bool(_programs(driver))


def _programs(driver: Driver) -> list[str]:
    """Return the paths at which the program exists: on the PATH, or next to the Python that runs the bench."""
    paths = [shutil.which(driver.program, path=path) for path in (None, str(Path(sys.executable).parent))]
    return [path for path in dict.fromkeys(paths) if path]


def install_command_of(driver: Driver) -> str:
    if driver.requirement:
        return f"{sys.executable} -m pip install {driver.requirement}"
    return install_one_of(driver.packages, driver.name)
