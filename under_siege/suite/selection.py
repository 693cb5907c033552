"""Turn command-line arguments (strategies, an application, servers of a suite, or URLs) into the suite to measure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.load.request import JOBS, OPEN, Load, Ping, Request, SetupRequest, WarmUp
from under_siege.paths import INVOCATION, PROGRAM, ROOT, USERS
from under_siege.secrets import expanded_path, masked_difference
from under_siege.suite.application import is_application
from under_siege.suite.keys import ExpectTable, SetupTable, address, converted, path_of, ping_path
from under_siege.suite.module_files import django_application, likely_application
from under_siege.suite.requests import expect_of, headers_of, headers_of_pings, setup_of, setup_table
from under_siege.suite.server_files import strategies_suite
from under_siege.suite.suite import Suite, Target
from under_siege.suite.suite_file import NAME, read_suite, suite_path
from under_siege.suite.suite_from_application import OF_APPLICATIONS, OF_URLS, TargetOptions, suite_of_applications
from under_siege.suite.what_if import NONE, PROCESSES, THREADS

CAPACITY, DRILL, TRACE, RUN_TRACE = "capacity", "drill", "trace", "run --trace"
_OWN_LOAD = (CAPACITY, DRILL, TRACE)  # commands that send requests without a load tool
_JOBS_PATH = "/jobs"  # as in the server contract


def in_style(suite: Suite, style: str) -> Suite:
    """Return the suite, with a load that posts jobs if the style or the suite requires jobs.

    Raises:
        BadInputError: the load can't post jobs.
    """
    load = suite.load
    if style != JOBS and not load.posts_jobs:
        return suite
    if load.script or load.files or load.requests is not None or load.tool == OPEN:
        raise BadInputError(
            f"{suite.source or suite.title}: --jobs supports one path and a time, but no script, files, number "
            "of requests or open load"
        )
    if not load.posts_jobs:
        load = replace(load, tool=JOBS, threads=1, options=())  # the options were for another tool
    load = replace(load, path=_JOBS_PATH if suite.has_task else load.path)
    targets = tuple(replace(target, axes=(*target.axes, "style")) for target in suite.targets)
    return replace(suite, load=load, targets=targets, axes={**suite.axes, "style": (JOBS,)})


def refuse_unsupported(command: str, suite: Suite) -> None:
    """Raise BadInputError for keys that change what is sent or measured, if this command would ignore them.

    Commands are free to ignore the load tool, and keys that only set the amount of load (`users`, `time`, `requests`,
    `threads`, `locust_workers`).
    """
    for is_set, key, reason, commands in _keys_of_load_tools(suite):
        if is_set and command in commands:
            alternative = f"{PROGRAM} run without --trace" if command == RUN_TRACE else f"{PROGRAM} run"
            raise BadInputError(
                f"{suite.source}: {key}: {command} sends its own requests and {reason}; "
                f"use {alternative}, or a suite without this key"
                if suite.source
                else f"{key}: {command} {reason}; use {alternative}"
            )
    for target in suite.targets:
        if suite.load.own_network and target.url and not target.command:
            raise BadInputError(
                f"{suite.source}: load.own_network: {target.name} runs at {target.url}, "
                "which can't be reached from a separate network"
            )


def _keys_of_load_tools(suite: Suite) -> list[tuple[object, str, str, tuple[str, ...]]]:
    """For each load-tool key, return whether it is set, its name, why it is rejected, and by which commands."""
    load, no_warm_up = suite.load, "can't warm servers up with a load tool"
    jobs_key = "load.tool" if suite.source else "--jobs"
    warm_ups = {"load.warm_up": load.warm_up}
    for target in (*suite.targets, *([suite.ceiling] if suite.ceiling else [])):
        warm_ups[f"servers.{target.name}.warm_up"] = target.warm_up
    return [
        (load.script, "load.script", "can't run a load tool's script", (*_OWN_LOAD, RUN_TRACE)),
        (load.options, "load.options", "can't pass options to a load tool", (*_OWN_LOAD, RUN_TRACE)),
        (load.posts_jobs, jobs_key, "can't post jobs", (*_OWN_LOAD, RUN_TRACE)),
        (load.files, "load.files", "supports only one path", (CAPACITY, DRILL)),
        (suite.expect.check, "expect.check", "doesn't run the check after a load", _OWN_LOAD),
        *((warm_up not in (None, WarmUp()), key, no_warm_up, _OWN_LOAD) for key, warm_up in warm_ups.items()),
    ]


def suite_of(
    names: Sequence[str],
    options: TargetOptions = TargetOptions(),  # noqa: B008 (frozen)
    *,
    quick: bool = False,
    style: str = "",
    command: str = "run",
    with_strategies: bool = False,
) -> Suite:
    """Return the suite that the names select together or, without names, a suite of all strategies.

    Args:
        options: the requests to an application, or to servers given by their URL.
        quick: select the quick version of a suite.
        style: `waiting` or `jobs`, or empty to ignore styles.
        command: the command that measures the suite.
        with_strategies: whether to add the strategies for a route of an application if the user chooses none.

    Raises:
        BadInputError: a name is unknown, the names can't be combined, or the command does not support a suite's key.
    """
    if not names and Path.cwd() != ROOT and (likely := likely_application(Path.cwd())):
        options.tell(f"strategies for long tasks are compared, because no application is named; {likely}")
    names = [_with_colon(name) for name in names]
    if names and all(is_application(name) and _file_and_server(name) is None for name in names):
        if quick:
            raise BadInputError("--quick needs a suite with a quick version, such as suites/wsgi, not an application")
        options = _posting(options) if style == JOBS else options
        if not options.strategies and (style == JOBS or len(names) > 1 or not with_strategies):
            options = replace(options, strategies=(NONE,))
        suite = suite_of_applications(list(dict.fromkeys(names)), Path.cwd(), options)
    else:
        suite = _named_suite(names, options, quick=quick)
        options.refuse(OF_APPLICATIONS, "an application, such as shop.main:app")
    if style:
        suite = in_style(suite, style)
    refuse_unsupported(command, suite)
    return suite


def _with_colon(name: str) -> str:
    """Return `shop:` for a module or package of this folder, in which the application is then searched.

    For Django's manage.py, return the application of its project.
    """
    if name in ("manage", "manage.py") and (application := django_application(Path("manage.py"))):
        return application
    is_module = re.fullmatch(r"[A-Za-z_][\w.]*", name, re.ASCII) and suite_path(name) is None
    places = [Path(place, *name.split(".")) for place in ("", "src")] if is_module else []
    found = any((place / "__init__.py").is_file() or place.with_name(f"{place.name}.py").is_file() for place in places)
    return f"{name}:" if found else name


def _posting(options: TargetOptions) -> TargetOptions:
    """Return the options of an application to which jobs are posted."""
    if {*options.strategies} & {THREADS, PROCESSES}:
        raise BadInputError("--strategy with --jobs, whose work is not done in a request: remove one of them")
    if options.method not in (None, "POST"):
        raise BadInputError(f"--method {options.method} with --jobs, which sends POST: remove one of them")
    return replace(options, method="POST")


def _named_suite(names: Sequence[str], options: TargetOptions, *, quick: bool) -> Suite:
    urls = [name for name in names if re.match(r"https?://", name)]
    if not urls:
        options.refuse(OF_URLS, "an application, such as shop.main:app, or the URL of a server")
    files = {name: selected for name in names if (selected := _file_and_server(name)) is not None}
    if quick and not files:
        raise BadInputError("--quick needs a suite with a quick version, such as suites/wsgi")
    if folder := next((name for name in names if Path(name).is_dir() and name not in files), None):
        raise BadInputError(f"{legible(folder)!r} has no {NAME}; create it with {INVOCATION} init")
    kind = urls or list(files)
    if kind and (other := next((name for name in names if name not in kind), None)):
        raise BadInputError(
            f"{legible(other)!r} can't be compared with {legible(kind[0])!r}, which gets different requests; "
            "name only strategies, only servers of one suite, or only URLs"
        )
    if urls:
        return _running_suite(urls, options)
    if not files:
        return strategies_suite(names)
    paths = {str(path): path for path, _ in files.values()}
    if len(paths) > 1:
        raise BadInputError(f"{' and '.join(paths)} are different suites; a run compares the servers of one suite")
    servers = [server for _, server in files.values() if server is not None]
    only = servers if len(servers) == len(files) else []
    return read_suite(next(iter(paths.values())), only, quick=quick)


def _file_and_server(name: str) -> tuple[Path, str | None] | None:
    """Return the suite file that a name selects, and the server after a colon, if any; return None for other names."""
    if (path := suite_path(name)) is not None:
        return path, None
    before, colon, server = name.rpartition(":")
    path = suite_path(before) if colon else None
    return None if path is None else (path, server)


def _setup(options: TargetOptions) -> tuple[SetupRequest, ...]:
    return setup_of([converted(setup_table(text), SetupTable, "setup") for text in options.setup], Path())


def _running_suite(urls: Sequence[str], options: TargetOptions) -> Suite:
    ping, headers = options.ping, headers_of(options.header_table(), "--header")
    stream = options.read_stream()
    targets, paths, setup = [], list[str](), _setup(options)
    for url in urls:
        parts = address(url)
        if parts is None:
            raise BadInputError(
                f"{legible(url)!r} can't be requested: expected a URL such as http://127.0.0.1:8000/report"
            )
        expanded_path(path_of(parts), f"the URL of {parts.netloc}")  # raises BadInputError if a variable is not set
        paths.append(path_of(parts))
        targets.append(Target(parts.netloc, url, axes=("users", "path"), url=f"http://{parts.netloc}"))
    if len(different := list(dict.fromkeys(paths))) > 1:
        name = masked_difference(different[0], different[1])
        why = f"; they differ in {name}, which is masked" if name else ""
        raise BadInputError(
            f"{different[0]} and {different[1]} are different paths{why}: use the same path for every server"
        )
    if repeated := [url for number, url in enumerate(urls) if targets[number] in targets[:number]]:
        raise BadInputError(f"{repeated[0]} is named twice: expected different servers")
    return Suite(
        tuple(targets),
        ceiling=None,
        load=Load(request=Request(headers=headers), stream=stream, setup=setup),
        axes={"users": (USERS,), "path": (paths[0],)},
        expect=expect_of(msgspec.convert(options.expect_table(), ExpectTable), Path(), {}),
        ping=Ping(ping_path("--ping", ping), headers=headers_of_pings(headers, setup)) if ping is not None else None,
        title="Servers that are already running",
        has_task=False,
    )
