"""Measure two revisions of an application in one run: the work tree and its base."""

import ast
import csv
import fcntl
import hashlib
import itertools
import os
import re
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.host.commands import CommandError, output_of
from under_siege.host.environments import DIRECTORY
from under_siege.host.interpreter import OLDEST_USER_PYTHON, interpreter
from under_siege.load.body_rule import as_json
from under_siege.measure.copied_files import copy_into, database_of
from under_siege.record.case import REVISION, Value
from under_siege.suite.suite import Suite, Target

# What a checkout of the base does not need, although git ignores it.
_BUILT = re.compile(
    r"(^|/)(\.?v?env|node_modules|build|dist|results|htmlcov|__pycache__|\.[\w]+_cache|[^/]*\.(egg-info|py[co]|log))/?$"
)
_CLAIMS: dict[Path, int] = {}  # the checkouts that this process uses, and their open files
GIT_LIMIT_S = 300.0  # timeout of each git command, such as a checkout


def with_base(suite: Suite, base: str, pythons: Sequence[Value], copied: Sequence[Path] = ()) -> Suite:
    """Return the suite with an added axis `revision`, whose values are the base and the work tree.

    Args:
        base: a revision in the git repository of the suite's folder, or the directory of another work tree.
        pythons: the paths of the interpreters that run the servers; if empty, those of the suite.
        copied: files and folders that git ignores, relative to the current directory, to copy to the base.

    Raises:
        BadInputError: the base does not exist, it lacks the suite's folder, or a file can't be copied.
    """
    if (folder := suite.folder) is None:
        raise BadInputError(
            f"--against {legible(base)} needs a TARGET: expected a suite file, or an application such as shop.main:app"
        )
    _refuse_incomparable(suite, base)
    root = Path(top) if (top := _git(folder, "rev-parse", "--show-toplevel")) else None
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}") if root else ""
    if root is not None and commit:
        place, label = _checkout(root, commit), f"{legible(base)} ({commit[:7]})"
    elif Path(base).is_dir():
        place, label = Path(base).resolve(), legible(base)
    else:
        if why := _why_no_revision(folder):
            raise BadInputError(f"--against {legible(base)}: {why}")
        kind = (
            f"revision of {root}, and no such directory" if root else f"directory, and {folder} is in no git repository"
        )
        raise BadInputError(f"--against {legible(base)}: no such {kind}; use for example main, HEAD~1 or ../other")
    inner = folder.relative_to(root) if root else Path()
    if commit and not (place / inner).is_dir():
        raise BadInputError(f"--against {legible(base)}: that revision has no directory {str(inner)!r}")
    places = {label: place / inner if (place / inner).is_dir() else place, _work_tree(folder): folder}
    if len(places) < 2 or len(set(places.values())) < 2:
        raise BadInputError(f"--against {legible(base)}: that is the work tree itself; expected another directory")
    if copied and not (root and commit):
        raise BadInputError(f"--copy: {legible(base)} is a directory of yours; copy the files to it yourself")
    for path in copied:
        _copy(path, root or folder, place)
    own = _own_packages(root or folder, folder, pythons or suite.axes.get("python", [sys.executable]))
    targets = tuple(_with_revisions(target, own) for target in suite.targets)
    left = _ignored_files(folder, copied) if commit else ()
    return replace(suite, targets=targets, axes={**suite.axes, REVISION: tuple(places)}, revisions=places, ignored=left)


def _why_no_revision(folder: Path) -> str:
    """Return why git finds no revision although there may be one, and what to do, or an empty string."""
    if shutil.which("git") is None:
        return "git is not installed: install it, or name the directory of another work tree"
    try:
        _git(folder, "rev-parse", "--show-toplevel", strict=True)
    except BadInputError as error:
        if owned := re.search(r"dubious ownership in repository at '([^']+)'", str(error)):
            allowed = f"git config --global --add safe.directory {shlex.quote(owned[1])}"
            return f"git refuses a repository that another user owns; if you trust it, run: {allowed}"
        return ""
    if _git(folder, "rev-parse", "--is-shallow-repository").strip() == "true":
        return "this clone is shallow, so it may lack the revision; run: git fetch --unshallow --tags"
    return ""


def _refuse_incomparable(suite: Suite, base: str) -> None:
    """Raise BadInputError if the suite has this axis already, or if both revisions would run the same code."""
    if REVISION in suite.axes:
        raise BadInputError(f"{suite.source}: axes.{REVISION}: expected another name, because --against adds this axis")
    if suite.application and suite.application.copies:
        raise BadInputError(
            f"--against {legible(base)}: both revisions would import {suite.application.copies[0]}; install the "
            "application in editable mode, such as with pip install -e ."
        )


def _copy(path: Path, root: Path, place: Path) -> None:
    """Copy a file or a folder of the work tree to the same place in the base."""
    source, option = path.resolve(), f"--copy {legible(str(path))}"
    if not source.exists() or not source.is_relative_to(root.resolve()):
        raise BadInputError(f"{option}: expected a file or folder of {root}")
    if (database := database_of(source)) is not None:
        raise BadInputError(
            f"{option}: it belongs to a database; use --copy {legible(str(path.with_name(database.name)))}"
        )
    try:
        copy_into(place, source, place / source.relative_to(root.resolve()))
    except (OSError, shutil.Error, sqlite3.Error) as error:
        raise BadInputError(f"{option}: can't be copied to the base: {error}") from None


