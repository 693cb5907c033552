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
import subprocess
import tomllib
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.interpreter import (
    OLDEST_USER_PYTHON,
    Interpreter,
    UserEnvironment,
    interpreter,
    package_directories,
)
from under_siege.host.managed_process import COMMAND_LIMIT_S, run_command
from under_siege.host.supervisor_client import current_supervisor
from under_siege.paths import ROOT, cache_directory

DIRECTORY = cache_directory() / ".pythons"  # ignored by git
REQUIREMENTS = ROOT / "servers" / "requirements.txt"
_MISSING = "missing.json"  # in an environment for strategies: the packages that can't be installed, with the reasons
_UNREACHED = re.compile(r"Failed to fetch|error sending request|network was disabled|Request failed after")
_NO_BUILD = re.compile(r"No solution found|Failed to (download and )?build")
_BULLET = re.compile(r"^[^\w'\"`]*(?:(?:error|cause|hint):\s*)?")  # the prefix of a reason in uv's output
_BUILT = ("build", "dist", "node_modules", "venv", "env")  # directories without sources
_SOURCES = (".py", ".pyi", ".pyx", ".c", ".h", ".cpp", ".rs", "pyproject.toml", "setup.cfg", "Cargo.toml")
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
    inputs = [part for requirement in sorted(requirements) for part in (requirement, _contents(requirement, suite))]

    async def install(place: Path) -> None:
        words = [word for requirement in requirements for word in _words(requirement, suite, place)]
        await _install(place, *words, directory=suite)

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
        frozen = await asyncio.to_thread(_uv_output, "pip", "freeze", "--python", python.path)
        versions = "\n".join(line for line in frozen.splitlines() if re.fullmatch(r"[\w.-]+==[\w.!-]+", line))

        async def install(place: Path) -> None:
            (constraints := place / "constraints.txt").write_text(versions)
            missing = await _install_wheels(place, additions, tell, "--constraint", str(constraints))
            for package, reason in missing.items():
                tell(f"{package} can't be added: {reason}")
            packages = _packages_in(place)
            # `addsitedir` also processes .pth files, such as those of packages installed in editable mode.
            lines = [f"own = f'{{sys.prefix}}/{packages.relative_to(place)}'"]
            lines += ["sys.path.remove(own) if own in sys.path else None"]
            lines += [*(f"site.addsitedir({path!r})" for path in directories), "sys.path.append(own)"]
            (packages / "of_the_user.pth").write_text(f"import site, sys; {'; '.join(lines)}\n")

        inputs = ["beside", *directories, versions, *sorted(additions)]
        return await _environment(python, inputs, additions, install, tell)
    except (BadInputError, OSError, subprocess.SubprocessError, ValueError) as error:
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
    which = f"Python {python.version}{' with ' * bool(packages)}{', '.join(packages)}"
    tell(f"creating a virtual environment for {which}; this is done once")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=DIRECTORY) as temporary, current_supervisor().removing(Path(temporary)):
        with contextlib.suppress(FileNotFoundError):
            directory.rename(Path(temporary, "broken"))
        place = Path(temporary, "environment")
        await _run_uv("venv", "--relocatable", "--python", python.path, str(place))
        await install(place)
        with contextlib.suppress(OSError):  # another run has created it meanwhile
            await asyncio.to_thread(place.rename, directory)
    return directory


def _contents(requirement: str, suite: Path) -> str:
    """Return what else an environment depends on: the text of a requirements file, or the sources of a local path."""
    if requirement.startswith("-r "):
        try:
            path = suite / requirement[3:].strip()
            locked = locked_requirements(path)
            return path.read_text(encoding="utf-8") if locked is None else locked
        except (OSError, ValueError) as error:
            return str(error)
    sources = _state_of_sources(suite / requirement) if requirement.startswith(".") else ""
    return f"{suite} {sources}" if requirement.startswith(("-e ", ".")) else ""


