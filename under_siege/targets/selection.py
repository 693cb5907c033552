"""What is to be compared, from the words that name it: strategies, a suite, servers of a suite, or addresses."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from common.errors import BadInputError
from under_siege.load_tools import DRIVERS
from under_siege.model.result_file import legible
from under_siege.model.suite import JOBS, OPEN, Load, Ping, Suite, Target, WarmUp
from under_siege.model.threshold import goal_names, required, together
from under_siege.paths import PROGRAM
from under_siege.targets.strategies import strategies_suite
from under_siege.targets.suite_file import NAME, read_suite, suite_path
from under_siege.targets.suite_schema import address, path_of, ping_path

WAITING = "waiting"
STYLES = (WAITING, JOBS)
_AT = "/jobs"  # of the server contract


def in_style(suite: Suite, style: str) -> Suite:
    """The suite with jobs in place of what is waited for, if that is wanted; a suite may want it itself.

    Raises:
        BadInputError: what its users do can't be done with jobs.
    """
    if style != JOBS and not suite.load.posts_jobs:
        return suite
    load = suite.load
    if load.script or load.files or load.requests is not None or load.tool == OPEN:
        raise BadInputError(
            f"{suite.source or suite.title}: its load has a script, files, a number of requests, or is open: "
            "expected one path and a time for --style jobs"
        )
    path = _AT if suite.has_task else load.path
    if not load.posts_jobs:
        load = replace(load, tool=JOBS, threads=1, options=())  # those of another tool
    load = replace(load, path=path)
    targets = tuple(replace(one, axes=(*one.axes, "style")) for one in suite.targets)
    return replace(suite, load=load, targets=targets, axes={**suite.axes, "style": (JOBS,)})


CAPACITY, DRILL, TRACE, RUN_TRACE = "capacity", "drill", "trace", "run --trace"
_OF_OWN_LOAD = (CAPACITY, DRILL, TRACE)


def refuse_unsupported(command: str, suite: Suite) -> None:
    """Raise BadInputError if a key changes what is sent or measured, and this command would ignore it.

    Keys that only say how much load there is may be ignored: `users`, `time`, `requests`, `threads`,
    `locust_workers`, and which tool makes the load.
    """
    for key, why, commands in _needing_a_tool(suite):
        if command in commands:
            instead = f"{PROGRAM} run without --trace" if command == RUN_TRACE else f"{PROGRAM} run"
            raise BadInputError(
                f"{suite.source}: {key}: {command} sends its own requests and {why}; "
                f"use {instead}, or a suite without this key"
                if suite.source
                else f"{key}: {command} {why}; use {instead}, or --style waiting"
            )
    for target in suite.targets:
        if suite.load.own_network and target.url and not target.command:
            raise BadInputError(
                f"{suite.source}: load.own_network: {target.name} runs at {target.url}, "
                "which can't be reached from a network of its own"
            )


def _needing_a_tool(suite: Suite) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each key that is set and needs a load tool, why it does, and the commands that can't support it."""
    load = suite.load
    if load.script:
        yield "load.script", "can't run a load tool's script", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.options:
        yield "load.options", "can't pass options to a load tool", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.posts_jobs:
        yield "load.tool" if suite.source else "--style jobs", "can't post jobs", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.files:
        yield "load.files", "asks for one path only", (CAPACITY, DRILL)
    if suite.expect.check:
        yield "expect.check", "doesn't run the check after a load", _OF_OWN_LOAD
    if load.warm_up not in (None, WarmUp()):
        yield "load.warm_up", "can't warm servers up with a load tool", _OF_OWN_LOAD
    for target in (*suite.targets, *([suite.ceiling] if suite.ceiling else [])):
        if target.warm_up not in (None, WarmUp()):
            yield f"servers.{target.name}.warm_up", "can't warm servers up with a load tool", _OF_OWN_LOAD


def suite_of(
    names: Sequence[str], ping: str | None = None, *, quick: bool = False, style: str = "", command: str = "run"
) -> Suite:
    """The suite that all of the words name together; all strategies where there is none.

    Args:
        ping: the path of a health check, of servers that are named by their address.
        quick: whether the quick form of a suite is meant.
        style: how it is asked, one of `STYLES`; empty: not in this way.
        command: the command that measures it, which may not support every key of a suite.

    Raises:
        BadInputError: nothing fits a word, or they do not fit together.
    """
    suite = _named_suite(names, ping, quick=quick)
    found = in_style(suite, style) if style else suite
    refuse_unsupported(command, found)
    return found


