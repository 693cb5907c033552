"""Build the command line, environment and directory of a target, from the plan and the case."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from common.server_contract import SYSTEM, install_command
from under_siege.errors import CaseFailedError
from under_siege.model.case import Case
from under_siege.model.suite import SERVICES, Target, filled, filled_words
from under_siege.paths import HOST, server_environment
from under_siege.processes.supervisor_client import kept
from under_siege.run.plan import Plan
from under_siege.targets.suite_file import template_text

_LIBRARY = "lib"  # what a need begins with that is no program


@dataclass(frozen=True, slots=True)
class Start:
    """What starts a target."""

    words: list[str]
    environment: dict[str, str]
    folder: Path | None  # that it runs in; None: where the bench does
    own_folder: str = ""  # that it may use, and that is gone after it


@contextlib.contextmanager
def start_of(plan: Plan, case: Case, port: int, services: Mapping[str, str]) -> Iterator[Start]:
    """Return how to start the target on that port; it may have a directory, which is removed at the end.

    Args:
        services: the addresses of those that the target needs.

    Raises:
        CaseFailedError: something that it needs is missing.
    """
    target, python = plan.targets[case.server], plan.python_of(case)
    words = target.command_for(case)
    places = {"host": HOST, "port": port, "python": python.path, "suite": plan.suite.folder or ".", **services}
    values: dict[str, object] = {**dict(case.values), **places}
    if target.path is not None:
        yield Start(filled_words(words, values), server_environment(), None)
        return
    environment = _complete_environment(plan, case)
    values |= _places(plan, environment["PATH"], python.path)
    if why := plan.unprepared.get(case):
        raise CaseFailedError("not_prepared", why)
    with (
        tempfile.TemporaryDirectory(prefix="target-", dir=os.environ.get("TMPDIR")) as folder,
        kept().removing(Path(folder)),
    ):
        values["folder"] = folder
        filled_in = [_settings(word, plan.suite.folder, Path(folder), values) for word in words]
        variables = {filled(name, values): filled(text, values) for name, text in target.environment}
        yield Start(filled_words(filled_in, values), {**environment, **variables}, plan.suite.folder, folder)


def preparing(plan: Plan, case: Case) -> Start:
    """Return what prepares the target of the case, in its environment; raise CaseFailedError as `start_of`."""
    target, environment = plan.targets[case.server], _complete_environment(plan, case)
    values = {**dict(case.values), **_places(plan, environment["PATH"], plan.python_of(case).path)}
    return Start(filled_words(target.prepare, values), environment, plan.suite.folder)


def checking(plan: Plan, case: Case, places: Mapping[str, object]) -> Start:
    """Return what checks the target after its load, in its environment; raise CaseFailedError as `start_of`."""
    environment = _complete_environment(plan, case)
    values = {**dict(case.values), **_places(plan, environment["PATH"], plan.python_of(case).path), **places}
    return Start(filled_words(plan.suite.expect.check, values), environment, plan.suite.folder)


def preparing_all(plan: Plan) -> Start:
    """Return what prepares the whole suite, with the first Python that was named."""
    python = next(iter(plan.pythons.values())).path
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(python).parent), environment.get("PATH", os.defpath), *SYSTEM])
    words = filled_words(plan.suite.prepare, _places(plan, environment["PATH"], python))
    return Start(words, environment, plan.suite.folder)


def _places(plan: Plan, path: str, python: str) -> dict[str, object]:
    """Return the values of {python}, {suite} and {files}."""
    suite = plan.suite.folder or Path()
    return {
        "python": shutil.which("python", path=path) or python,
        "suite": plan.suite.folder or ".",
        "files": suite / plan.load.files,
    }


def _complete_environment(plan: Plan, case: Case) -> dict[str, str]:
    """Return the environment; raise CaseFailedError if something that the target needs is missing."""
    target = plan.targets[case.server]
    if library := missing_library(target):
        raise CaseFailedError("missing_library", f"{library} is missing; install it with: {install_command(library)}")
    environment = _environment(plan, case)
    _must_have(_programs(target), environment["PATH"])
    return environment


def missing_library(target: Target) -> str:
    """Return the first missing library that it needs, such as `libev`; empty if there is none."""
    return next((name for name in _libraries(target) if find_library(name.removeprefix(_LIBRARY)) is None), "")


def _libraries(target: Target) -> list[str]:
    return [name for name in target.needs if name.startswith(_LIBRARY)]


def _programs(target: Target) -> list[str]:
    return [name for name in target.needs if name not in SERVICES and not name.startswith(_LIBRARY)]


def _must_have(programs: Sequence[str], path: str) -> None:
    for program in programs:
        if shutil.which(program, path=path) is None:
            how = install_command(program)
            raise CaseFailedError("missing_program", f"{program} is not installed; install it with: {how}")


def _environment(plan: Plan, case: Case) -> dict[str, str]:
    """Return this process's environment with the programs of the target's Python first."""
    target, python = plan.targets[case.server], plan.python_of(case)
    bin_folder = Path(python.path).parent
    environment = dict(os.environ)
    if target.requirements:
        made = plan.environments[(tuple(filled_words(target.requirements, dict(case.values))), python.version)]
        if isinstance(made, str):
            # What is built needs a compiler, and the headers of a library, which are packages of their own.
            _must_have(_programs(target), os.pathsep.join([environment.get("PATH", os.defpath), *SYSTEM]))
            headers = "".join(
                f"; {one} is there, its headers perhaps not: {install_command(one)}" for one in _libraries(target)
            )
            raise CaseFailedError("no_environment", made + headers)
        bin_folder = made / "bin"
        environment["VIRTUAL_ENV"] = str(made)
        environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONHOME", None)
    environment["PATH"] = os.pathsep.join([str(bin_folder), environment.get("PATH", os.defpath), *SYSTEM])
    return environment


def _settings(word: str, suite: Path | None, folder: Path, values: Mapping[str, object]) -> str:
    """Return the argument; for a file of the suite that contains `{port}`, the path of a filled-in copy."""
    text = template_text(word, suite) if suite is not None else None
    if text is None:
        return word
    path = folder / Path(word).name
    path.write_text(filled(text, values), encoding="utf-8")
    return str(path)