def _state_of_sources(project: Path) -> str:
    """Describe a directory by its number of source files and their newest modification time.

    uv only looks at pyproject.toml, setup.py and setup.cfg.
    """
    changed_ns = []
    for directory, names, files in os.walk(project):
        names[:] = [name for name in names if not name.startswith(".") and name not in _BUILT]
        sources = [Path(directory, name) for name in files if name.endswith(_SOURCES)]
        changed_ns += [path.stat().st_mtime_ns for path in sources if path.is_file()]
    return f"{len(changed_ns)} sources until {max(changed_ns, default=0)}"


def _words(requirement: str, suite: Path, place: Path) -> list[str]:
    """Return the arguments with which uv installs a requirement; write a lock file as a requirements file first."""
    if not requirement.startswith("-r "):
        return requirement.split(" ", 1) if requirement[0] == "-" else [requirement]
    name = requirement[3:].strip()
    if (locked := locked_requirements(suite / name)) is not None:
        name = str(place / "requirements.txt")
        Path(name).write_text(locked, encoding="utf-8")
    return ["-r", name]


def locked_requirements(path: Path) -> str | None:
    """Return the packages in a uv.lock, Pipfile or Pipfile.lock as the text of a requirements file, or else None.

    Raises:
        BadInputError: the file can't be read.
    """
    try:
        if path.name == "uv.lock":
            # Without the project itself: the servers import it from its folder, so that each change counts at once.
            options = ["--frozen", "--no-emit-project", "--no-hashes", "--no-dev", "--no-header", "--no-annotate"]
            return _uv_output("export", *options, "--project", str(path.parent), folder=path.parent)
        return "\n".join(_pipfile(path)) if path.name.startswith("Pipfile") else None
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise BadInputError(f"{path} can't be read: {error}") from None


def _pipfile(path: Path) -> list[str]:
    """Return the packages in a Pipfile or Pipfile.lock, which uv can't read, as requirements."""
    text = path.read_text(encoding="utf-8")
    data = json.loads(text).get("default", {}) if path.suffix == ".lock" else tomllib.loads(text).get("packages", {})
    lines = []
    for name, value in data.items():
        table = value if isinstance(value, dict) else {"version": value}
        extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
        version = "" if table.get("version", "*") == "*" else table["version"]
        marker = f"; {table['markers']}" if table.get("markers") else ""
        lines.append(f"{name}{extras}{version}{marker}")
    return lines


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


async def _install(place: Path, *words: str, directory: Path | None = None) -> None:
    python = str(place / "bin" / "python")
    await _run_uv("pip", "install", "--compile-bytecode", "--python", python, *words, directory=directory)


def _packages_in(place: Path) -> Path:
    (packages,) = (place / "lib").glob("python3*/site-packages")
    return packages


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _package(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


async def _run_uv(*arguments: str, directory: Path | None = None) -> None:
    await run_command(_uv(*arguments), directory, reason=_reason_of_uv)


def _uv_output(*arguments: str, folder: Path | None = None) -> str:
    ran = subprocess.run(
        _uv(*arguments), capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT_S, cwd=folder
    )
    if ran.returncode:
        raise BadInputError(_reason_of_uv(ran.stderr))
    return ran.stdout


def _uv(*arguments: str) -> list[str]:
    return [find_uv_bin(), "--quiet", "--color=never", *arguments]


def _reason_of_uv(output: str) -> str:
    """Return, in one line, why uv failed: the causes from its output, and a build hint or the compiler's last error."""
    if _UNREACHED.search(output):
        return f"no package index could be reached ({next(iter(re.findall(r'https?://[^/)]+', output)), 'offline')})"
    head, _, build = output.partition("[std")
    lines = [line for line in head.splitlines() if line.strip()]
    errors = [line for line in build.splitlines() if line.startswith("hint:") or re.search(r"[eE]rror\b", line)]
    return "; ".join(_BULLET.sub("", line).strip() for line in (*lines, *errors[-1:]))
