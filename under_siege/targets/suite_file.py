"""Read a suite file: the servers, the load, and what is expected."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from common.errors import BadInputError
from common.server_contract import MOST_WORKERS
from under_siege.load_tools import DRIVERS
from under_siege.model.case import Value
from under_siege.model.result_file import legible, read_whole
from under_siege.model.suite import (
    ANY,
    BARE,
    JSON,
    OPEN,
    READY_WITHIN_S,
    SAME,
    SERVICES,
    Expect,
    Load,
    Ping,
    Suite,
    Target,
    filled,
    filled_words,
    placeholders,
)
from under_siege.model.threshold import Required, required
from under_siege.targets.suite_schema import (
    PATH,
    ExpectTable,
    LoadTable,
    PingTable,
    QuickTable,
    ServerTable,
    SuiteTable,
    address,
    amount,
    choice,
    converted,
    is_path,
    ping_path,
    shown,
    split_words,
    time_s,
    unknown_key,
    wrong,
)

NAME = "suite.toml"  # of the file in a directory
MOST_BYTES, MOST_BYTES_OF_AN_ANSWER = 1_000_000, 64_000_000
PLACES = ("host", "port", "folder", "suite", "files", "python", *SERVICES)  # in braces, beside the axes
OF_LOAD = ("task", "users", "path", "keep_alive")  # axes that every server depends on
ALL = "all"  # under [require]: every server
Axes = Mapping[str, Sequence[Value]]


def suite_path(what: str) -> Path | None:
    """Return the file if it is one: `shop.toml`, or that of a directory with a suite.toml."""
    path = Path(what)
    if path.suffix == ".toml":
        return path
    return path / NAME if (path / NAME).is_file() else None


def read_suite(path: Path, only: Sequence[str] = (), *, quick: bool = False) -> Suite:
    """Return the suite, or these servers of it and its ceiling.

    Args:
        quick: return its quick form.

    Raises:
        BadInputError: it can't be read, or a value does not fit; the message is one line.
    """
    data = _parsed(path)
    if not quick and "quick" not in data:
        return _suite(path, str(path), data, only)
    full = _suite(path, str(path), data, () if quick else only)
    try:
        quick_data, servers = _quick_form(data)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None
    # The quick form is read in any case, so that nobody keeps one that can't be used.
    few = _suite(path, f"{path}, quick form", quick_data, (only if quick else ()) or servers)
    return few if quick else full


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_whole(path, most_bytes=MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise BadInputError(f"suite {str(path)!r} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also of a number with thousands of digits
        raise BadInputError(f"suite {str(path)!r} is not TOML: {' '.join(str(error).split())}") from None


def _quick_form(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the file with what [quick] says in place of it, key by key, and the servers that take part."""
    if "quick" not in data:
        raise BadInputError(
            "no quick form: expected a table such as [quick.load] in it; measure less with --time, --users and --rounds"
        )
    quick: QuickTable = converted(data["quick"], QuickTable, "quick")
    load = data.get("load", {})
    if {"time", "requests"} & quick.load.keys():  # of which there is one
        load = {key: value for key, value in load.items() if key not in ("time", "requests")}
    return {**data, "load": load | quick.load, "axes": data.get("axes", {}) | quick.axes}, quick.servers


def _suite(path: Path, source: str, data: dict[str, Any], only: Sequence[str]) -> Suite:
    try:
        return _checked_suite(path, source, data, only)
    except BadInputError as error:
        raise BadInputError(f"{source}: {error}") from None


def _checked_suite(path: Path, source: str, data: dict[str, Any], only: Sequence[str]) -> Suite:
    top: SuiteTable = converted(data, SuiteTable)
    load: LoadTable = converted(top.load, LoadTable, "load")
    ping: PingTable | None = None if top.ping is None else converted(top.ping, PingTable, "ping")
    axes = _axes(top, load)
    tables: dict[str, ServerTable] = {
        name: converted(server, ServerTable, f"servers.{legible(name)[:60]}") for name, server in top.servers.items()
    }
    if not tables:
        raise BadInputError("no server: expected a table such as [servers.uvicorn] with a command")
    servers = {name: _server(name, table, top, path.parent, axes) for name, table in tables.items()}
    _refuse_idle(axes, top, list(servers.values()))
    if load.files and ping is None:
        raise BadInputError("load.files needs a ping that shows when a server is ready: expected a path under [ping]")
    ceiling = _ceiling(tables)
    targets = _chosen([target for name, target in servers.items() if name != ceiling], only)
    within = ping.ready_within if ping else None
    return Suite(
        targets=targets,
        ceiling=servers[ceiling] if ceiling else BARE if load.task else None,
        load=_load(load, path.parent),
        axes=axes,
        expect=_expect(converted(top.expect, ExpectTable, "expect"), path.parent, axes),
        ping=Ping(ping_path("ping.path", ping.path)) if ping else None,
        ready_within_s=READY_WITHIN_S if within is None else time_s("ping.ready_within", within),
        title=legible(top.title or (path.parent.resolve().name if path.name == NAME else path.stem)),
        source=source,
        folder=path.parent.resolve(),
        has_task=load.task is not None,
        prepare=_words("prepare", top.prepare, ("suite", "files", "python")),
        required=_required(top, [name for name in servers if name != ceiling], targets),
    )


