"""Add servers to an application that show what if one of its routes ran in threads or in a process pool.

They serve the application with a wrapper, `subprocess_scripts/what_if`, on one server of its kind.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from common.errors import BadInputError
from under_siege.load.request import GET
from under_siege.paths import PACKAGE
from under_siege.record.result import MovedRoute
from under_siege.suite.application import DEPLOYMENTS, Application, Deployment, RouteFunction, completed
from under_siege.suite.route_change import IN_THREADS, change_of, plain_def_of
from under_siege.suite.suite import Suite, Target

AS_IS, THREADS, PROCESSES, NONE = STRATEGIES = ("as-is", "threads", "processes", "none")
WRAPPER = "under_siege_what_if"
FOLDER = PACKAGE / "subprocess_scripts" / "what_if"
PREFIX = "what-if-"
_BASES = {
    "asgi": "uvicorn",
    "wsgi": "gthread",
    "aiohttp": "run_app",
    "tornado": "listen",
}  # the server for each kind of application
_WAITING_THREADS = 40  # of a server whose threads only wait for a pool
_IN_WORDS = {THREADS: "Threads", PROCESSES: "A process pool"}


def is_what_if(server: str) -> bool:
    """Return whether a server of this name answers a route elsewhere, so that its figures need a change of the code."""
    return server.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class Moved:
    """A route and the strategies to measure for it."""

    strategies: tuple[str, ...]
    base: Deployment  # the server on which they are compared
    route: MovedRoute


def moved(
    application: Application,
    servers: Sequence[Deployment],
    load: Mapping[str, Any],
    wanted: Collection[str],
    folder: Path,
) -> Moved | None:
    """Return which strategies to measure for the requested route, or None if there are none.

    Args:
        servers: the deployments that are compared.
        load: the keys of [load].
        wanted: the values of --strategy; empty if the user did not choose.

    Raises:
        BadInputError: the user chose strategies that contradict each other, or can't be measured.
    """
    if NONE in wanted:
        if other := next((each for each in wanted if each != NONE), ""):
            raise BadInputError(f"--strategy {NONE} with --strategy {other}: remove one of them")
        return None
    function = application.function_of(str(load.get("method", GET.method)), str(load["path"]))
    name = _BASES[application.kind]
    base = next((each for each in servers if (each.name, each.kind) == (name, application.kind)), None)
    why_not = _why_not_moved(application, load, base)
    reasons = {AS_IS: "" if base else why_not, PROCESSES: why_not}
    reasons[THREADS] = why_not or _why_no_threads(application, function)
    for strategy in dict.fromkeys(wanted):
        if why := reasons[strategy]:
            raise BadInputError(f"--strategy {strategy}: {why}; use --strategy {NONE}, or another strategy")
    strategies = [each for each in (AS_IS, THREADS, PROCESSES) if each in wanted or not (wanted or reasons[each])]
    if base is None or (strategies == [AS_IS] and not wanted):
        return None
    return Moved(tuple(strategies), base, _route(application, base, load, function, folder, is_chosen=bool(wanted)))


def _route(
    application: Application,
    base: Deployment,
    load: Mapping[str, Any],
    function: RouteFunction | None,
    folder: Path,
    *,
    is_chosen: bool,
) -> MovedRoute:
    path = str(load["path"]).partition("?")[0]
    if function is None:
        unmovable = "the function that answers it is unknown"
        return MovedRoute(path=path, server=base.name, is_chosen=is_chosen, unmovable=unmovable)
    change, plain = (
        change_of(function, application.framework, folder),
        plain_def_of(function, application.framework, folder),
    )
    return MovedRoute(
        path=path,
        server=base.name,
        is_chosen=is_chosen,
        function=function.name,
        file=function.file,
        line=change.line,
        diff=list(change.diff),
        unmovable=change.unmovable,
        def_diff=list(plain.diff),
        needs_await=plain.unmovable,
    )


def _why_not_moved(application: Application, load: Mapping[str, Any], base: Deployment | None) -> str:
    if base is None:
        return f"it needs {_BASES[application.kind]}, which can't run {application.name}"
    if load.get("stream"):
        return "a stream can't be moved, because only complete responses can"
    return "the path has placeholders" if re.search(r"(?<!\$)\{", str(load["path"])) else ""


def _why_no_threads(application: Application, function: RouteFunction | None) -> str:
    if application.kind in ("aiohttp", "tornado"):
        return f"handlers of {application.kind} need the event loop of their server"
    if application.kind == "wsgi":
        return "its servers run every route in threads already"
    if function is not None and not function.is_async and application.framework in IN_THREADS:
        return f"{application.framework} runs `{function.name}` in a thread already, because it is a plain def"
    return ""


def server_tables(moved: Moved, application: Application, data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a suite for the servers with the wrapper; `data` are all tables without them."""
    base = data["servers"][moved.base.name]
    original = next(each for each in DEPLOYMENTS if (each.name, each.kind) == (moved.base.name, moved.base.kind))
    factory = msgspec.structs.replace(application, is_factory=True, is_async=False)
    command = completed(original, f"{WRAPPER}:{application.kind}", factory)
    # The workers of a pool replace those of the server, whose threads only wait.
    of_pool = re.sub(r"(-w|--workers) \{workers\}", r"\1 1", command).replace("{threads}", str(_WAITING_THREADS))
    inherited = data.get("environment", {}).get("PYTHONPATH", "")  # as for the other servers
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(FOLDER), inherited])),
        "UNDER_SIEGE_APP": f"{application.name}{'()' if application.is_factory else ''}",
        "UNDER_SIEGE_ROUTE": moved.route.path,
    }
    return {
        f"{PREFIX}{strategy}": {
            **base,
            "title": f"{_IN_WORDS[strategy]} for {moved.route.path}: what if, on {moved.base.title}",
            "command": of_pool if strategy == PROCESSES else command,
            "environment": environment | {"UNDER_SIEGE_POOL": "{workers}" if strategy == PROCESSES else THREADS},
        }
        for strategy in moved.strategies
        if strategy != AS_IS
    }


def with_strategies(suite: Suite, moved: Moved) -> Suite:
    """Return the suite with the servers of these strategies, which alone are compared if the user chose them.

    A pool has as many processes as CPUs, and a server that runs the application as it is has one process, unless the
    user chooses the number of workers.
    """
    most = max(int(value) for value in suite.axes["workers"])
    numbers = {f"{PREFIX}{THREADS}": 1, f"{PREFIX}{PROCESSES}": most}
    targets = [_with_workers(each, numbers[each.name]) if each.name in numbers else each for each in suite.targets]
    as_is = _with_workers(next(each for each in targets if each.name == moved.base.name), 1)
    reference = None
    if moved.route.is_chosen:
        added = [each for each in targets if each.name in numbers]
        targets = [as_is, *added] if AS_IS in moved.strategies else added
        reference = None if AS_IS in moved.strategies else as_is
    used = {name for target in (*targets, as_is) for name in target.axes} | {"python"}
    axes = {name: values for name, values in suite.axes.items() if name in used}
    return replace(suite, targets=tuple(targets), axes=axes, reference=reference, route=moved.route)


def _with_workers(target: Target, number: int) -> Target:
    return replace(target, defaults=(("workers", number),))
