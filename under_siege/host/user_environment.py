"""Choose the Python environment of a user's application, and add servers beside its packages."""

import asyncio
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.environments import environment_of
from under_siege.host.interpreter import OLDEST_USER_PYTHON, Interpreter, interpreter

_VENVS = (".venv", "venv", "env")
_ROOTS = (".git", "uv.lock", "pyproject.toml", "requirements.txt", "Pipfile")  # files in the root of a project
_UV_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """The environment of an application: a Python, and the packages to install once if it is not the user's own."""

    python: str  # absolute path; the base of the new environment if there are requirements
    found: str  # how it was found, such as `.venv` or `uv.lock`
    requirements: tuple[str, ...] = ()  # such as `-r uv.lock`, relative to the application's folder


def user_environment(folder: Path, pythons: Sequence[str] = ()) -> UserEnvironment:
    """Return the environment for an application in this folder.

    The first of these that exists: `--python`, an active environment, a virtual environment here or above, a file that
    lists the dependencies, and the Python of the bench. An active environment that contains the bench comes last,
    because it is usually not that of the application.

    Raises:
        BadInputError: the project needs another Python, and none is installed.
    """
    if pythons:
        return UserEnvironment(interpreter(pythons[0], OLDEST_USER_PYTHON).path, "--python")
    for name, prefix in _active():
        if _python_in(prefix) and prefix.resolve() != Path(sys.prefix).resolve():
            return UserEnvironment(str(_python_in(prefix)), f"${name}")
    places = [folder, *_parents(folder)]
    for place in places:
        for venv in _VENVS:
            if python := _python_in(place / venv):
                return UserEnvironment(str(python), os.path.relpath(place / venv, folder))
    for place in places:
        for name in _listing(place):
            file = os.path.relpath(place / name, folder)
            return UserEnvironment(_base_python(place), file, (f"-r {file}",))
    return UserEnvironment(sys.executable, "the Python of Under Siege")


def _active() -> Iterator[tuple[str, Path]]:
    """Yield the environments that are activated in this shell."""
    if venv := os.environ.get("VIRTUAL_ENV"):
        yield "VIRTUAL_ENV", Path(venv)
    if (conda := os.environ.get("CONDA_PREFIX")) and os.environ.get("CONDA_DEFAULT_ENV") != "base":
        yield "CONDA_PREFIX", Path(conda)


def _python_in(prefix: Path) -> Path | None:
    # Keep links: virtual environments depend on them.
    return path.absolute() if (path := prefix / "bin" / "python").exists() else None


def _parents(folder: Path) -> Iterator[Path]:
    """Yield the directories above a folder, up to the root of its repository or, without git, of its project."""
    above = list(folder.parents)
    if (folder / ".git").exists():
        return
    roots = [place for place in above if (place / ".git").exists()]
    roots = roots or [place for place in above if any((place / name).exists() for name in (*_VENVS, *_ROOTS))]
    if roots and roots[0] not in (Path.home(), Path("/")):
        yield from above[: above.index(roots[0]) + 1]


def _listing(place: Path) -> Iterator[str]:
    """Yield the names of the files in a directory that list the dependencies of an application."""
    project = _project(place)
    if project is not None and (place / "uv.lock").is_file():
        yield "uv.lock"
    own = (project or {}).get("project", {})
    if "dependencies" in own or "dependencies" in own.get("dynamic", ()) or _poetry(project):
        yield "pyproject.toml"
    yield from (name for name in ("requirements.txt", "Pipfile.lock", "Pipfile") if (place / name).is_file())


def _poetry(project: dict[str, Any] | None) -> bool:
    return bool((project or {}).get("tool", {}).get("poetry", {}).get("dependencies"))


def _project(place: Path) -> dict[str, Any] | None:
    try:
        return tomllib.loads((place / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _base_python(place: Path) -> str:
    """Return the Python of the bench, or another one if the project needs it."""
    try:
        pinned = (place / ".python-version").read_text(encoding="utf-8").split()[:1]
    except (OSError, ValueError):
        pinned = []
    wanted = str((_project(place) or {}).get("project", {}).get("requires-python", "")) or "".join(pinned)
    try:
        version = ".".join(map(str, sys.version_info[:3]))
        if not wanted or SpecifierSet(f"=={wanted}.*" if wanted[0].isdigit() else wanted).contains(version):
            return sys.executable
    except InvalidSpecifier:
        return sys.executable
    command = [find_uv_bin(), "--quiet", "python", "find", "--system", wanted]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_UV_LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        raise BadInputError(
            f"{place} needs Python {wanted}, and none is installed: install it, for example with "
            f"uv python install, or pass --python PATH"
        ) from None
    return ran.stdout.strip()


def installed_python(chosen: UserEnvironment, folder: Path, tell: Callable[[str], None]) -> Interpreter:
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
