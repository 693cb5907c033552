"""Use uv to create virtual environments for servers and load tools. All runs share an environment once it exists."""

import asyncio
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.interpreter import Interpreter, interpreter
from under_siege.host.lock_files import locked_requirements
from under_siege.host.managed_process import CALM_LOOK_S, run_command, until
from under_siege.paths import ROOT, cache_directory

DIRECTORY = cache_directory() / ".pythons"  # ignored by git
REQUIREMENTS = ROOT / "servers" / "requirements.txt"
_DONE = "done.json"  # state of the sources, and missing packages; written when the environment is complete
_UNREACHED = re.compile(r"Failed to fetch|error sending request|network was disabled|Request failed after")
_NO_BUILD = re.compile(r"No solution found|Failed to (download and )?build")
_BULLET = re.compile(r"^[^\w'\"`]*(?:(?:error|cause|hint):\s*)?")  # the prefix of a reason in uv's output
_BUILT = ("build", "dist", "node_modules", "venv", "env")  # directories without sources
_SOURCES = (".py", ".pyi", ".pyx", ".c", ".h", ".cpp", ".rs", "pyproject.toml", "setup.cfg", "Cargo.toml")
Missing = dict[str, str]  # missing package → reason
Tell = Callable[[str], None]


async def with_packages(python: Interpreter, tell: Tell, needed: Collection[str] | None = None) -> Interpreter:
    """Return an interpreter that can import both the user's packages and the packages that servers need.

    Args:
        needed: names of the packages to install, or None for the packages of all servers.

    Raises:
        BadInputError: the virtual environment can't be created.
    """
    if python.is_same_as(interpreter()):
        return python
    everything = _requirements()
    wanted = [requirement for requirement in everything if needed is None or _package(requirement) in needed]
    complete, directory = (environment_directory(python, *python.packages, *listed) for listed in (everything, wanted))
    if (complete / _DONE).exists():
        directory = complete
    missing = await created_once(directory, "", python, wanted, tell)
    for package, reason in missing.items():
        if package in map(_package, wanted):
            tell(f"{package} can't be installed for Python {python.version}: {reason}")
    return replace(python, path=str(directory / "bin" / "python"), missing=tuple(missing.items()))


async def environment_of(requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Tell) -> Path:
    """Create a virtual environment with these packages if it is missing or outdated, and return its directory.

    Args:
        suite: base directory for relative paths in the requirements.

    Raises:
        BadInputError: the packages can't be installed.
    """
    contents = [_contents(requirement, suite) for requirement in sorted(requirements)]
    directory = environment_directory(python, *sorted(requirements), *contents)
    await created_once(directory, _state_of_sources(requirements, suite), python, requirements, tell, suite)
    return directory


async def environment_with(requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Tell) -> Path | str:
    """Return the directory from `environment_of`, or the reason why the packages can't be installed."""
    try:
        return await environment_of(requirements, python, suite, tell)
    except BadInputError as error:
        return f"its requirements can't be installed: {error}"


def environment_directory(python: Interpreter, *parts: str) -> Path:
    """Return the path of an environment. Its name contains a digest of the interpreter and `parts`."""
    digest = hashlib.sha256(repr([python.prefix, python.build, *parts]).encode()).hexdigest()
    return DIRECTORY / f"{python.version.split()[0]}-{digest[:12]}"


def _contents(requirement: str, suite: Path) -> str:
    """Return the text of a requirements file, the base directory of a local path, or an empty string for a package."""
    if requirement.startswith("-r "):
        try:
            path = suite / requirement[3:].strip()
            locked = locked_requirements(path)
            return path.read_text(encoding="utf-8") if locked is None else locked
        except (OSError, ValueError) as error:
            return str(error)
    return str(suite) if requirement.startswith(("-e ", ".")) else ""


def _state_of_sources(requirements: Sequence[str], suite: Path) -> str:
    """Describe each local directory by its number of source files and their newest modification time."""
    states = []
    for requirement in sorted(requirements):
        if requirement.startswith("."):
            changed_ns = []
            for directory, names, files in os.walk(suite / requirement):
                names[:] = [name for name in names if not name.startswith(".") and name not in _BUILT]
                sources = [Path(directory, name) for name in files if name.endswith(_SOURCES)]
                changed_ns += [path.stat().st_mtime_ns for path in sources if path.is_file()]
            states.append(f"{requirement}: {len(changed_ns)} sources until {max(changed_ns, default=0)}")
    return "; ".join(states)


