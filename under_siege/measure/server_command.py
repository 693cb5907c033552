"""Build the command line, environment and directory of a target, from the plan and the case."""

import ast
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

from under_siege.host.programs import SYSTEM, install_command
from under_siege.host.services import password_variables, without_passwords
from under_siege.host.supervisor_client import current_supervisor
from under_siege.load.request import filled, filled_all
from under_siege.measure.plan import Plan
from under_siege.paths import HOST, server_environment
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError
from under_siege.suite.suite import SERVICES, Target
from under_siege.suite.suite_file import template_text

# Gunicorn reads gunicorn.conf.py unless it is told to read another configuration, such as a module without settings.
NEUTRAL = {"GUNICORN_CMD_ARGS": "--config python:keyword"}
_SETTINGS = ("GUNICORN_CMD_ARGS", "WEB_CONCURRENCY")
_PREFIXES = ("UVICORN_", "GRANIAN_", "HYPERCORN_")
_CONFIGURATION = "gunicorn.conf.py"
_GUNICORN_OPTIONS = {  # option → settings in the configuration file that it replaces
    "-w": ("workers",),
    "-b": ("bind",),
    "-k": ("worker_class",),
    "--threads": ("threads",),
    "--timeout": ("timeout",),
    "--keep-alive": ("keepalive",),
}
_LIBRARY = "lib"  # prefix of libraries in `Target.needs`


@dataclass(frozen=True, slots=True)
class Start:
    """A command with its environment and directories."""

    words: list[str]
    environment: dict[str, str]
    folder: Path | None  # working directory, or None for that of the bench
    own_folder: str = ""  # directory for files of the target; removed after it exits
    reload: tuple[str, ...] = ()  # the command that reloads the server, in which {pid} is not replaced yet


@contextlib.contextmanager
def start_of(plan: Plan, case: Case, port: int, services: Mapping[str, str]) -> Iterator[Start]:
    """Yield the command that starts the target on that port; remove the target's directory at the end.

    Args:
        services: the addresses of the services that the target needs, with their passwords.

    Raises:
        CaseFailedError: something that the target needs is missing.
    """
    target, python = plan.targets[case.server], plan.python_of(case)
    words, values = target.command_for(case), {"host": HOST, "port": port, **services}
    if target.path is not None:
        values = {**plan.values_of(case), "python": python.path, **values}
        yield Start(filled_all(words, values), server_environment(), None)
        return
    environment = _environment(plan, case)
    if why := plan.unprepared.get(case):
        raise CaseFailedError("not_prepared", why)
    with (
        tempfile.TemporaryDirectory(prefix="target-", dir=os.environ.get("TMPDIR")) as folder,
        current_supervisor().removing(Path(folder)),
    ):
        values = {**_values(plan, case, environment), **values, "folder": folder}
        completed = [_completed(word, plan.folder_of(case), Path(folder), values) for word in words]
        variables = {filled(name, values): filled(text, values) for name, text in target.environment}
        environment |= password_variables(services) | variables
        filled_words = filled_all(completed, {**values, **without_passwords(services)})
        reload = filled_all(target.reload, {**values, **without_passwords(services)})
        yield Start(filled_words, environment, plan.folder_of(case), folder, tuple(reload))


def suite_command(
    plan: Plan,
    case: Case,
    words: Sequence[str],
    values: Mapping[str, object] | None = None,
    services: Mapping[str, str] | None = None,
) -> Start:
    """Return a command of the suite in the environment of the target; arguments and errors are those of `start_of`."""
    environment, services = _environment(plan, case), services or {}
    values = {**_values(plan, case, environment), **(values or {}), **without_passwords(services)}
    return Start(filled_all(words, values), environment | password_variables(services), plan.folder_of(case))


def prepare_command(plan: Plan, folder: Path | None) -> Start:
    """Return the command that prepares the whole suite in this folder, with the first Python of the plan."""
    python = next(iter(plan.pythons.values())).path
    environment = {**os.environ, "PATH": _path(Path(python).parent)}
    return Start(filled_all(plan.suite.prepare, _places(plan, folder, environment, python)), environment, folder)


