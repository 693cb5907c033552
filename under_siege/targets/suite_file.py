"""A suite in a file: servers of anyone, what is asked of them, and what is expected."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import BadInputError
from common.server_contract import MOST_WORKERS
from under_siege.load_tools.registry import DRIVERS
from under_siege.model.case import Value
from under_siege.model.result_file import read_whole
from under_siege.model.sanitize import legible
from under_siege.model.suite import ANY, JSON, OPEN, READY_WITHIN_S, SAME, Expect, Load, Ping, Suite
from under_siege.model.target import Target, filled, names_in
from under_siege.targets.strategies import BARE
from under_siege.targets.suite_server import (
    OF_LOAD,
    PATH,
    PLACES,
    SERVICES,
    amount,
    is_path,
    ping_path,
    read_server,
    words_of,
)
from under_siege.targets.thresholds import read_required
from under_siege.targets.toml_table import KEYS as OF_QUICK
from under_siege.targets.toml_table import Table, quick_form, shown

NAME = "suite.toml"  # of the file in a folder
MOST_BYTES, MOST_BYTES_OF_AN_ANSWER = 1_000_000, 64_000_000
MOST_USERS = 10_000

_TOP = (
    "title",
    "requirements",
    "environment",
    "prepare",
    "load",
    "expect",
    "ping",
    "axes",
    "require",
    "servers",
    "quick",
)
_LOAD = (
    "tool",
    "path",
    "files",
    "script",
    "users",
    "time",
    "requests",
    "warm_up",
    "keep_alive",
    "threads",
    "options",
    "own_network",
    "task",
    "locust_workers",
)
_FEWEST_PORTS, _MOST_PORTS = 100, 28_000


def suite_path(what: str) -> Path | None:
    """The file that is meant, if it is one: `shop.toml`, or a folder with a suite.toml."""
    path = Path(what)
    if path.suffix == ".toml":
        return path
    return path / NAME if (path / NAME).is_file() else None


def read_suite(path: Path, only: Sequence[str] = (), *, quick: bool = False) -> Suite:
    """The suite, or these servers of it and its ceiling; `quick`: in its quick form.

    Raises:
        BadInputError: it can't be read, or says what can't be; the message is one line.
    """
    told = _parsed(path)
    full = _suite(path, str(path), told, () if quick else only)
    if not quick and "quick" not in told:
        return full
    source = f"{path}, quick form"  # which is read in any case, so that nobody keeps one that can't be
    few = _suite(path, source, quick_form(path, told), (only if quick else ()) or _few(path, told))
    return few if quick else full


def _few(path: Path, told: dict[str, Any]) -> tuple[str, ...]:
    """The servers that take part in the quick form; all where none are named."""
    return Table(str(path), told, tuple(told)).below("quick", OF_QUICK).texts("servers")


def _suite(path: Path, source: str, told: dict[str, Any], only: Sequence[str]) -> Suite:
    """As one of the forms in the file says; raises as `read_suite`."""
    top = Table(source, told, _TOP)
    table, ping = top.below("load", _LOAD), top.below("ping", ("path", "ready_within"))
    axes = _axes(top, table)
    has_task = "task" in table
    common = top.texts("requirements"), top.environment("environment")
    servers = [read_server(path, name, data, axes, common, has_task=has_task) for name, data in top.tables("servers")]
    if not servers:
        raise BadInputError(f"{path} has no server: expected a table such as [servers.uvicorn] with a command")
    _refuse_idle(top, axes, servers)
    if "files" in table and "ping" not in top:
        raise table.wrong("has files, and no ping tells when a server is ready", "a path under [ping]")
    ceiling, targets = _ceiling(path, servers), [target for target, is_ceiling in servers if not is_ceiling]
    chosen = _chosen(path, targets, only)
    required = read_required(top, [one.name for one in targets])
    return Suite(
        targets=chosen,
        ceiling=ceiling or (BARE if has_task else None),
        load=_load(table, path.parent),
        axes=axes,
        expect=_expect(top, path, axes),
        ping=Ping(ping_path(f"{ping.where} has path =", ping.text("path", "/ping"))) if "ping" in top else None,
        ready_within_s=ping.seconds("ready_within", READY_WITHIN_S),
        title=legible(top.text("title", path.parent.resolve().name if path.name == NAME else path.stem)),
        source=source,
        folder=path.parent.resolve(),
        has_task=has_task,
        prepare=_prepare(top),
        required=tuple(one for one in required if one.server in ("", *(target.name for target in chosen))),
    )


def _prepare(top: Table) -> tuple[str, ...]:
    words = words_of(top, "prepare")
    for name in names_in(*words):
        if name not in (places := ("suite", "files", "python")):
            raise top.wrong(
                f"has prepare = {top.text('prepare')!r} with {{{name}}}", f"no other than {', '.join(places)}"
            )
    return words


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_whole(path, most_bytes=MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise BadInputError(f"suite {str(path)!r} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of a number with thousands of digits, too
        raise BadInputError(f"suite {str(path)!r} is not TOML: {' '.join(str(error).split())}") from None


def _axes(top: Table, load: Table) -> dict[str, tuple[Value, ...]]:
    """The values of every axis, those of the load among them."""
    own = top.below("axes", [name for name, _ in top.tables("axes")])
    axes: dict[str, tuple[Value, ...]] = {}
    for name, _ in top.tables("axes"):
        if name in (*PLACES, *OF_LOAD) or not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise own.wrong(f"has an axis {name!r}", "a name in small letters that means nothing else")
        axes[name] = own.values(name, "")
        if names := names_in(*map(str, axes[name])):
            raise own.wrong(f"has {name} = {shown(list(axes[name]))}", f"{{{names[0]}}} in the command itself")
    if any(not isinstance(one, int) or not 1 <= one <= MOST_WORKERS for one in axes.get("workers", ())):
        raise own.wrong(f"has workers = {shown(own.raw('workers'))}", f"numbers from 1 to {MOST_WORKERS}")
    axes["users"] = load.values("users", 25)
    if any(not isinstance(one, int) or not 1 <= one <= MOST_USERS for one in axes["users"]):
        raise load.wrong(f"has users = {shown(load.raw('users'))}", f"numbers from 1 to {MOST_USERS:,}")
    if "task" in load:
        axes["task"] = tuple(map(str, load.values("task", "")))
    axes["path"] = _paths(load, axes)
    keep_alive = load.flags("keep_alive")
    if len(keep_alive) > 1:
        axes["keep_alive"] = tuple("on" if one else "off" for one in keep_alive)
    return axes


def _paths(load: Table, axes: Mapping[str, Sequence[Value]]) -> tuple[str, ...]:
    """What is asked for, with names of axes in braces."""
    paths = tuple(map(str, load.values("path", "/")))
    for path in paths:
        if not is_path(path):
            raise load.wrong(f"has path = {shown(path)}", PATH)
        if ("file" in names_in(path)) != ("files" in load):
            raise load.wrong(f"has path = {path!r}", "{file} in it where files names a folder, and only there")
        for name in names_in(path):
            if name not in ("file", *axes):
                raise load.wrong(f"has path = {path!r}, and {{{name}}} is no axis", f"one of {', '.join(axes)}")
            for value in axes.get(name, ()):
                if name != "task" and not is_path(one := filled(path, {name: value})):
                    raise load.wrong(f"has path = {shown(one)} where {name} is {shown(value)}", PATH)
    return paths


def _load(table: Table, folder: Path) -> Load:
    timed = table.text("time", "auto") if not isinstance(table.raw("time"), (int, float)) else ""
    is_number = type(table.raw("own_network")) is int
    ports = table.number("own_network", None, _FEWEST_PORTS, _MOST_PORTS) if is_number else None
    load = Load(
        tool=table.choice("tool", (*DRIVERS, OPEN), "siege"),
        time_s=None if timed == "auto" else table.seconds("time", 4.0),
        requests=table.number("requests", None, 1, 10_000_000),
        keep_alive=table.flags("keep_alive")[0],
        threads=_threads(table),
        options=table.texts("options"),
        own_network=is_number or table.flag("own_network"),
        ports=ports,
        warm_up=amount(table, "warm_up"),
        files=table.text("files"),
        script=_contents(table, folder, "script").decode(errors="replace") if "script" in table else "",
    )
    if load.requests is not None and "time" in table:
        raise table.wrong("has time and requests", "one of them")
    if load.files and not DRIVERS[load.tool].supports_multiple_paths:
        raise table.wrong(f"has files, and {load.tool} asks for one path only", 'tool = "wrk"')
    return load


def _threads(table: Table) -> int:
    """Of the tool; those of Locust are its workers."""
    threads, workers = table.number("threads", 1, 1, 64), table.number("locust_workers", None, 1, 64)
    if workers and (table.raw("tool") != "locust" or "threads" in table):
        raise table.wrong("has locust_workers", 'them with tool = "locust", and no threads')
    return workers or threads or 1


def _expect(top: Table, path: Path, axes: Mapping[str, Sequence[Value]]) -> Expect:
    table = top.below("expect", ("status", "body", "file", "check"))
    check = words_of(table, "check")
    for name in names_in(*check):
        if name not in (places := ("url", "answers", "bytes", "folder", "suite", "python", *SERVICES, *axes)):
            raise table.wrong(f"has check = {table.text('check')!r} with {{{name}}}", f"one of {', '.join(places)}")
    reference = None
    if "file" in table:
        reference = _contents(table, path.parent, "file")
    status = table.number("status", 200, 100, 599)
    assert status is not None
    return Expect(status, table.choice("body", (SAME, JSON, ANY), SAME), reference, check)


def _contents(table: Table, folder: Path, key: str) -> bytes:
    """Of the file that is named there."""
    file = folder / table.text(key)
    try:
        return read_whole(file, most_bytes=MOST_BYTES_OF_AN_ANSWER)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{table.where} {key} {str(file)!r} can't be read: {why}") from None


def _refuse_idle(top: Table, axes: Mapping[str, Sequence[Value]], servers: Sequence[tuple[Target, bool]]) -> None:
    """An axis that nothing depends on would measure the same again and again."""
    used = {name for target, _ in servers for name in target.axes} | set(names_in(*_texts(top.raw("load"))))
    for name in axes:
        if name not in used:
            raise BadInputError(
                f"{top.where} [axes] has {name}, but no server uses it: expected {{{name}}} in a command, "
                "an environment, a requirement, or the path"
            )


def _texts(value: object) -> list[str]:
    """All that is told in a table, as text."""
    return [str(one) for one in value.values()] if isinstance(value, dict) else []


def _chosen(path: Path, targets: Sequence[Target], only: Sequence[str]) -> tuple[Target, ...]:
    for name in only:
        if name not in [target.name for target in targets]:
            known = ", ".join(target.name for target in targets)
            raise BadInputError(f"{path} has no server {legible(name)!r} to compare: expected one of {known}")
    return tuple(target for target in targets if not only or target.name in only)


def _ceiling(path: Path, servers: Sequence[tuple[Target, bool]]) -> Target | None:
    found = [target for target, is_ceiling in servers if is_ceiling]
    if len(found) > 1:
        raise BadInputError(f"{path} has {len(found)} ceilings, {found[0].name} and {found[1].name}: expected one")
    if found and len(servers) == 1:
        raise BadInputError(f"{path} has no server beside its ceiling {found[0].name}: expected at least one")
    return found[0] if found else None
