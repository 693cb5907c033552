"""Read the files that list an application's packages, as far as uv doesn't: what they include, and their sources.

uv installs the packages from these files. It reads no locks of other tools, so these are refused: without them, a name
would stand for whatever package has this name on the public index.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from common.errors import BadInputError

_NESTED = re.compile(r"(?:-r|-c|--requirements?|--constraints?)(?:\s+|=|(?<=-[rc]))(.+)")
_INDEX = re.compile(r"(?:-i|--index-url)(?:\s+|=|(?<=-i))(.+)")
_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
_BUILT = ("build", "dist", "node_modules", "venv", "env")  # directories without sources
_SOURCES = (".py", ".pyi", ".pyx", ".c", ".h", ".cpp", ".rs", "pyproject.toml", "setup.cfg", "Cargo.toml")
_OTHER_TOOLS = {  # files that only other tools can install → the command that creates .venv
    "Pipfile": "PIPENV_VENV_IN_PROJECT=1 pipenv install",
    "Pipfile.lock": "PIPENV_VENV_IN_PROJECT=1 pipenv sync",
    "poetry.lock": "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install",
    "pdm.lock": "pdm install",
}
PIPFILES = ("Pipfile.lock", "Pipfile")


def why_refused(path: Path) -> str:
    """Return why the packages in this file can't be installed and what to do, or an empty string if they can."""
    for lock, command in _OTHER_TOOLS.items():
        tool, is_project = lock.removesuffix(".lock"), path.name == "pyproject.toml" and lock not in PIPFILES
        if path.name == lock:
            what = lock
        elif is_project and path.with_name(lock).is_file():
            what = f"{path.name} as {lock} locks them"
        elif is_project and at(toml_of(path), "tool", tool, "source"):
            what = f"the sources of {tool} in {path.name}"
        else:
            continue
        return f"uv can't install packages from {what}: create .venv, for example with {command}"
    return ""


def lines_of(path: Path) -> list[tuple[Path, str]]:
    """Return the lines of a requirements file and of the files that it includes, each with the folder of its file.

    Raises:
        BadInputError: a file can't be read.
    """
    return list(_lines(path, set()))


def _lines(path: Path, seen: set[Path]) -> Iterator[tuple[Path, str]]:
    if (resolved := path.resolve()) in seen:
        return
    seen.add(resolved)
    for line in re.sub(r"\\\r?\n", " ", _text(path)).splitlines():
        if not (text := re.sub(r"(^|\s)#.*", "", line).strip()):
            continue
        yield path.parent, text
        if (nested := _NESTED.fullmatch(text)) and "://" not in nested[1]:
            yield from _lines(path.parent / nested[1].strip("\"' "), seen)


def index_of(path: Path) -> str:
    """Return the package index that a requirements file names, or an empty string; the last one counts."""
    found = [index[1] for _, line in lines_of(path) if (index := _INDEX.fullmatch(line))]
    url = found[-1].strip("\"' ") if found else ""
    return re.sub(r"\$\{([A-Z0-9_]+)\}", lambda variable: os.environ.get(variable[1], variable[0]), url)


def contents(path: Path) -> list[str]:
    """Return the text on which an environment depends: that of the files, and the state of the local packages.

    Raises:
        BadInputError: a file can't be read.
    """
    texts, packages = _texts_and_packages(path)
    return [*texts, *(f"{place} {'' if is_linked else state_of_sources(place)}" for place, is_linked in packages)]


def _texts_and_packages(path: Path) -> tuple[list[str], list[tuple[Path, bool]]]:
    """Return the text that lists packages, and local packages, each with whether an environment only links to it."""
    if path.suffix != ".toml" and path.suffix != ".lock":
        lines = lines_of(path)
        return [text for _, text in lines], _local(lines)
    files = [path, *([path.with_name("pyproject.toml")] if path.suffix == ".lock" else [])]
    return [_text(file) for file in files], _sources_of(path, files)


def mentions(package: str, files: Iterable[Path]) -> bool:
    """Return whether these files contain the name of a package, or a name that contains it as a word."""
    word = re.sub(r"[-_.]+", "[-_.]", re.escape(package))
    texts = (text for file in files for text in _texts_and_packages(file)[0])
    return any(re.search(rf"(?i)(?<![a-z0-9]){word}(?![a-z0-9])", text) for text in texts)


def have_own_packages(files: Iterable[Path]) -> bool:
    """Return whether these files list packages that may have any modules, because they come from a folder or git."""
    found = [_texts_and_packages(file) for file in files]
    return any(packages or any(re.search(r"\bgit\b", text) for text in texts) for texts, packages in found)


def _local(lines: Iterable[tuple[Path, str]]) -> list[tuple[Path, bool]]:
    """Return the local packages of a requirements file, each with whether its environment only links to it."""
    found = []
    for folder, line in lines:
        target = re.split(r"\s*;|\[", _EDITABLE.sub("", line).rpartition(" @ ")[2].strip())[0].removeprefix("file://")
        if not target.startswith("-") and "://" not in target and (os.sep in target or target == "."):
            found.append((folder / target, _EDITABLE.match(line) is not None))
    return found


def _sources_of(path: Path, files: Iterable[Path]) -> list[tuple[Path, bool]]:
    """Return the local packages of a project, each with whether its environment only links to it."""
    sources: list[Any] = []
    for table in map(toml_of, files):
        for tables in (at(table, "tool", "uv", "sources"), at(table, "tool", "poetry", "dependencies")):
            values = tables.values() if isinstance(tables, dict) else ()
            sources += [each for value in values for each in (value if isinstance(value, list) else [value])]
        sources += [at(package, "source") for package in at(table, "package") if path.suffix == ".lock"]
    found = []
    for source in sources:
        place = next(
            (at(source, key) for key in ("editable", "directory", "path") if isinstance(at(source, key), str)), ""
        )
        is_linked = at(source, "editable") not in ({}, False)
        if (place and place != ".") or at(source, "workspace"):
            found.append((path.parent / place, is_linked or not place))
    return found


def state_of_sources(project: Path) -> str:
    """Describe a directory, or a file, by its number of source files and their newest modification time.

    uv only looks at pyproject.toml, setup.py and setup.cfg.
    """
    changed_ns = [project.stat().st_mtime_ns] if project.is_file() else []
    for directory, names, files in os.walk(project):
        names[:] = [name for name in names if not name.startswith(".") and name not in _BUILT]
        sources = [Path(directory, name) for name in files if name.endswith(_SOURCES)]
        changed_ns += [path.stat().st_mtime_ns for path in sources if path.is_file()]
    return f"{len(changed_ns)} sources until {max(changed_ns, default=0)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{path} can't be read: {reason}") from None


def toml_of(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file, or an empty one if it can't be read; uv says why."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def at(table: Any, *keys: str) -> Any:
    """Return the value in nested tables, or an empty table if there is none."""
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table
