"""Measure two revisions of an application in one run: the work tree and its base."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import BadInputError
from under_siege.environments.installation import DIRECTORY
from under_siege.model.case import REVISION, Value
from under_siege.model.result_file import legible
from under_siege.model.suite import Suite
from under_siege.targets.interpreter import Interpreter, interpreter

LIMIT_S = 300.0  # timeout of each git command, such as a checkout


def with_base(suite: Suite, base: str, pythons: Sequence[Value]) -> Suite:
    """Return the suite with an added axis `revision`, whose values are the base and the work tree.

    Args:
        base: a revision in the git repository of the suite's folder, or the directory of another work tree.
        pythons: the paths of the interpreters that run the servers; if empty, those of the suite.

    Raises:
        BadInputError: the base does not exist, it lacks the suite's folder, or a Python would import the same package
            for every revision.
    """
    if (folder := suite.folder) is None:
        raise BadInputError(
            f"--against {legible(base)} needs a TARGET: expected a suite file, or an application such as shop.main:app"
        )
    if REVISION in suite.axes:
        raise BadInputError(f"{suite.source}: axes.{REVISION}: expected another name, because --against adds this axis")
    root = Path(top) if (top := _git(folder, "rev-parse", "--show-toplevel")) else None
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}") if root else ""
    if root is not None and commit:
        place, label = _checkout(root, commit), f"{legible(base)} ({commit[:7]})"
    elif Path(base).is_dir():
        place, label = Path(base).resolve(), legible(base)
    else:
        kind = "directory" if root is None else f"revision of {root}, and no such directory"
        raise BadInputError(f"--against {legible(base)}: no such {kind}; use for example main, HEAD~1 or ../other")
    inner = folder.relative_to(root) if root else Path()
    if commit and not (place / inner).is_dir():
        raise BadInputError(f"--against {legible(base)}: that revision has no directory {str(inner)!r}")
    places = {label: place / inner if (place / inner).is_dir() else place, _work_tree(folder): folder}
    if len(places) < 2 or len(set(places.values())) < 2:
        raise BadInputError(f"--against {legible(base)}: that is the work tree itself; expected another directory")
    _refuse_shared_package(
        folder, [interpreter(str(path)) for path in pythons or suite.axes.get("python", [sys.executable])]
    )
    targets = tuple(replace(target, axes=(*target.axes, REVISION)) for target in suite.targets)
    return replace(suite, targets=targets, axes={**suite.axes, REVISION: tuple(places)}, revisions=places)


def _refuse_shared_package(folder: Path, pythons: Sequence[Interpreter]) -> None:
    """Raise BadInputError if all revisions would import the same package, which is installed in editable mode."""
    for python in pythons:
        for path in Path(python.prefix).glob("lib/python*/site-packages/*.pth"):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if Path(line).is_absolute() and Path(line).is_relative_to(folder):
                    raise BadInputError(
                        f"--against: {python.path} imports the package in {line} for every revision, because it is "
                        'installed in editable mode; uninstall it, and add requirements = ["."] to the suite'
                    )


def _work_tree(folder: Path) -> str:
    commit = _git(folder, "rev-parse", "--short=7", "HEAD")
    changed = " with changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else ""
    return f"work tree ({commit}{changed})" if commit else "work tree"


def _checkout(root: Path, commit: str) -> Path:
    """Return the directory with a checkout of the commit; create it on first use."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()
    directory = DIRECTORY / "revisions" / f"{digest[:8]}-{commit[:12]}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
            clone = Path(temporary, "clone")
            _git(
                root, "clone", "--quiet", "--shared", "--no-checkout", "--template=", str(root), str(clone), strict=True
            )
            _git(clone, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "--detach", commit, strict=True)
            clone.rename(directory)
    return directory


def _git(folder: Path, *arguments: str, strict: bool = False) -> str:
    """Return the output of git; if git fails, return an empty string, or raise BadInputError if `strict`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = next(argument for argument in arguments if argument in ("clone", "checkout")) if strict else ""
    try:
        ran = subprocess.run(
            [shutil.which("git") or "git", "--no-optional-locks", "-C", str(folder), *arguments],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        if strict:
            raise BadInputError(f"git {command} failed: {error}") from None
        return ""
    if ran.returncode and strict:
        raise BadInputError(f"git {command} failed: {legible(' '.join(ran.stderr.split()))[-300:]}")
    return "" if ran.returncode else ran.stdout.strip()
