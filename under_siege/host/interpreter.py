"""Find the Python interpreters that run servers, and the environment of a user's application."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.host.commands import CommandError, output_of
from under_siege.host.requirement_files import PIPFILES, at, toml_of, why_refused
from under_siege.paths import server_environment

_DESCRIBE = """
import json, platform, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
version = platform.python_version() + ("t" if free else "")
packages = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
in_venv = sys.prefix != sys.base_prefix
answer = [version, " ".join(sys.version.split()), sys.version_info[:2], sys.prefix, in_venv * packages]
"""
OLDEST_PYTHON = (3, 11)  # for servers that import `common`
OLDEST_USER_PYTHON = (3, 9)  # for the servers of a suite or an application
_PACKAGES = (
    *("aiohttp", "celery", "distributed", "flask", "gevent", "gunicorn", "kombu", "pebble", "psutil", "redis"),
    *("bottle", "cheroot", "django", "fastapi", "granian", "hypercorn", "litestar", "starlette", "tornado", "uvicorn"),
    *("waitress", "werkzeug"),
)
_LIST_PACKAGES = f"""
import importlib.metadata, json
answer = {{}}
for name in {_PACKAGES}:
    try:
        answer[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
"""
_LIST_DIRECTORIES = """
import json, sys
answer = [path for path in sys.path if path.endswith("-packages")]
"""
_VENVS = (".venv", "venv", "env")
_ROOTS = (".git", "uv.lock", "pyproject.toml", "requirements.txt", "Pipfile")  # files in the root of a project
_UV_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    version: str  # version number; ends in `t` if free-threaded
    build: str  # `sys.version`
    minor: tuple[int, int]  # such as (3, 14)
    prefix: str
    packages: tuple[str, ...] = ()  # package directories, if it belongs to a virtual environment
    missing: tuple[tuple[str, str], ...] = ()  # packages that can't be installed, each with the reason

    def is_same_as(self, other: "Interpreter") -> bool:
        """Return whether both interpreters are the same installation and build, perhaps under different names."""
        return (self.prefix, self.build) == (other.prefix, other.build)

    def why_missing(self, package: str) -> str:
        """Return why the package can't be installed, or an empty string if the reason is unknown."""
        return dict(self.missing).get(package, "")


def interpreter(path: str = sys.executable, oldest: tuple[int, int] = OLDEST_PYTHON) -> Interpreter:
    """Return the interpreter with this path or name; raise BadInputError if it is older than `oldest`."""
    least = "{}.{}".format(*oldest)
    if (found := shutil.which(path)) is None:
        raise BadInputError(f"no interpreter {path!r}: expected the path or the name of a Python interpreter")
    # Make the path absolute, because servers run in other directories. Keep links: virtual environments depend on them.
    program = str(Path(found).absolute())
    try:
        version, build, minor, prefix, packages = evaluate(program, _DESCRIBE)
    except ValueError:
        raise BadInputError(f"{path!r} does not run as Python; expected Python {least} or later") from None
    if tuple(minor) < oldest:
        raise BadInputError(f"{path!r} is Python {version}; expected {least} or later")
    return Interpreter(program, version, build, tuple(minor), prefix, tuple(packages))


def packages_of(python: str) -> dict[str, str]:
    """Return the versions of installed packages that servers might use, or an empty dict if the Python does not run."""
    try:
        versions: dict[str, str] = evaluate(python, _LIST_PACKAGES, "-I")
    except ValueError:
        return {}
    return versions


def package_directories(python: str) -> list[str]:
    """Return the directories from which a Python imports packages; raise the same errors as `evaluate`."""
    paths: list[str] = evaluate(python, _LIST_DIRECTORIES)
    return paths


def evaluate(python: str, source: str, *options: str) -> Any:
    """Run the source with a Python, and return the value of its variable `answer`, transferred as JSON.

    If `python` is the Python of the bench, the source runs in this process.

    Raises:
        ValueError: the Python or the source fails.
    """
    if python == sys.executable:
        names: dict[str, Any] = {}
        exec(source, names)  # noqa: S102 (a constant)
        return json.loads(json.dumps(names["answer"]))
    command = [python, *options, "-c", f"{source}\nprint(json.dumps(answer))"]
    return json.loads(output_of(command, 30.0, environment=server_environment()))


def distinct(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return the interpreters without duplicates; the same interpreter under another name is a duplicate, too."""
    return [each for index, each in enumerate(interpreters) if not any(map(each.is_same_as, interpreters[:index]))]


def with_unique_versions(interpreters: list[Interpreter]) -> list[Interpreter]:
    """Return the interpreters; add the directory to the version if several interpreters have the same version."""
    versions = [each.version for each in interpreters]
    return [
        replace(each, version=legible(f"{each.version} in {each.prefix}")) if versions.count(each.version) > 1 else each
        for each in interpreters
    ]


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
        BadInputError: the project needs another Python, and none is installed; or only another tool can install its
            packages.
    """
    places = [folder, *_parents(folder)]
    if pythons:
        given = interpreter(pythons[0], OLDEST_USER_PYTHON)
        file = (
            ""
            if given.packages
            else next((file for file in _files(places, folder) if not why_refused(folder / file)), "")
        )
        if not file or _has_packages(given.path, folder / file):
            return UserEnvironment(given.path, "--python")
        return UserEnvironment(given.path, f"{file} for --python", (f"-r {file}",))
    for name, prefix in _active():
        if _python_in(prefix) and prefix.resolve() != Path(sys.prefix).resolve():
            return UserEnvironment(str(_python_in(prefix)), f"${name}")
    for place in places:
        for venv in _VENVS:
            if python := _python_in(place / venv):
                return UserEnvironment(str(python), os.path.relpath(place / venv, folder))
    for file in _files(places, folder):
        if why := why_refused(folder / file):
            raise BadInputError(f"{why}; or pass --python PATH")
        return UserEnvironment(_base_python((folder / file).parent), file, (f"-r {file}",))
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
    if (folder / ".git").exists() or at(toml_of(folder / "pyproject.toml"), "tool", "uv", "workspace"):
        return
    roots = [place for place in above if (place / ".git").exists()]
    roots = roots or [place for place in above if any((place / name).exists() for name in (*_VENVS, *_ROOTS))]
    if roots and roots[0] not in (Path.home(), Path("/")):
        yield from above[: above.index(roots[0]) + 1]


def _files(places: Sequence[Path], folder: Path) -> Iterator[str]:
    """Yield the paths, relative to the folder, of the files that list the dependencies, the nearest first."""
    for place in places:
        yield from (os.path.relpath(place / name, folder) for name in _listing(place))


def _has_packages(python: str, file: Path) -> bool:
    """Return whether a Python already has the packages of this file, as in an image that installs them globally."""
    listed = file.with_name("pyproject.toml") if file.suffix == ".lock" else file
    command = [find_uv_bin(), "pip", "install", "--dry-run", "--offline", "--python", python, "-r", str(listed)]
    try:
        ran = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False, timeout=_UV_LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return False
    return ran.returncode == 0 and "Would make no changes" in ran.stderr


def _listing(place: Path) -> Iterator[str]:
    """Yield the names of the files in a directory that list the dependencies of an application."""
    project = toml_of(place / "pyproject.toml")
    locks = ("uv.lock", "pylock.toml") if project else ("pylock.toml",)
    yield from (name for name in locks if (place / name).is_file())
    is_dynamic = "dependencies" in at(project, "project", "dynamic")
    if is_dynamic or at(project, "project", "dependencies") != {} or at(project, "tool", "poetry", "dependencies"):
        yield "pyproject.toml"
    yield from (name for name in ("requirements.txt", *PIPFILES) if (place / name).is_file())


def _base_python(place: Path) -> str:
    """Return the Python of the bench, or the one that the project needs: .python-version, or any that it allows.

    Raises:
        BadInputError: the project needs another Python, and none is installed.
    """
    try:
        pinned = "".join((place / ".python-version").read_text(encoding="utf-8").split()[:1])
    except (OSError, ValueError):
        pinned = ""
    minor = ".".join(pinned.split(".")[:2])  # another patch version is as good
    allowed = at(toml_of(place / "pyproject.toml"), "project", "requires-python") or ""
    wanted = [each for each in dict.fromkeys((pinned, minor, str(allowed))) if _is_version(each)]
    for version in wanted:
        if found := _python_of(version):
            return found
    if not wanted:
        return sys.executable
    uv = "uv" if shutil.which("uv") else f"{shlex.quote(sys.executable)} -m uv"  # which the bench requires
    raise BadInputError(
        f"{place} needs Python {wanted[-1]}, and none is installed: install it, for example with "
        f"{uv} python install {shlex.quote(wanted[-1])}, or pass --python PATH"
    )


def _is_version(wanted: str) -> bool:
    try:
        return bool(SpecifierSet(_as_specifier(wanted)))
    except InvalidSpecifier:
        return False


def _as_specifier(wanted: str) -> str:
    return f"=={wanted}.*" if wanted[:1].isdigit() else wanted


def _python_of(wanted: str) -> str:
    """Return an installed Python of this version, that of the bench if it fits; an empty string if there is none."""
    if SpecifierSet(_as_specifier(wanted)).contains(".".join(map(str, sys.version_info[:3]))):
        return sys.executable
    # pyenv's shims fail for all versions except those that are selected; uv would give up at the first.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    newest = sorted(pyenv.glob("versions/*/bin"), key=lambda place: _numbers(place.parent.name), reverse=True)
    path = os.pathsep.join(str(place) for place in (*places, *newest) if place != pyenv / "shims")
    command = [find_uv_bin(), "python", "find", "--no-python-downloads", "--system", wanted]
    environment = {**os.environ, "PATH": path}
    try:
        return output_of(command, _UV_LIMIT_S, environment=environment)
    except CommandError:
        return ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
