"""The strategies: finding the server files and reading what they say of themselves, without running them."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import BadInputError
from common.server_contract import LONGEST_QUEUE, unmet
from under_siege.model.result_file import legible
from under_siege.model.suite import BARE, Kind, Suite, Target
from under_siege.paths import ROOT

SERVERS = ROOT / "servers"
# The bench compares what strategies get done, with as many users as it is told: none of them is refused. By hand each
# server refuses what its workers can't begin soon.
_NEVER_FULL = ("--queue", str(LONGEST_QUEUE))

# What a file has to name for its strategy to be of a kind; the first that fits.
_SIGNS = (
    (Kind.GREENLETS, {"gevent", "gevent_kit"}),
    (Kind.INTERPRETERS, {"InterpreterPoolExecutor"}),
    (Kind.PREFORK, {"gunicorn", "gunicorn_kit"}),
    (Kind.PROCESSES, {"ProcessPoolExecutor", "pebble", "dask", "dask_kit", "celery", "celery_kit"}),
    (Kind.THREADS, {"ThreadPoolExecutor", "to_thread", "fastapi"}),
    (Kind.SLICES, {"perform_in_slices"}),
    (Kind.IN_LINE, {"perform"}),
)


class NoSuchServerError(BadInputError):
    """There is no such server, or its file can't be one; the message is one line."""


def strategies_suite(names: Sequence[str]) -> Suite:
    """The strategies of these names, or all of them where there is no name, against the bare load.

    Raises:
        NoSuchServerError: nothing fits a name, or the file can't be a server.
    """
    chosen = [find_strategy(name) for name in names] if names else all_strategies()
    return Suite(tuple(dict.fromkeys(chosen)), BARE, axes={"task": ("primes",), "users": (25,)})


def by_hand(target: Target) -> Target:
    """The strategy as one starts it by hand: it refuses what its workers can't begin soon."""
    words = target.command
    return replace(target, command=words[: -len(_NEVER_FULL)]) if words[-len(_NEVER_FULL) :] == _NEVER_FULL else target


def all_strategies() -> list[Target]:
    """Every file in servers/, in the order of their numbers."""
    found = [read_strategy(path) for path in SERVERS.glob("*.py")]
    return sorted(found, key=lambda target: (target.number or 0, target.name))


def find_strategy(name: str) -> Target:
    """A strategy by number (`3`), stem (`3_async_threadexecutor`), or path to any script that keeps the contract.

    Raises:
        NoSuchServerError: nothing fits, or the file can't be a server.
    """
    for path in SERVERS.glob("*.py"):
        if name in (path.stem, path.stem.partition("_")[0]):
            return read_strategy(path)
    if name.endswith(".py") or "/" in name:
        return read_strategy(Path(name))
    names = ", ".join(target.name for target in all_strategies())
    raise NoSuchServerError(f"unknown server {name!r}: expected a number, a path, or one of {names}")


def read_strategy(path: Path) -> Target:
    """What a server file says of itself.

    Raises:
        NoSuchServerError: it isn't there, isn't Python, has neither a docstring nor a --port,
            or a REQUIRES that can't be understood.
    """
    try:
        source = path.read_text(encoding="utf-8")
        module = ast.parse(source)
    except OSError as error:
        raise NoSuchServerError(f"server {str(path)!r} can't be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise NoSuchServerError(f"server {str(path)!r} is not Python: {' '.join(str(error).split())}") from None
    docstring = ast.get_docstring(module) or ""
    if not docstring and "port" not in source:
        raise NoSuchServerError(
            f"server {str(path)!r} doesn't keep the server contract: it has neither a docstring, whose first line "
            "is its title, nor a --port; see README, 'Add your own'"
        )
    title = docstring.splitlines()[0] if docstring else path.stem
    requires = _requires(module)
    try:
        unmet(requires)
    except BadInputError as error:
        raise NoSuchServerError(f"server {str(path)!r} says {error}") from None
    named, ours = set(_named(module)), _calls_of_server_options(module)
    workers = ("--workers", "{workers}") if not ours or any(call.args for call in ours) else ()
    return Target(
        legible(path.stem),
        legible(title),
        path.resolve(),
        requires,
        next((kind for kind, signs in _SIGNS if signs & named), Kind.UNKNOWN),
        axes=tuple(name for name in Target.AXES if workers or name != "workers"),
        command=_start(path, _NEVER_FULL if ours else ()),
        command_if=workers,
        takes_jobs="JOBS" in named or any(_assigns(node, "JOBS") for node in module.body),
    )


def _start(path: Path, more: tuple[str, ...]) -> tuple[str, ...]:
    return ("{python}", str(path.resolve()), "--host", "{host}", "--port", "{port}", "--task", "{task}", *more)


def _requires(module: ast.Module) -> str:
    for node in module.body:
        if _assigns(node, "REQUIRES") and isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return ""


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and [one.id for one in node.targets if isinstance(one, ast.Name)] == [name]


def _named(module: ast.Module) -> Iterator[str]:
    """Whatever it imports or looks up by a name."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (part for name in names for part in name.split("."))
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _calls_of_server_options(module: ast.Module) -> list[ast.Call]:
    """Where it has our options; without a number of workers it says that its strategy has always one."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "server_options"]
