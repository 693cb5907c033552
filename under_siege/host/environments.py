"""Create virtual environments with uv, whose cache makes that cheap: for other Pythons, suites, and load tools.

An environment is built in a temporary directory and renamed when it is complete. Its name contains a digest of
everything that it depends on. All runs share it, and none changes it.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.commands import output_of, run_command
from under_siege.host.interpreter import (
    OLDEST_USER_PYTHON,
    Interpreter,
    UserEnvironment,
    interpreter,
    package_directories,
)
from under_siege.host.package_indexes import uv_environment
from under_siege.host.requirement_files import contents, state_of_sources, why_refused
from under_siege.host.supervisor_client import current_supervisor
from under_siege.paths import ROOT, cache_directory

DIRECTORY = cache_directory() / ".pythons"  # ignored by git
REQUIREMENTS = ROOT / "servers" / "requirements.txt"
_MISSING = "missing.json"  # in an environment: the packages that can't be built, with the reasons
_UNREACHED = re.compile(r"Failed to fetch|error sending request|network was disabled|Request failed after")
_NO_BUILD = re.compile(r"No solution found|Failed to (download and )?build")
_BULLET = re.compile(r"^[^\w'\"`]*(?:(?:error|cause|hint):\s*)?")  # the prefix of a reason in uv's output
_LOCK = "uv.lock"
Tell = Callable[[str], None]


async def with_packages(python: Interpreter, tell: Tell, needed: Collection[str] | None = None) -> Interpreter:
    """Return an interpreter that can import both the user's packages and the packages that servers need.

    A package that can't be built is only reported, because the strategies that don't need it still run.

    Args:
        needed: names of the packages to install, or None for the packages of all servers.

    Raises:
        BadInputError: the virtual environment can't be created.
    """
    if python.is_same_as(interpreter()):
        return python
    wanted = [line for line in _requirements() if needed is None or _package(line) in needed]

    async def install(place: Path) -> None:
        # In a .pth file, so that the servers' packages take precedence.
        (_packages_in(place) / "of_the_user.pth").write_text("\n".join(python.packages) + "\n")
        (place / _MISSING).write_text(json.dumps(await _install_wheels(place, wanted, tell)))

    try:
        directory = await _environment(python, [*python.packages, *wanted], wanted, install, tell)
    except BadInputError as error:
        raise BadInputError(f"the servers' packages can't be installed for {python.path}: {error}") from None
    missing: dict[str, str] = json.loads((directory / _MISSING).read_text())
    for package, reason in missing.items():
        tell(f"{package} can't be installed for Python {python.version}: {reason}")
    return replace(python, path=str(directory / "bin" / "python"), missing=tuple(missing.items()))


async def environment_of(requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Tell) -> Path:
    """Create a virtual environment with these packages if it is missing or outdated, and return its directory.

    Args:
        suite: base directory for relative paths in the requirements.

    Raises:
        BadInputError: the packages can't be installed.
    """
    files = {name: suite / name[3:].strip() for name in requirements if name.startswith("-r ")}
    if why := next(filter(None, map(why_refused, files.values())), ""):
        raise BadInputError(why)
    inputs = [part for name in sorted(requirements) for part in (name, *_contents(name, suite, files.get(name)))]
    locks = {name: file for name, file in files.items() if file.name == _LOCK}
    words = [word for name in requirements if name not in locks for word in _words(name, suite)]
    others = [file for name, file in files.items() if name not in locks]

    async def install(place: Path) -> None:
        for lock in locks.values():
            await _install_lock(place, lock)
        if words:
            versions = await asyncio.to_thread(_versions_in, _python_in(place)) if locks else ""
            await _install(place, *words, *_constraints(place, versions), files=others, directory=suite)

    return await _environment(python, inputs, requirements, install, tell)


async def environment_with(requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Tell) -> Path | str:
    """Return the directory from `environment_of`, or the reason why the packages can't be installed."""
    try:
        return await environment_of(requirements, python, suite, tell)
    except BadInputError as error:
        return f"its requirements can't be installed: {error}"