def set_aside(environment: Mapping[str, str], folder: Path | None = None) -> list[str]:
    """Return the settings that change what a server does: environment variables, and Gunicorn's configuration file."""
    files = [_CONFIGURATION] if folder is not None and (folder / _CONFIGURATION).is_file() else []
    return [*files, *(name for name in sorted(environment) if name in _SETTINGS or name.startswith(_PREFIXES))]


def overridden(folder: Path | None, words: Sequence[str]) -> list[str]:
    """Return the kept settings of Gunicorn that have no effect, because the command sets them, such as `timeout = 30`.

    Args:
        words: the command that starts the server.
    """
    if "gunicorn" not in words or folder is None or not (folder / _CONFIGURATION).is_file():
        return []
    try:
        tree = ast.parse((folder / _CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []  # Gunicorn says why
    given = {option for word in words for option in _GUNICORN_OPTIONS.get(word, ())}
    return [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in given
    ]


def _python_on(directory: str) -> str:
    path = Path(directory, "python")
    return str(path) if path.exists() else ""


def _values(plan: Plan, case: Case, environment: Mapping[str, str]) -> dict[str, object]:
    path = {"path": plan.load_of(case).path} if case.get("path") else {}
    return {
        **plan.values_of(case),
        **path,
        **_places(plan, plan.folder_of(case), environment, plan.python_of(case).path),
    }


def _places(plan: Plan, folder: Path | None, environment: Mapping[str, str], python: str) -> dict[str, object]:
    """Return the values of {python}, {suite} and {files}."""
    folder = folder or Path()
    return {
        "python": _python_on(environment["PATH"].partition(os.pathsep)[0]) or python,
        "suite": folder,
        "files": folder / plan.load.files,
    }


def _path(*programs: Path) -> str:
    """Return a PATH that begins with these directories."""
    return os.pathsep.join([*map(str, programs), os.environ.get("PATH", os.defpath), *SYSTEM])


def _environment(plan: Plan, case: Case) -> dict[str, str]:
    """Return this process's environment, with the programs of the target's Python first on the PATH.

    Raises:
        CaseFailedError: something that the target needs is missing.
    """
    target, python = plan.targets[case.server], plan.python_of(case)
    if library := missing_library(target):
        raise CaseFailedError("missing_library", f"{library} is missing; install it with: {install_command(library)}")
    programs, environment = Path(python.path).parent, dict(os.environ)
    venv = plan.environments[plan.environment_of(case)] if target.requirements or target.additions else None
    if isinstance(venv, Path):
        environment["VIRTUAL_ENV"] = str(venv)
        if target.requirements:
            environment.pop("PYTHONPATH", None)
        environment["PATH"] = _path(venv / "bin", *([programs] if target.additions else []))
    else:
        environment["PATH"] = _path(programs)
    environment.pop("PYTHONHOME", None)
    if not plan.suite.keep_environment:
        for name in set_aside(environment):
            del environment[name]
        environment |= NEUTRAL
    for program in target.needs:
        is_program = program not in SERVICES and not program.startswith(_LIBRARY)
        if is_program and shutil.which(program, path=environment["PATH"]) is None:
            how = install_command(program)
            raise CaseFailedError("missing_program", f"{program} is not installed; install it with: {how}")
    if isinstance(venv, str):  # the reason why the installation failed, perhaps missing headers
        hints = (
            f"; {library} is installed, but its headers may be missing; install them with: {install_command(library)}"
            for library in _libraries(target)
        )
        raise CaseFailedError("no_environment", venv + "".join(hints))
    return environment


def missing_library(target: Target) -> str:
    """Return the first missing library of a target, such as `libev`, or an empty string if none is missing."""
    return next((name for name in _libraries(target) if find_library(name.removeprefix(_LIBRARY)) is None), "")


def _libraries(target: Target) -> list[str]:
    return [name for name in target.needs if name.startswith(_LIBRARY)]


def _completed(word: str, suite: Path | None, folder: Path, values: Mapping[str, object]) -> str:
    """Return the argument or, for a suite file that contains `{port}`, the path of a copy with all values filled in."""
    text = template_text(word, suite) if suite is not None else None
    if text is None:
        return word
    path = folder / Path(word).name
    path.write_text(filled(text, values), encoding="utf-8")
    return str(path)
