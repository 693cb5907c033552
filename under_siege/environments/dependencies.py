"""Virtual environments for servers that name their requirements, and for load tools: made once, kept, and shared."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from common.errors import BadInputError
from under_siege.environments.venvs import FOLDER, making, run_command, run_pip
from under_siege.targets.interpreter import Interpreter

_DONE = "done"  # written last: what it was made of
_MADE = ("build", "dist", "node_modules", "venv", "env")
_SUFFIXES = (".py", ".pyi", ".pyx", ".c", ".h", ".cpp", ".rs")
_SETTINGS = ("pyproject.toml", "setup.cfg", "Cargo.toml")


async def environment_with(
    requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Callable[[str], None]
) -> Path | str:
    """Return what `environment_of` returns, or the reason why the packages can't be installed."""
    try:
        return await environment_of(requirements, python, suite, tell)
    except BadInputError as error:
        return f"its requirements can't be installed: {error}"


async def environment_of(
    requirements: tuple[str, ...], python: Interpreter, suite: Path, tell: Callable[[str], None]
) -> Path:
    """Return the folder of a virtual environment of that Python with these packages; make it on first use.

    Raises:
        BadInputError: they can't be installed.
    """
    folder = FOLDER / _name(requirements, python, suite)
    state = _state(requirements, suite)
    if _is_made(folder, state):
        return folder
    async with making(folder, tell):
        if not _is_made(folder, state):
            tell(f"making a virtual environment with {', '.join(requirements)}; this is done once")
            await _make(folder, requirements, python, suite)
            (folder / _DONE).write_text(state, encoding="utf-8")
    return folder


def _is_made(folder: Path, state: str) -> bool:
    done = folder / _DONE
    return done.exists() and done.read_text(encoding="utf-8") == state


def _name(requirements: tuple[str, ...], python: Interpreter, suite: Path) -> str:
    """The version, and a digest of all that it depends on."""
    parts = [
        python.prefix,
        python.build,
        *sorted(requirements),
        *(_contents(one, suite) for one in sorted(requirements)),
    ]
    return f"{python.version.split()[0]}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def _contents(requirement: str, suite: Path) -> str:
    """Of a file of requirements; where a folder is meant, which may change, its path."""
    if requirement.startswith("-r "):
        try:
            return (suite / requirement[3:].strip()).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            return str(error)
    return str(suite) if requirement.startswith(("-e ", ".")) else ""


def _state(requirements: tuple[str, ...], suite: Path) -> str:
    """What it was made of: the requirements; of a folder how many sources it has, and when the newest was changed."""
    told = sorted(requirements)
    for one in told.copy():
        if one.startswith("."):
            changed_ns = [path.stat().st_mtime_ns for path in _sources(suite / one)]
            told.append(f"{len(changed_ns)} sources until {max(changed_ns, default=0)}")
    return "\n".join(told) + "\n"


def _sources(folder: Path) -> Iterator[Path]:
    """What somebody may have written that is installed; nothing hidden, and nothing that was made of it."""
    for where, names, files in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".") and name not in _MADE]
        paths = (Path(where, name) for name in files if name.endswith(_SUFFIXES) or name in _SETTINGS)
        yield from (path for path in paths if path.is_file())


async def _make(folder: Path, requirements: tuple[str, ...], python: Interpreter, suite: Path) -> None:
    words = [part for one in requirements for part in (one.split(" ", 1) if one.startswith("-") else [one])]
    inside = str(folder / "bin" / "python")
    if uv := shutil.which("uv"):
        await run_command([uv, "venv", "--quiet", "--clear", "--python", python.path, str(folder)], "uv venv")
        # As pip does: or the first start of each server would compile what the next ones find.
        install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", inside]
        await run_command([*install, *words], "", suite)
    else:
        why = f"{python.path!r} can't make a virtual environment"
        await run_command([python.path, "-m", "venv", "--clear", str(folder)], why)
        await run_pip(inside, words, folder / "pip.log", suite)