async def created_once(
    directory: Path,
    state: str,
    python: Interpreter,
    requirements: Sequence[str],
    tell: Tell,
    suite: Path | None = None,
    make: Callable[..., Awaitable[tuple[Missing, bool]]] | None = None,
) -> Missing:
    """Create the environment if it is missing or outdated, and return the packages that it lacks."""
    if (missing := _missing(directory, state)) is not None:
        return missing
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f".{directory.name}.lock").open("w") as lock:  # unlocked even if the process is killed
        if not _locked(lock):
            tell(f"waiting for another run that is creating {directory}")
            await until(lambda: _locked(lock), math.inf, CALM_LOOK_S)
        if (missing := _missing(directory, state)) is not None:
            return missing
        packages = f" with {', '.join(requirements)}" if requirements else ""
        tell(f"creating a virtual environment for Python {python.version}{packages}; this is done once")
        try:
            missing, is_final = await (make or _make)(directory, python, requirements, suite, tell)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        if is_final:
            (directory / _DONE).write_text(json.dumps({"state": state, "missing": missing}))
        return missing


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _missing(directory: Path, state: str) -> Missing | None:
    """Return the packages that can't be installed, or None if the environment is incomplete or outdated."""
    try:
        done = json.loads((directory / _DONE).read_text())
    except FileNotFoundError:
        return None
    missing: Missing = done["missing"]
    return missing if done["state"] == state else None


async def _make(
    directory: Path, python: Interpreter, requirements: Sequence[str], suite: Path | None, tell: Tell
) -> tuple[Missing, bool]:
    """Create the environment; return the packages that can't be installed, and whether a retry would be useless.

    If `suite` is given, raise BadInputError for a package that can't be installed. Otherwise, the package is only
    reported as missing, because the strategies that don't need it still run.
    """
    try:
        await run_uv("venv", "--clear", "--python", python.path, str(directory))
    except BadInputError as error:
        raise BadInputError(f"{python.path!r} can't create a virtual environment: {error}") from None
    install = ["pip", "install", "--compile-bytecode", "--python", str(directory / "bin" / "python")]
    if suite is not None:
        words = [word for requirement in requirements for word in _words(requirement, suite, directory)]
        await run_uv(*install, *words, directory=suite)
        return {}, True
    if python.packages:  # in a .pth file, so that the servers' packages take precedence
        (packages,) = (directory / "lib").glob("python3*/site-packages")
        (packages / "of_the_user.pth").write_text("\n".join(python.packages) + "\n")
    return await install_wheels(install, requirements, tell) if requirements else ({}, True)


def _words(requirement: str, suite: Path, directory: Path) -> list[str]:
    """Return the arguments with which uv installs a requirement; write a lock file as a requirements file first."""
    if not requirement.startswith("-r "):
        return requirement.split(" ", 1) if requirement[0] == "-" else [requirement]
    name = requirement[3:].strip()
    if (locked := locked_requirements(suite / name)) is not None:
        (directory / "requirements.txt").write_text(locked, encoding="utf-8")
        name = str(directory / "requirements.txt")
    return ["-r", name]


async def install_wheels(install: Sequence[str], requirements: Sequence[str], tell: Tell) -> tuple[Missing, bool]:
    """Install all packages from wheels; if that fails, install them one by one, from source if there is no wheel."""
    missing, is_final = {}, True
    try:
        await run_uv(*install, "--only-binary=:all:", *requirements)
    except BadInputError:
        for requirement in requirements:
            try:
                await _install_one(install, requirement, tell)
            except BadInputError as error:
                reason = str(error)
                if not _NO_BUILD.search(reason):
                    reason, is_final = f"{reason}; the next run will retry", False
                missing[_package(requirement)] = reason
    return missing, is_final


async def _install_one(install: Sequence[str], requirement: str, tell: Tell) -> None:
    try:
        await run_uv(*install, "--only-binary=:all:", requirement)
    except BadInputError as error:
        if not _NO_BUILD.search(str(error)):
            raise
        tell(f"no compatible wheel for {requirement}; trying to build it from source, which can take minutes")
        await run_uv(*install, requirement)


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _package(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


async def run_uv(*arguments: str, directory: Path | None = None) -> None:
    command = [find_uv_bin(), "--quiet", "--color=never", *arguments]
    await run_command(command, directory, reason=_reason_of_uv)


def _reason_of_uv(output: str) -> str:
    """Return, in one line, why uv failed: the causes from its output, and a build hint or the compiler's last error."""
    if _UNREACHED.search(output):
        return f"no package index could be reached ({next(iter(re.findall(r'https?://[^/)]+', output)), 'offline')})"
    head, _, build = output.partition("[std")
    lines = [line for line in head.splitlines() if line.strip()]
    errors = [line for line in build.splitlines() if line.startswith("hint:") or re.search(r"[eE]rror\b", line)]
    return "; ".join(_BULLET.sub("", line).strip() for line in (*lines, *errors[-1:]))