def installed_python(chosen: UserEnvironment, folder: Path, tell: Tell) -> Interpreter:
    """Return the Python that can import the application's packages; install these on first use.

    Raises:
        BadInputError: the packages can't be installed.
    """
    base = interpreter(chosen.python, OLDEST_USER_PYTHON)
    if not chosen.requirements:
        return base
    try:
        directory = asyncio.run(environment_of(chosen.requirements, base, folder, tell))
    except BadInputError as error:
        raise BadInputError(
            f"the packages in {chosen.found} can't be installed: {error}; "
            "create a .venv with them, or pass --python PATH"
        ) from None
    return interpreter(str(directory / "bin" / "python"), OLDEST_USER_PYTHON)


async def environment_beside(additions: tuple[str, ...], python: Interpreter, tell: Tell) -> Path | str:
    """Create an environment with all packages of a Python and some more; return its directory, or why it failed.

    The environment of that Python is not changed. If both environments have a package, that of the Python wins.
    """
    try:
        directories = package_directories(python.path)
        versions = await asyncio.to_thread(_versions_in, python.path)

        async def install(place: Path) -> None:
            missing = await _install_wheels(place, additions, tell, *_constraints(place, versions))
            (place / _MISSING).write_text(json.dumps(missing))
            packages = _packages_in(place)
            # `addsitedir` also processes .pth files, such as those of packages installed in editable mode.
            lines = [f"own = f'{{sys.prefix}}/{packages.relative_to(place)}'"]
            lines += ["sys.path.remove(own) if own in sys.path else None"]
            lines += [*(f"site.addsitedir({path!r})" for path in directories), "sys.path.append(own)"]
            (packages / "of_the_user.pth").write_text(f"import site, sys; {'; '.join(lines)}\n")

        inputs = ["beside", _MISSING, *directories, versions, *sorted(additions)]
        directory = await _environment(python, inputs, additions, install, tell)
        missing: dict[str, str] = json.loads((directory / _MISSING).read_text())
        if len(missing) == len(additions):
            raise BadInputError("; ".join(missing.values()))
        for package, reason in missing.items():
            tell(f"{package} can't be added: {reason}")
        return directory
    except (OSError, ValueError) as error:
        return f"{', '.join(additions)} can't be added to {python.path}: {error}"


async def _environment(
    python: Interpreter,
    inputs: Sequence[str],
    packages: Iterable[str],
    install: Callable[[Path], Awaitable[None]],
    tell: Tell,
) -> Path:
    """Return the directory of the environment that depends on these inputs; create it if it is missing or broken."""
    digest = hashlib.sha256(repr([python.prefix, python.build, *inputs]).encode()).hexdigest()
    directory = DIRECTORY / f"{python.version.split()[0]}-{digest[:12]}"
    if (directory / "bin" / "python").exists():  # it is broken if its Python has been removed
        return directory
    its_packages = f" with {', '.join(packages)}" if packages else ""
    tell(f"creating a virtual environment for Python {python.version}{its_packages}; this is done once")
    try:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        how = "set XDG_CACHE_HOME to a folder that you can write to"
        raise BadInputError(f"can't create the folder {DIRECTORY}: {error.strerror}; {how}") from None
    with TemporaryDirectory(dir=DIRECTORY) as temporary, current_supervisor().removing(Path(temporary)):
        with contextlib.suppress(FileNotFoundError):
            directory.rename(Path(temporary, "broken"))
        place = Path(temporary, "environment")
        await _run_uv("venv", "--relocatable", "--python", python.path, str(place))
        await install(place)
        with contextlib.suppress(OSError):  # another run has created it meanwhile
            await asyncio.to_thread(place.rename, directory)
    return directory


def _contents(requirement: str, suite: Path, file: Path | None) -> list[str]:
    """Return what else an environment depends on: the text of a requirements file, or the sources of a local path."""
    if file is not None:
        return contents(file)
    sources = state_of_sources(suite / requirement) if requirement.startswith(".") else ""
    return [f"{suite} {sources}"] if requirement.startswith(("-e ", ".")) else []