def _ignored_files(folder: Path, copied: Sequence[Path]) -> tuple[str, ...]:
    """Return what the application may need and a checkout lacks: ignored files and submodules, unless they are copied.

    Environments, caches and build results are left out.
    """
    listed = _git(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--", ".")
    stages = [entry.partition("\t") for entry in _git(folder, "ls-files", "--stage", "-z", "--", ".").split("\0")]
    submodules = [name for stage, _, name in stages if stage.startswith("160000")]
    known = {path.resolve() for path in copied}
    names = [name for name in (*submodules, *listed.split("\0")) if name and (folder / name).resolve() not in known]
    return tuple(name for name in names if not _BUILT.search(name) and database_of(folder / name) is None)


def _with_revisions(target: Target, packages: Sequence[str]) -> Target:
    """Return the target with the axis of revisions; let each revision import its own packages."""
    environment = dict(target.environment)
    paths = [*packages, *filter(None, [environment.get("PYTHONPATH")])]
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return replace(target, axes=(*target.axes, REVISION), environment=tuple(environment.items()))


def _own_packages(root: Path, folder: Path, pythons: Sequence[Value]) -> list[str]:
    """Return the directories of installed packages of this project, relative to the working directory of the commands.

    On PYTHONPATH, they precede what is installed, so that each revision imports its own packages.
    """
    found: dict[str, None] = {}
    for python in pythons:
        prefix = Path(interpreter(str(python), OLDEST_USER_PYTHON).prefix)
        for file in sorted(prefix.glob("lib/python*/site-packages/*.pth")):
            found |= dict.fromkeys(file.read_text(encoding="utf-8", errors="replace").splitlines())
        for finder in prefix.glob("lib/python*/site-packages/__editable__*_finder.py"):  # of setuptools
            mapping = re.search(r"^MAPPING[^=]*= (\{.*\})$", finder.read_text(encoding="utf-8"), re.MULTILINE)
            packages = ast.literal_eval(mapping[1]) if mapping else {}
            found |= dict.fromkeys(str(Path(path).parent) for path in packages.values())
        for origin in prefix.glob("lib/python*/site-packages/*.dist-info/direct_url.json"):  # copies of a directory
            found |= dict.fromkeys(_sources_of(origin))
    inside = [path for path in found if Path(path).is_absolute() and Path(path).is_relative_to(root)]
    return [os.path.relpath(path, folder) for path in inside]


def _sources_of(origin: Path) -> Iterator[str]:
    """Yield the directory with the sources of a package that was installed from a directory (PEP 610), if complete."""
    data = as_json(origin.read_bytes())
    url = str(data.get("url", "")) if isinstance(data, dict) and "dir_info" in data else ""
    project = Path(unquote(urlsplit(url).path))
    source = project / "src" if (project / "src").is_dir() else project
    with origin.with_name("RECORD").open(encoding="utf-8", newline="") as record:
        names = [row[0] for row in csv.reader(record) if row and not row[0].startswith("..")]
    modules = [name for name in names if ".dist-info/" not in name and "__pycache__" not in name]
    if url and modules and all((source / name).exists() for name in modules):  # some are only built when installed
        yield str(source)


def _work_tree(folder: Path) -> str:
    commit = _git(folder, "rev-parse", "--short=7", "HEAD")
    changed = " with changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else ""
    return f"work tree ({commit}{changed})" if commit else "work tree"


def _checkout(root: Path, commit: str) -> Path:
    """Return the directory with a new checkout of the commit, without anything that an earlier run left there."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    directory = _claimed(DIRECTORY / "revisions" / f"{digest[:8]}-{commit[:12]}")
    try:
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    except OSError as error:
        raise BadInputError(f"{directory} can't be emptied: {error.strerror}: {error.filename}; remove it") from None
    _git(root, "clone", "--quiet", "--shared", "--no-checkout", "--template=", str(root), str(directory), strict=True)
    if not _git(directory, "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"):
        # A clone of a shallow repository, as in CI, lacks commits that no branch contains.
        _git(directory, "fetch", "--quiet", "--no-tags", "--depth=1", str(root), commit, strict=True)
    _git(directory, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "--detach", commit, strict=True)
    return directory


def _claimed(directory: Path) -> Path:
    """Return this directory, or another one if a run in progress uses it; claim it until this process ends."""
    places = itertools.chain(
        [directory], (directory.with_name(f"{directory.name}-{number}") for number in itertools.count(2))
    )
    return next(place for place in places if place in _CLAIMS or _claims(place))


def _claims(directory: Path) -> bool:
    """Create the directory, and return whether no other process claims it."""
    directory.mkdir(parents=True, exist_ok=True)
    claim = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        return False
    _CLAIMS[directory] = claim
    return True


def _git(folder: Path, *arguments: str, strict: bool = False) -> str:
    """Return the output of git; if git fails, return an empty string, or raise BadInputError if `strict`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = [shutil.which("git") or "git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        return output_of(command, GIT_LIMIT_S, environment=environment)
    except CommandError as error:
        if strict:
            raise BadInputError(f"git failed: {legible(str(error))}") from None
        return ""