def _named_suite(names: Sequence[str], ping: str | None, *, quick: bool) -> Suite:
    addresses = [name for name in names if re.match(r"https?://", name)]
    if ping is not None and not addresses:
        raise BadInputError("--ping goes with the address of a server: expected such as http://127.0.0.1:8000/report")
    files = {name: found for name in names if (found := _file_and_server(name)) is not None}
    if quick and not files:
        raise BadInputError("--quick goes with a suite that has a quick form: expected such as suites/wsgi --quick")
    if folder := next((name for name in names if Path(name).is_dir() and name not in files), None):
        raise BadInputError(f"{legible(folder)!r} has no {NAME}: expected one, as {PROGRAM} init writes it there")
    if addresses:
        _refuse_a_mixture(names, addresses)
        return _running_suite(addresses, ping)
    if not files:
        return strategies_suite(names)
    _refuse_a_mixture(names, list(files))
    paths = {str(path): path for path, _ in files.values()}
    if len(paths) > 1:
        raise BadInputError(f"{' and '.join(paths)} are different suites: expected one in a run")
    whole = any(server is None for _, server in files.values())
    only = [] if whole else [server or "" for _, server in files.values()]
    return read_suite(next(iter(paths.values())), only, quick=quick)


def _file_and_server(name: str):  # type: ignore[no-untyped-def]
    if (path := suite_path(name)) is not None:
        return path, None
    before, colon, server = name.rpartition(":")
    if colon and (path := suite_path(before)) is not None:
        return path, server
    return None


def _refuse_a_mixture(names: Sequence[str], some: Sequence[str]) -> None:
    if other := next((name for name in names if name not in some), None):
        raise BadInputError(
            f"{legible(other)!r} can't be compared with {legible(some[0])!r}, which is asked for something else: "
            "expected strategies, one suite, or addresses"
        )


def _running_suite(addresses: Sequence[str], ping: str | None) -> Suite:
    """Servers that run already. Nothing is asked for but what the addresses and the ping name."""
    targets, paths = [], []
    for one in addresses:
        parts = address(one)
        if parts is None:
            raise BadInputError(f"{legible(one)!r} can't be asked: expected one such as http://127.0.0.1:8000/report")
        paths.append(path_of(parts))
        targets.append(Target(parts.netloc, one, axes=("users", "path"), url=f"http://{parts.netloc}"))
    if len(set(paths)) > 1:
        raise BadInputError(
            f"{paths[0]} and {paths[1]} are different questions: expected the same path of every server"
        )
    if len(set(targets)) < len(targets):
        raise BadInputError(f"{addresses[0]} is named twice: expected servers that differ")
    return Suite(
        tuple(targets),
        ceiling=None,
        load=Load(),
        axes={"users": (25,), "path": (paths[0],)},
        ping=Ping(ping_path("--ping", ping)) if ping is not None else None,
        title="Servers that run already",
        has_task=False,
    )


def with_required(suite: Suite, texts: Sequence[str]) -> Suite:
    """Return the suite with these requirements, too.

    Raises:
        BadInputError: one can't be read, is about a metric that is not measured, or about another result.
    """
    given = required(texts)
    for one in given:
        if one.goal.of_base:
            raise BadInputError(f"{one.text!r}: a run has no base: expected that with {PROGRAM} compare, or in a suite")
    everything = together(suite.required, given)
    unmeasured = dict(_unmeasured(suite))
    for one in everything:
        if why := unmeasured.get(one.goal.figure):
            known = ", ".join(name for name, figure in goal_names().items() if figure not in unmeasured)
            raise BadInputError(f"{one.text!r}: {why}: expected one of {known}")
    return replace(suite, required=tuple(everything))


def _unmeasured(suite: Suite) -> Iterator[tuple[str, str]]:
    """Yield the metrics that no case of the suite will have, and why."""
    driver = DRIVERS.get(suite.load.tool)
    for figure in goal_names().values():
        if figure.startswith("ping_") and suite.ping is None:
            yield figure, "no pings are sent; name a path under [ping], or with --ping"
        elif figure.startswith("response_") and driver and not driver.reports_percentiles:
            yield figure, f"{suite.load.tool} tells no percentiles"
        elif figure == "of_ceiling" and suite.ceiling is None:
            yield figure, "there is no ceiling"
        elif figure in ("cpu_s_per_transaction", "memory_bytes") and not any(one.command for one in suite.targets):
            yield figure, "that is not known of servers that run already"