def _words(requirement: str, suite: Path) -> list[str]:
    """Return the arguments with which uv installs a requirement, from whatever directory."""
    option, name = requirement.split(" ", 1) if requirement.startswith("-") else ("", requirement)
    is_path = (option or name.startswith(".")) and "://" not in name
    return [*filter(None, [option]), str(suite / name.strip()) if is_path else name]


def _versions_in(python: str) -> str:
    """Return the versions of the packages in an environment, as constraints."""
    # With --quiet, some versions of uv print nothing.
    frozen = output_of(_uv("pip", "freeze", "--python", python), reason=_reason_of_uv)
    return "\n".join(line for line in frozen.splitlines() if re.fullmatch(r"[\w.-]+==[\w.!-]+", line))


def _constraints(place: Path, versions: str) -> tuple[str, str]:
    """Return the option with which uv keeps these versions."""
    (constraints := place / "constraints.txt").write_text(versions)
    return "--constraint", str(constraints)


async def _install_wheels(place: Path, requirements: Sequence[str], tell: Tell, *options: str) -> dict[str, str]:
    """Install packages from wheels, or from source if there is no wheel; return why each missing one can't be built.

    Raises:
        BadInputError: the installation failed for another reason, for example because no index could be reached.
    """
    wheels, missing = (*options, "--only-binary=:all:"), dict[str, str]()
    if not requirements or not await _why_not_built(place, *wheels, *requirements):
        return missing
    for requirement in requirements:
        if await _why_not_built(place, *wheels, requirement):
            tell(f"no compatible wheel for {requirement}; trying to build it from source, which can take minutes")
            if why := await _why_not_built(place, *options, requirement):
                missing[_package(requirement)] = why
    return missing


async def _why_not_built(place: Path, *words: str) -> str:
    """Install packages; return why one of them has no build, or an empty string."""
    try:
        await _install(place, *words)
    except BadInputError as error:
        if not _NO_BUILD.search(str(error)):
            raise
        return str(error)
    return ""


async def _install(place: Path, *words: str, files: Sequence[Path] = (), directory: Path | None = None) -> None:
    """Install packages from the indexes that pip would use.

    Args:
        files: the requirements files among the words; as with pip, their relative paths depend on the directory.
    """
    folders = {file.parent for file in files}
    folder = folders.pop() if len(folders) == 1 else directory or Path()
    install = ("pip", "install", "--compile-bytecode", "--python", _python_in(place))
    await _run_uv(*install, *words, directory=folder, environment=uv_environment(files, folder))


async def _install_lock(place: Path, lock: Path) -> None:
    """Install the locked packages, from their own sources and with their hashes, which no other format keeps.

    The project itself is left out: the servers import it from its folder, so that each change counts at once.
    """
    words = ("sync", "--frozen", "--no-install-project", "--no-dev", "--inexact", "--compile-bytecode")
    target = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(place)}
    await _run_uv(*words, "--python", _python_in(place), directory=lock.parent, environment=target)


def _python_in(place: Path) -> str:
    return str(place / "bin" / "python")


def _packages_in(place: Path) -> Path:
    (packages,) = (place / "lib").glob("python3*/site-packages")
    return packages


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _package(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


async def _run_uv(*arguments: str, directory: Path | None = None, environment: dict[str, str] | None = None) -> None:
    await run_command(_uv("--quiet", *arguments), directory, environment, reason=_reason_of_uv)


def _uv(*arguments: str) -> list[str]:
    return [find_uv_bin(), "--color=never", *arguments]


def _reason_of_uv(output: str) -> str:
    """Return, in one line, why uv failed: the causes from its output, and a build hint or the compiler's last error."""
    if _UNREACHED.search(output):
        return f"no package index could be reached ({next(iter(re.findall(r'https?://[^/)]+', output)), 'offline')})"
    head, _, build = output.partition("[std")
    lines = [line for line in head.splitlines() if line.strip()]
    errors = [line for line in build.splitlines() if line.startswith("hint:") or re.search(r"[eE]rror\b", line)]
    return "; ".join(_BULLET.sub("", line).strip() for line in (*lines, *errors[-1:]))
