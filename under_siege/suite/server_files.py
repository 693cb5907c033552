"""Find the server files, read their metadata without running them, and list them."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from common.errors import BadInputError
from common.options import default_port
from under_siege.formatting import legible
from under_siege.host.programs import remedy, unmet
from under_siege.paths import ROOT, USERS
from under_siege.suite.module_files import likely_application
from under_siege.suite.suite import NO_SERVER, Kind, Suite, Target

SERVERS = ROOT / "servers"
# Names of applications and of functions that make them, the likeliest first.
APPLICATIONS = ("app", "application", "create_app", "make_app", "get_app", "build_app", "init_app")

_KIND_BY_NAME = (  # names that the file imports or uses; the first match wins
    (Kind.GREENLETS, {"gevent"}),
    (Kind.INTERPRETERS, {"InterpreterPoolExecutor"}),
    (Kind.PROCESSES, {"ProcessPoolExecutor", "pebble", "dask", "dask_kit", "celery", "celery_kit", "DirtyApp"}),
    (Kind.PREFORK, {"gunicorn", "serve_with_gunicorn"}),
    (Kind.THREADS, {"ThreadPoolExecutor", "to_thread", "fastapi"}),
    (Kind.SLICES, {"perform_in_slices"}),
    (Kind.IN_LINE, {"perform"}),
)


def strategies_suite(names: Sequence[str]) -> Suite:
    """Return a suite of the strategies with these names, or of all strategies; for errors, see `find_strategy`."""
    targets = [find_strategy(name) for name in names] if names else all_strategies()
    return Suite(tuple(dict.fromkeys(targets)), NO_SERVER, axes={"task": ("primes",), "users": (USERS,)})


def all_strategies() -> list[Target]:
    """Return the strategies in servers/, ordered by number."""
    targets = [read_strategy(path) for path in SERVERS.glob("*.py")]
    return sorted(targets, key=lambda target: (target.number or 0, target.name))


def find_strategy(name: str) -> Target:
    """Return the strategy with this number (`3`), file stem, or path.

    Raises:
        BadInputError: there is no such strategy, or `read_strategy` rejects the file.
    """
    for path in SERVERS.glob("*.py"):
        if name in (path.stem, path.stem.partition("_")[0]):
            return read_strategy(path)
    if name.endswith(".py") or "/" in name:
        return read_strategy(Path(name))
    if hint := _as_application(name):
        raise BadInputError(f"unknown server {legible(name)!r}: {hint}")
    names = ", ".join(target.name for target in all_strategies())
    raise BadInputError(f"unknown server {name!r}: expected a number, a path, or one of {names}")


def _as_application(name: str) -> str:
    """Return how to name an application that the user probably means, or an empty string."""
    if call := re.fullmatch(r"([\w.]+):([A-Za-z_]\w*)\(.+\)", name, re.ASCII):
        return (
            f"servers can't pass arguments; write a module with app = {name.partition(':')[2]}, such as serve.py, "
            f"which imports {call[2]} from {call[1]}, and pass serve:app"
        )
    module, _, attribute = name.rpartition(".")
    if module and any(Path(place, *module.split(".")).with_suffix(".py").is_file() for place in ("", "src")):
        return f"name the application as module:name, {module}:{attribute}"
    return ""


def read_strategy(path: Path) -> Target:
    """Return the strategy that a server file describes.

    Raises:
        BadInputError: the file can't be read, isn't Python, has neither a docstring nor a --port, or has an invalid
            REQUIRES or KIND.
    """
    module = parsed_source(path, "server ")
    docstring = ast.get_docstring(module) or ""
    names = set(_names(module))
    if not names & {"common", "argv"} and "--port" not in path.read_text(encoding="utf-8"):
        if application := _application_in(path, module):
            raise BadInputError(
                f"server {str(path)!r} has no option --port, but an application: name it as module:name, {application}"
            )
        if not docstring:
            raise BadInputError(
                f"server {str(path)!r} violates the server contract: it needs a docstring or a --port option (see "
                "docs/adding.md); if it starts an application, name this as module:name, or write a suite"
                + (f"; {likely}" if (likely := likely_application(Path())) else "")
            )
    constants = dict(_constants(module))
    requires = str(constants.get("REQUIRES", ""))
    try:
        unmet(requires)
    except BadInputError as error:
        raise BadInputError(f"server {str(path)!r}: {error}") from None
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    options = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "server_options"]
    # Without an argument, `server_options()` declares a strategy with a single worker.
    workers = ("--workers", "{workers}") if not options or any(call.args for call in options) else ()
    command = ("{python}", str(path.resolve()), "--host", "{host}", "--port", "{port}", "--task", "{task}")
    return Target(
        legible(path.stem),
        legible(docstring.splitlines()[0] if docstring else path.stem),
        path.resolve(),
        requires,
        _kind(path, constants, names),
        axes=tuple(name for name in Target.AXES if workers or name != "workers"),
        command=command,
        command_if=workers,
        takes_jobs="JOBS" in names or "JOBS" in constants,
    )


def _application_in(path: Path, module: ast.Module) -> str:
    """Return the module:name of an application that a file of this folder defines, or an empty string."""
    defined = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    defined = [*(name for name, _ in _constants(module)), *defined]
    name = next((each for each in APPLICATIONS if each in defined), "")
    return "" if not name or path.is_absolute() else legible(f"{'.'.join(path.with_suffix('').parts)}:{name}")


def _kind(path: Path, constants: Mapping[str, object], names: Set[str]) -> Kind:
    """Return how the strategy runs a task: as the file declares it in KIND, or else as its imports suggest."""
    if "KIND" not in constants:
        return next((kind for kind, signs in _KIND_BY_NAME if signs & names), Kind.UNKNOWN)
    try:
        return Kind(str(constants["KIND"]))
    except ValueError:
        kinds = ", ".join(repr(str(one)) for one in Kind if one)
        raise BadInputError(f"server {str(path)!r}: KIND must be one of {kinds}") from None


def parsed_source(path: Path, kind: str = "") -> ast.Module:
    """Return the syntax tree of a Python file, or raise BadInputError with a message that begins with `kind`."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{kind}{str(path)!r} can't be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise BadInputError(f"{kind}{str(path)!r} is not Python: {' '.join(str(error).split())}") from None


def _constants(module: ast.Module) -> Iterator[tuple[str, object]]:
    """Yield the name and value of each assignment to a single name; the value is "" unless it is a literal."""
    for node in module.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value.value if isinstance(node.value, ast.Constant) else ""


def _names(module: ast.Module) -> Iterator[str]:
    """Yield the names that the module imports, and the names of the attributes that it uses."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (part for name in names for part in name.split("."))
        elif isinstance(node, ast.Attribute):
            yield node.attr


def catalogue_as_text(strategies: Sequence[Target]) -> str:
    width = max((len(strategy.name) for strategy in strategies), default=0)
    return "\n".join(f"{strategy.name:{width}}  {strategy.title}{_needs(strategy)}" for strategy in strategies)


def _needs(strategy: Target) -> str:
    lacking = unmet(strategy.requires)
    return f" ({lacking}; {remedy(strategy.requires)})" if lacking else ""


def catalogue_as_json(strategies: Sequence[Target]) -> str:
    entries = [
        {
            "number": strategy.number,
            "server": strategy.name,
            "title": strategy.title,
            "path": str(strategy.path),
            "port": default_port(strategy.name),
            "requires": strategy.requires or None,
            "jobs": strategy.takes_jobs,
            "lacking": unmet(strategy.requires) or None,
        }
        for strategy in strategies
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False)
