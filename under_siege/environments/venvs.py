"""The virtual environments that servers run in under another Python: each made once, and kept beside the project."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from common.errors import BadInputError
from under_siege.paths import ROOT, cache_directory
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, until
from under_siege.processes.process_output import Tail
from under_siege.targets.interpreter import Interpreter, interpreter

FOLDER = cache_directory() / ".pythons"  # git ignores it
REQUIREMENTS = ROOT / "servers" / "requirements.txt"
LIMIT_S = 600.0
MOST_SAID = 400  # signs of its last line
_DONE = "missing.json"  # written last, if it is final: which packages there are no builds of

# What pip logs of an index that can't be asked; with a 404 it has answered that there is no such package.
_UNREACHED = re.compile(r"Retrying \(|ConnectionPool|HTTP error|is being ignored|Could not fetch URL(?!.* 404 )")
_NO_BUILD = re.compile(r"No matching distribution|ResolutionImpossible")


async def with_packages(
    python: Interpreter, tell: Callable[[str], None], needed: Collection[str] | None = None
) -> Interpreter:
    """The Python with what the servers need, and with the user's own packages if it is of their environment.

    Args:
        needed: the packages that are asked for; None: all that any server needs.

    Raises:
        BadInputError: no virtual environment can be made with it.
    """
    if python.is_same_as(interpreter()):
        return python
    everything = _requirements()
    wanted = [one for one in everything if needed is None or _package(one) in needed]
    folders = [FOLDER / _name(python, requirements) for requirements in (everything, wanted)]
    folder = next((one for one in folders if (one / _DONE).exists()), folders[-1])
    if (missing := _known_to_miss(folder)) is None:
        async with making(folder, tell):
            if (missing := _known_to_miss(folder)) is None:
                tell(f"making a virtual environment for Python {python.version} in {folder}; this is done once")
                missing = await _make(folder, python, wanted, tell)
    for package, reason in missing.items():
        if package in map(_package, wanted):
            tell(f"Python {python.version} can't have {package}: {reason}")
    return replace(python, path=str(folder / "bin" / "python"), missing=tuple(missing.items()))


@contextlib.asynccontextmanager
async def making(folder: Path, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """While one bench makes the folder, others that want it wait; what could not be completed is removed."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:  # unlocked by the system if this is killed
        if not _locked(lock):
            tell(f"another run makes {folder} at this moment, which is waited for")
            await until(lambda: _locked(lock), math.inf, CALM_LOOK_S)
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _known_to_miss(folder: Path) -> dict[str, str] | None:
    """The packages that it can't have, each with the reason; None if it is not there, or that is not final."""
    done = folder / _DONE
    missing: dict[str, str] | None = json.loads(done.read_text()) if done.exists() else None
    return missing


def _name(python: Interpreter, requirements: Sequence[str]) -> str:
    """The version, and a digest of all that it depends on."""
    parts = [python.prefix, python.build, *python.packages, *requirements]
    return f"{python.version.split()[0]}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:8]}"


async def _make(
    folder: Path, python: Interpreter, requirements: Sequence[str], tell: Callable[[str], None]
) -> dict[str, str]:
    """The packages that it lacks, each with the reason; only what will be so at the next run too is remembered."""
    await run_command(
        [python.path, "-m", "venv", "--clear", str(folder)], f"{python.path!r} can't make a virtual environment"
    )
    missing, final = await _install(folder, requirements, tell)
    if python.packages:  # those of the servers come first
        (_site_packages(folder) / "of_the_user.pth").write_text("\n".join(python.packages) + "\n")
    if final:
        (folder / _DONE).write_text(json.dumps(missing))
    return missing


async def _install(
    folder: Path, requirements: Sequence[str], tell: Callable[[str], None]
) -> tuple[dict[str, str], bool]:
    """Return the packages that can't be installed, each with the reason, and whether that is final.

    If some package has no wheel for this Python, the requirements are installed one by one, and those that need it are
    built from source.
    """
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--root-user-action=ignore"]
    missing, final = {}, True
    try:
        if requirements:
            await run_command([*pip, "--only-binary=:all:", *requirements], "")
    except BadInputError:
        for requirement in requirements:
            package = _package(requirement)
            log = folder / f"{package}.log"
            try:
                await _install_one([*pip, "--retries=1"], requirement, log, tell)
            except BadInputError as error:
                missing[package] = str(error)
                if trouble := _passing_trouble(log, error):
                    missing[package], final = f"{trouble}; this is tried again at the next run", False
    return missing, final


async def _install_one(pip: Sequence[str], requirement: str, log: Path, tell: Callable[[str], None]) -> None:
    """Install a package from wheels if possible, otherwise from source."""
    try:
        await run_command([*pip, "--only-binary=:all:", f"--log={log}", requirement], "")
    except BadInputError as error:
        if _passing_trouble(log, error):
            raise
        tell(f"no wheel of {requirement} fits; trying to build it from source, which can take minutes")
        await run_command([*pip, "--prefer-binary", requirement], "")


def _passing_trouble(log: Path, error: BadInputError) -> str:
    """What kept pip from finding out whether there is a build; empty if it did find out."""
    logged = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if _UNREACHED.search(logged):
        return "no package index was reached"
    return "" if _NO_BUILD.search(logged) else str(error)


def _requirements() -> list[str]:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _package(requirement: str) -> str:
    """Its name, without versions and extras."""
    return re.split(r"[^\w.-]", requirement)[0]


def _site_packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python3*/site-packages"))


async def run_pip(python: str, words: list[str], log: Path, folder: Path) -> None:
    """Install with the pip of that Python, in that folder, which relative paths of requirements start from.

    Raises:
        BadInputError: pip failed. It reports a missing package if no index can be reached, and the error says so.
    """
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    try:
        await run_command([*pip, f"--log={log}", *words], "", folder)
    except BadInputError as error:
        seems_missing = _NO_BUILD.search(str(error))
        raise BadInputError((seems_missing and _passing_trouble(log, error)) or str(error)) from None
    await asyncio.to_thread(log.unlink, missing_ok=True)  # of many megabytes


async def run_command(
    command: list[str], otherwise: str, folder: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Raises BadInputError with `otherwise` and the last line that it said, if it fails."""
    started = ManagedProcess(command, environment=environment or dict(os.environ), folder=folder)
    said, errors = Tail(started.process.stdout), Tail(started.process.stderr)
    try:
        in_time = await started.wait(LIMIT_S)
    finally:
        await started.stop()
    await until(lambda: not errors.reading() and not said.reading(), 1.0)
    if not in_time or started.process.returncode != 0:
        lines = [line for line in (said.text() + "\n" + errors.text()).splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "it said nothing")
        reason = last.strip().removeprefix("ERROR: ") if in_time else f"it took longer than {LIMIT_S:.0f} s"
        reason = reason[:MOST_SAID]
        raise BadInputError(f"{otherwise}: {reason}" if otherwise else reason)
