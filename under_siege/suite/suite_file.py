"""Read a suite file: the servers, the axes, the load, and the expected response."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from common.errors import BadInputError
from common.options import MOST_WORKERS
from under_siege.formatting import legible, listed
from under_siege.host.docker_run import container_command
from under_siege.host.limits import LIMITS, limit_values
from under_siege.host.requirement_files import why_refused
from under_siege.load.request import Backlog, filled, filled_all, placeholders
from under_siege.paths import USERS
from under_siege.record.case import AUTO, PACES, SEARCHABLE, Value
from under_siege.record.files import read_limited
from under_siege.record.result import Required
from under_siege.secrets import expanded_path
from under_siege.suite.keys import (
    DrainTable,
    ServerTable,
    SuiteTable,
    address,
    converted,
    invalid_value,
    shown,
    unknown_key,
)
from under_siege.suite.requests import (
    Axes,
    check_path,
    check_placeholders,
    distinct,
    expect_of,
    json_path,
    load_of,
    pace_values,
    ping_of,
    prefixed,
    warm_up,
)
from under_siege.suite.suite import NO_SERVER, READY_WITHIN_S, SERVICES, Suite, Target

NAME = "suite.toml"
MAX_BYTES = 1_000_000
PLACEHOLDERS = ("host", "port", "folder", "suite", "files", "python", *SERVICES)  # placeholders that are not axes
LOAD_AXES = ("task", "users", "path", "keep_alive")  # axes on which every server depends
ALL = "all"  # under [require], this name stands for all servers


def suite_path(name: str) -> Path | None:
    """Return the path of the suite file with this name or in this directory, or None if there is none."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    return path / NAME if (path / NAME).is_file() else None