def _words(place: str, command: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command, in which these names may be in braces."""
    words = split_words(place, command)
    for name in placeholders(*words):
        if name not in names:
            raise BadInputError(f"{place} = {shown(command)} with {{{name}}}: expected one of {', '.join(names)}")
    return words


def _listed(value: object) -> list[Any]:
    """Return the values of an axis, each once."""
    values = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(str(one) if isinstance(one, float) else one for one in values))


def _axes(top: SuiteTable, load: LoadTable) -> dict[str, tuple[Value, ...]]:
    """Return the values of every axis, those of the load among them."""
    axes: dict[str, tuple[Value, ...]] = {}
    for name, data in top.axes.items():
        if name in (*PLACES, *OF_LOAD) or not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise BadInputError(f"axes.{legible(name)[:60]}: expected a name in small letters that means nothing else")
        axes[name] = tuple(_listed(data))
        if names := placeholders(*map(str, axes[name])):
            raise wrong(f"axes.{name}", data, f"{{{names[0]}}} in the command itself")
    if any(not isinstance(one, int) or not 1 <= one <= MOST_WORKERS for one in axes.get("workers", ())):
        raise wrong("axes.workers", top.axes["workers"], f"numbers from 1 to {MOST_WORKERS}")
    axes["users"] = tuple(_listed(load.users))
    if load.task is not None:
        axes["task"] = tuple(_listed(load.task))
    axes["path"] = tuple(_listed(load.path))
    for path in axes["path"]:
        _check_path(str(path), load, axes)
    if len(_listed(load.keep_alive)) > 1:
        axes["keep_alive"] = tuple("on" if one else "off" for one in _listed(load.keep_alive))
    return axes


def _check_path(path: str, load: LoadTable, axes: Axes) -> None:
    """Raise BadInputError if names in the path are no axes, or a value makes it none."""
    if ("file" in placeholders(path)) != bool(load.files):
        raise wrong("load.path", path, "{file} in it if load.files names a folder, and only then")
    for name in placeholders(path):
        if name not in ("file", *axes):
            raise wrong("load.path", path, f"{{{name}}} to be an axis: one of {', '.join(axes)}")
        for value in axes.get(name, ()):
            if name != "task" and not is_path(one := filled(path, {name: value})):
                raise BadInputError(f"load.path = {shown(one)} where {name} is {shown(value)}: expected {PATH}")


def _load(table: LoadTable, directory: Path) -> Load:
    tool = choice("load.tool", table.tool, (*DRIVERS, OPEN))
    if table.requests is not None and table.time is not None:
        raise BadInputError("load has time and requests: expected one of them")
    if table.files and not DRIVERS[tool].supports_multiple_paths:
        raise BadInputError(f'load has files, and {tool} requests one path only: expected tool = "wrk"')
    if table.locust_workers and (tool != "locust" or table.threads):
        raise BadInputError('load has locust_workers: expected them with tool = "locust", and no threads')
    return Load(
        tool=tool,
        time_s=None if table.time in (None, "auto") else time_s("load.time", table.time or 0),
        requests=table.requests,
        keep_alive=_listed(table.keep_alive)[0],
        threads=table.locust_workers or table.threads or 1,
        options=tuple(table.options),
        own_network=bool(table.own_network),
        ports=None if isinstance(table.own_network, bool) else table.own_network,
        warm_up=amount("load.warm_up", table.warm_up),
        files=table.files,
        script=_contents("load.script", directory / table.script).decode(errors="replace") if table.script else "",
    )


def _expect(table: ExpectTable, directory: Path, axes: Axes) -> Expect:
    names = ("url", "answers", "bytes", "folder", "suite", "python", *SERVICES, *axes)
    return Expect(
        table.status,
        choice("expect.body", table.body, (SAME, JSON, ANY)),
        _contents("expect.file", directory / table.file) if table.file else None,
        _words("expect.check", table.check, names),
    )


def _contents(place: str, path: Path) -> bytes:
    try:
        return read_whole(path, most_bytes=MOST_BYTES_OF_AN_ANSWER)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{place} = {str(path)!r} can't be read: {why}") from None


def _required(top: SuiteTable, names: Sequence[str], targets: Sequence[Target]) -> tuple[Required, ...]:
    """Return what all servers, or single ones among the targets, have to reach."""
    found: list[Required] = []
    for name, texts in top.require.items():
        if name not in (ALL, *names):
            raise unknown_key("require", name, (ALL, *names))
        try:
            found += required(texts, "" if name == ALL else name)
        except BadInputError as error:
            raise BadInputError(f"require.{name}: {error}") from None
    return tuple(one for one in found if one.server in ("", *(target.name for target in targets)))


def _refuse_idle(axes: Axes, top: SuiteTable, servers: Sequence[Target]) -> None:
    """Raise BadInputError if nothing depends on an axis: its values would measure the same again and again."""
    used = {name for target in servers for name in target.axes} | set(placeholders(str(top.load)))
    for name in axes:
        if name not in used:
            raise BadInputError(
                f"axes.{name}: no server uses it; expected {{{name}}} in a command, an environment, a requirement, "
                "or the path"
            )


def _ceiling(tables: Mapping[str, ServerTable]) -> str:
    """Return the name of the server that is the ceiling; empty if there is none."""
    ceilings = [name for name, table in tables.items() if table.ceiling]
    if len(ceilings) > 1:
        raise BadInputError(f"{len(ceilings)} ceilings, {ceilings[0]} and {ceilings[1]}: expected one")
    if ceilings and len(tables) == 1:
        raise BadInputError(f"no server beside its ceiling {ceilings[0]}: expected at least one")
    return ceilings[0] if ceilings else ""


def _chosen(targets: Sequence[Target], only: Sequence[str]) -> tuple[Target, ...]:
    for name in only:
        if name not in [target.name for target in targets]:
            known = ", ".join(target.name for target in targets)
            raise BadInputError(f"no server {legible(name)!r} to compare: expected one of {known}")
    return tuple(target for target in targets if not only or target.name in only)


def _server(name: str, table: ServerTable, top: SuiteTable, directory: Path, axes: Axes) -> Target:
    place = f"servers.{legible(name)[:60]}"
    if not re.fullmatch(r"[\w.+-]{1,60}", name):
        raise BadInputError(f"{place}: expected a name of letters, digits, and any of _ . + -")
    url = table.url.rstrip("/")
    any_values = dict.fromkeys(placeholders(url), "1")
    if url and ("?" in url or address(filled(url, any_values)) is None):
        raise wrong(f"{place}.url", url, "one such as http://127.0.0.1:8000")
    if not url and table.command is None:
        raise BadInputError(f'{place}: expected a url, or a command such as "uvicorn app:app --port {{port}}"')
    command = split_words(f"{place}.command", table.command or "")
    is_program = bool(command) and command[0] in table.needs  # of the system, which no Python changes
    is_ours = bool(command) and not is_program
    environment = {**(top.environment if is_ours else {}), **table.environment}
    target = Target(
        name,
        legible(table.title or name),
        command=command,
        url=url,
        environment=tuple((key, str(value)) for key, value in environment.items()),
        requirements=(*(top.requirements if is_ours else ()), *table.requirements),
        needs=tuple(table.needs),
        ready_within_s=None if table.ready_within is None else time_s(f"{place}.ready_within", table.ready_within),
        prepare=split_words(f"{place}.prepare", table.prepare),
        headers=tuple((key, str(value)) for key, value in table.headers.items()),
        warm_up=None if table.warm_up is None else amount(f"{place}.warm_up", table.warm_up),
    )
    if command and not url:
        _check_port(f"{place}.command", table, command, directory)
    _check_requirements(f"{place}.requirements", target.requirements, directory, axes)
    return _with_axes(place, target, axes, needs_python=is_ours or bool(target.requirements) or "task" in axes)


def _with_axes(place: str, target: Target, axes: Axes, *, needs_python: bool) -> Target:
    """Return the target with the axes that it depends on, and the services that it names."""
    variables = [text for pair in target.environment for text in pair]
    names = placeholders(*target.command, *variables, *target.requirements, target.url, *target.prepare)
    for name in names:
        if name not in (*PLACES, *axes):
            own = [axis for axis in axes if axis not in OF_LOAD]
            raise BadInputError(
                f"{place} names {{{name}}}, which is no axis: expected one of {', '.join((*PLACES, *own))}"
            )
    services = [name for name in names if name in SERVICES and name not in target.needs]
    depends = [name for name in axes if name in (*names, *OF_LOAD)]
    return replace(target, needs=(*target.needs, *services), axes=(*depends, *["python"] * needs_python))


def _check_port(place: str, table: ServerTable, command: Sequence[str], directory: Path) -> None:
    """Raise BadInputError if nothing tells the server its port."""
    texts = [*command, *table.environment, *map(str, table.environment.values())]
    if "port" not in placeholders(*texts) and not any(template_text(word, directory) is not None for word in command):
        expected = "the port to listen on, as --port {port}, or in a file that the command names"
        raise BadInputError(f"{place} = {shown(table.command)} without {{port}}: expected {expected}")


def template_text(word: str, directory: Path) -> str | None:
    """Return the contents of a file that a word of a command names if `{port}` is in it; else None."""
    path = directory / word
    try:
        if placeholders(word) or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return text if "port" in placeholders(text) else None


def _check_requirements(place: str, requirements: Sequence[str], directory: Path, axes: Axes) -> None:
    for one in filled_words(requirements, {name: values[0] for name, values in axes.items()}):
        if one.startswith("-r ") and not (directory / (name := one[3:].strip())).is_file():
            raise wrong(place, one, f"a file {name!r} in the folder of the suite")
        if one.startswith(("-r ", "-e ", "./", "../")) or one == ".":
            continue
        try:
            Requirement(one)
        except InvalidRequirement:
            raise wrong(place, one, 'one such as "uvicorn==0.54.*", or "-r requirements.txt"') from None