def read_suite(path: Path, only: Sequence[str] = (), *, quick: bool = False) -> Suite:
    """Return the suite, or its quick version.

    Args:
        only: the servers to compare, or all if empty. The ceiling is always included.

    Raises:
        BadInputError: the file can't be read, or a value is invalid.
    """
    data = _parsed(path)
    full = suite_from(data, path, str(path), () if quick else only)
    if "quick" not in data:
        if quick:
            raise BadInputError(
                f"{path}: no quick version: expected a table such as [quick.load]; "
                "to measure less, use --time, --users and --rounds"
            )
        return full
    # An invalid quick version is an error even if it is not used.
    quick_only = (only if quick else ()) or data["quick"].get("servers", ())
    form = suite_from(_quick_form(data), path, f"{path}, quick version", quick_only)
    return form if quick else full


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_limited(path, most_bytes=MAX_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise BadInputError(f"suite {str(path)!r} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # for example, a number has thousands of digits
        raise BadInputError(f"suite {str(path)!r} is not TOML: {' '.join(str(error).split())}") from None


def _quick_form(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data, with keys of [load] and [axes] replaced by those of [quick.load] and [quick.axes]."""
    quick, load = data["quick"], data.get("load", {})
    if {"time", "requests"} & quick.get("load", {}).keys():  # only one of them may be set
        load = {key: value for key, value in load.items() if key not in ("time", "requests")}
    return {**data, "load": load | quick.get("load", {}), "axes": data.get("axes", {}) | quick.get("axes", {})}


def suite_from(data: dict[str, Any], path: Path, source: str, only: Sequence[str] = ()) -> Suite:
    """Return the suite that these tables describe. `path` need not exist; error messages begin with `source`."""
    with prefixed(source):
        top = converted(data, SuiteTable)
        if not top.servers:
            raise BadInputError("no server: expected a table such as [servers.uvicorn] with a command")
        folder = path.parent / top.folder
        if not folder.is_dir():
            raise invalid_value("folder", top.folder, "a directory, relative to the suite file")
        axes = _axes(top)
        servers = {name: _server(name, table, top, folder, axes) for name, table in top.servers.items()}
        _check_axes_are_used(axes, top, list(servers.values()))
        check_placeholders("prepare", top.prepare, ("suite", "files", "python"))
        ceiling_name, expect = _ceiling(top.servers), expect_of(top.expect, folder, axes)
        load = load_of(top, expect, folder)
        axes |= _limits_and_paces(top)
        if top.python:
            axes["python"] = (str(folder.resolve() / top.python),)
        names = [name for name in servers if name != ceiling_name]
        ceiling = NO_SERVER if top.load.task else None
        if ceiling_name:
            ceiling = servers[ceiling_name]
        targets = tuple(servers[name] for name in _selected(names, only))
        return Suite(
            targets=targets,
            ceiling=ceiling,
            load=load,
            axes=axes,
            expect=expect,
            ping=ping_of(top.ping, load) if top.ping else None,
            backlog=_backlog(top.drain),
            drain_limit_s=float(top.drain.limit),
            ready_within_s=float((top.ping and top.ping.ready_within) or READY_WITHIN_S),
            title=legible(top.title or (folder.resolve().name if path.name == NAME else path.stem)),
            source=source,
            folder=folder.resolve(),
            has_task=top.load.task is not None,
            prepare=top.prepare,
            required=_required(top, names, targets),
            keep_environment=top.keep_environment,
        )


def _backlog(table: DrainTable) -> Backlog | None:
    if not table.path or not table.json:
        return None
    json_path("drain.json", table.json)
    return Backlog(expanded_path(table.path, "drain.path"), table.json)


def _selected(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the names of the servers to compare."""
    if unknown := [name for name in only if name not in names]:
        raise BadInputError(f"no server {legible(unknown[0])!r} to compare: expected one of {', '.join(names)}")
    return [name for name in names if not only or name in only]


def _axes(top: SuiteTable) -> dict[str, tuple[Value, ...]]:
    """Return the values of every axis, including those of the load."""
    load, axes = top.load, {name: tuple(distinct(values)) for name, values in top.axes.items()}
    for name, values in axes.items():
        if name in (*PLACEHOLDERS, *LOAD_AXES, *LIMITS, *PACES) or not re.fullmatch("[a-z][a-z0-9_]*", name):
            key = f"axes.{legible(name)[:60]}"
            raise BadInputError(f"{key}: expected a lower-case name that is not reserved")
        if names := placeholders(*map(str, values)):
            raise invalid_value(f"axes.{name}", top.axes[name], f"{{{names[0]}}} in the command itself")
    for name in SEARCHABLE:
        values = axes.get(name, ())
        if values != (AUTO,) and any(not isinstance(value, int) or not 1 <= value <= MOST_WORKERS for value in values):
            raise invalid_value(f"axes.{name}", top.axes[name], f'whole numbers from 1 to {MOST_WORKERS}, or "{AUTO}"')
    axes["users"] = tuple(distinct(load.users or USERS))
    if load.task is not None:
        axes["task"] = tuple(distinct(load.task))
    if not load.requests_file:
        axes["path"] = tuple(distinct(load.path))
    for path in axes.get("path", ()):
        check_path(str(path), load, axes)
    if len(distinct(load.keep_alive)) > 1:
        axes["keep_alive"] = tuple("on" if is_kept else "off" for is_kept in distinct(load.keep_alive))
    return axes


def _limits_and_paces(top: SuiteTable) -> dict[str, tuple[Value, ...]]:
    """Return the values of the axes on which all servers depend, although no placeholder names them."""
    axes: dict[str, tuple[Value, ...]] = {}
    for name in LIMITS:
        if (values := getattr(top.limits, name)) is not None:
            axes[name] = limit_values(name, distinct(values), f"limits.{name} =")
    for name in PACES:
        if (values := getattr(top.load, name)) is not None:
            axes[name] = pace_values(name, distinct(values), f"load.{name} =")
    return axes


def _check_axes_are_used(axes: Axes, top: SuiteTable, servers: Sequence[Target]) -> None:
    """Raise BadInputError for an axis that nothing uses: its values would only repeat the same measurement."""
    used = {name for target in servers for name in target.axes} | set(placeholders(str(top.load)))
    if unused := next((name for name in axes if name not in used), None):
        where = f"expected {{{unused}}} in a command, an environment, a requirement, or the path"
        raise BadInputError(f"axes.{unused}: no server uses it; {where}")


def _required(top: SuiteTable, names: Sequence[str], targets: Sequence[Target]) -> tuple[Required, ...]:
    """Return the requirements; they are parsed when a plan is made, because their metrics are not known here."""
    requirements: list[Required] = []
    for name, texts in top.require.items():
        if name not in (ALL, *names):
            raise unknown_key("require", name, (ALL, *names))
        distinct_texts = dict.fromkeys(" ".join(text.split()) for text in texts)
        requirements += [Required(text, "" if name == ALL else name) for text in distinct_texts]
    servers = ("", *(target.name for target in targets))
    return tuple(requirement for requirement in requirements if requirement.server in servers)


def _ceiling(tables: Mapping[str, ServerTable]) -> str:
    """Return the name of the server that is the ceiling, or an empty string if there is none."""
    ceilings = [name for name, table in tables.items() if table.ceiling]
    if len(ceilings) > 1:
        raise BadInputError(f"{listed(ceilings)} are ceilings: expected one")
    if ceilings and len(tables) == 1:
        raise BadInputError(f"no server besides the ceiling {ceilings[0]}: expected at least one")
    return ceilings[0] if ceilings else ""


def _server(name: str, table: ServerTable, top: SuiteTable, folder: Path, axes: Axes) -> Target:
    key = f"servers.{legible(name)[:60]}"
    url = table.url.rstrip("/")
    if url and ("?" in url or address(filled(url, dict.fromkeys(placeholders(url), "1"))) is None):
        raise invalid_value(f"{key}.url", url, "a URL such as http://127.0.0.1:8000")
    command = table.command
    uses_suite_environment = bool(command) and command[0] not in table.needs  # `needs` lists system-wide programs
    environment = {**(top.environment if uses_suite_environment else {}), **table.environment}
    target = Target(
        name,
        legible(table.title or name),
        command=command,
        url=url,
        environment=tuple((variable, str(value)) for variable, value in environment.items()),
        requirements=(*(top.requirements if uses_suite_environment else ()), *table.requirements),
        additions=(*(top.additions if uses_suite_environment else ()), *table.additions),
        needs=tuple(table.needs),
        ready_within_s=None if table.ready_within is None else float(table.ready_within),
        prepare=table.prepare,
        reload=table.reload,
        headers=tuple((header, str(value)) for header, value in table.headers.items()),
        warm_up=None if table.warm_up is None else warm_up(f"{key}.warm_up", table.warm_up),
        requests_path=table.path,
    )
    if table.path and (isinstance(top.load.path, list) or top.load.files or top.load.requests_file):
        raise BadInputError(
            f"{key}.path needs a single path under [load]; remove it, or files, requests_file and paths"
        )
    with prefixed(f"{key}.command"):
        container_command(command)

    expanded_path(table.path, f"{key}.path")  # raises BadInputError if a variable is not set
    if command and not url:
        _check_port(f"{key}.command", target, folder)
    _check_requirements(f"{key}.requirements", target.requirements, folder, axes)
    _check_requirements(f"{key}.additions", target.additions, folder, axes)
    needs_python = uses_suite_environment or bool(target.requirements or table.additions) or "task" in axes
    return _with_axes(key, target, axes, needs_python=needs_python)


def _with_axes(key: str, target: Target, axes: Axes, *, needs_python: bool) -> Target:
    """Return the target with the axes on which it depends; add the services in its placeholders to `needs`."""
    variables = [text for pair in target.environment for text in pair]
    reload = filled_all(target.reload, {"pid": ""})  # the id of the main process is known when the server runs
    names = placeholders(*target.command, *variables, *target.requirements, target.url, *target.prepare, *reload)
    own_axes = [axis for axis in axes if axis not in LOAD_AXES]
    for name in names:
        if name not in (*PLACEHOLDERS, *axes):
            known = ", ".join((*PLACEHOLDERS, *own_axes))
            raise BadInputError(f"{key} contains the unknown placeholder {{{name}}}: expected one of {known}")
    if "redis" in placeholders(*target.command) and "redis" not in placeholders(*variables):
        how = 'expected it in the environment, such as environment = { REDIS_URL = "{redis}" }'
        raise BadInputError(f"{key}.command: {{redis}} lacks the password, which other users must not see; {how}")
    services = [name for name in names if name in SERVICES and name not in target.needs]
    depends_on = [name for name in axes if name in (*names, *LOAD_AXES)]
    return replace(target, needs=(*target.needs, *services), axes=(*depends_on, *["python"] * needs_python))


def _check_port(key: str, target: Target, folder: Path) -> None:
    """Raise BadInputError if nothing passes the port to the server."""
    texts = [*target.command, *(text for pair in target.environment for text in pair)]
    if "port" not in placeholders(*texts) and not any(
        template_text(word, folder) is not None for word in target.command
    ):
        expected = (
            "{port} in the command (such as --port {port}), in the environment, or in a file that the command names"
        )
        raise BadInputError(f"{key} = {shown(' '.join(target.command))} without {{port}}: expected {expected}")


def template_text(word: str, folder: Path) -> str | None:
    """If a word of a command names a file that contains `{port}`, return the text of the file, or else `None`."""
    path = folder / word
    try:
        if placeholders(word) or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return text if "port" in placeholders(text) else None


def _check_requirements(key: str, requirements: Sequence[str], folder: Path, axes: Axes) -> None:
    for text in filled_all(requirements, {name: values[0] for name, values in axes.items()}):
        if text.startswith("-r ") and not (folder / (name := text[3:].strip())).is_file():
            raise invalid_value(key, text, f"a file {name!r} in the folder of the suite")
        if text.startswith("-r ") and (why := why_refused(folder / name)):
            raise BadInputError(f"{key} = {shown(text)}: {why}")
        if text.startswith(("-r ", "-e ", "./", "../")) or text == ".":
            continue
        try:
            Requirement(text)
        except InvalidRequirement:
            raise invalid_value(
                key, text, 'a requirement such as "uvicorn==0.54.*", or "-r requirements.txt"'
            ) from None
