"""Generate a suite for a user's application, from what its own Python says about it."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Template

from common.errors import BadInputError
from common.workers import usable_cpus
from under_siege.formatting import listed
from under_siege.host.environments import installed_python
from under_siege.host.interpreter import UserEnvironment, user_environment
from under_siege.load import DRIVERS
from under_siege.load.request import JOBS, as_json, parse_time_s
from under_siege.paths import HOST, PROGRAM, USERS
from under_siege.secrets import expanded_path
from under_siege.suite.application import (
    IMPORT_LIMIT_S,
    Application,
    Deployment,
    deployments_of,
    has_parameters,
    inspected,
    is_application,
    missing,
)
from under_siege.suite.keys import PATH, invalid_value, is_path, ping_path
from under_siege.suite.requests import stream_of
from under_siege.suite.suite import READY_WITHIN_S, Suite, UserApplication
from under_siege.suite.suite_file import suite_from

_LISTED_ROUTES = 5
# A server may take this many times as long to start as the import took alone, because workers share CPUs.
SLOWEST_START = 3


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The options that describe an application, or servers given by their URL."""

    ping: str | None = None
    path: str | None = None
    body: str | None = None  # JSON, or other text
    headers: tuple[str, ...] = ()  # such as `Authorization: Bearer ${TOKEN}`
    pythons: tuple[str, ...] = ()
    keep_environment: bool = False
    ready_within: str | None = None
    stream: str | None = None  # kind of the stream
    events: str | None = None  # number of events or time after which a stream is closed
    tell: Callable[[str], None] = lambda _: None

    def header_table(self) -> dict[str, str]:
        """Return the headers by name; raise BadInputError for a header without a colon."""
        table = {}
        for header in self.headers:
            name, colon, value = header.partition(":")
            if not colon or not name.strip() or not value.strip():
                raise BadInputError(f'--header {header!r}: expected a name and a value, such as "Accept: text/html"')
            table[name.strip()] = value.strip()
        return table


@dataclass(frozen=True, slots=True)
class GeneratedSuite:
    """A suite for an application, and the environment in which it was inspected."""

    text: str
    application: Application
    environment: UserEnvironment
    python: str  # value for --python if the suite doesn't name the Python, or an empty string


def suite_of_application(app: str, folder: Path, options: TargetOptions, *, has_twin: bool = True) -> Suite:
    """Return the suite that `init` would write for the application in this folder, changed by the options.

    Args:
        has_twin: whether to compare the servers of Django's application for the other interface, too.

    Raises:
        BadInputError: the application can't be imported, or an option is invalid.
    """
    if options.path is not None and not is_path(options.path):
        raise invalid_value("--path", options.path, PATH)
    expanded_path(options.path or "", "--path")  # raises BadInputError if a variable is not set
    if options.ping is not None:
        ping_path("--ping", options.ping)
    first = generated_suite(app, Path("suite.toml"), folder, options, has_twin=has_twin)
    data: dict[str, Any] = tomllib.loads(first.text)
    data["load"]["headers"] = data["load"].get("headers", {}) | options.header_table()
    data["load"] |= _request(options, first.application)
    if options.stream is not None:
        data["load"]["stream"] = options.stream
    if options.events is not None:
        if options.stream is None:
            raise BadInputError("--events needs --stream sse, --stream lines or --stream chunks")
        stream_of(options.stream, options.events, "--events")
        data["load"]["events"] = options.events
    if options.ping is not None:
        data["ping"] = {"path": options.ping}
    if first.python:
        data["python"] = first.python
    data["keep_environment"] = options.keep_environment
    suite = suite_from(data, folder / "suite.toml", app)
    return replace(suite, application=_user_application(first, data))


def _request(options: TargetOptions, application: Application) -> dict[str, Any]:
    """Return the keys of [load] for the request that the options describe; the routes tell the method of a path."""
    load: dict[str, Any] = {}
    if options.path is not None:
        methods = [method for method, path in application.routes if path == options.path.partition("?")[0]]
        load = {"path": options.path, "method": "GET" if "GET" in methods or not methods else methods[0]}
        load["body"] = None if load["method"] == "GET" else {}
    if options.body is not None:
        body = as_json(options.body.encode())
        load["body"] = body if isinstance(body, dict | list) else options.body
        load["method"] = load.get("method", "GET").replace("GET", "POST")
    return load


def suite_of_applications(apps: Sequence[str], folder: Path, options: TargetOptions) -> Suite:
    """Return a suite that compares the servers of one or several applications in this folder.

    Raises:
        BadInputError: an application can't be imported, an option is invalid, or the requests would differ.
    """
    suites = [suite_of_application(app, folder, options, has_twin=len(apps) == 1) for app in apps]
    first = suites[0]
    for app, suite in zip(apps, suites, strict=True):
        for option, path_of in (("--path", _path), ("--ping", _ping)):
            if path_of(suite) != path_of(first):
                found = f"{path_of(first)} of {apps[0]} and {path_of(suite)} of {app}"
                raise BadInputError(
                    f"the applications would get different requests, {found}: name a path with {option}"
                )
    targets = tuple(
        replace(target, name=f"{target.name}-{ending}", title=f"{target.title} ({ending})") if ending else target
        for app, suite, ending in zip(apps, suites, _endings(apps), strict=True)
        for target in suite.targets
    )
    described = [suite.application for suite in suites if suite.application]
    notes = tuple(dict.fromkeys(note for each in described for note in each.notes))
    application = replace(described[0], name=" and ".join(apps), notes=notes)
    axes = {name: values for suite in suites for name, values in suite.axes.items()}
    return replace(first, targets=targets, application=application, axes=axes, source=application.name)


def _path(suite: Suite) -> str:
    return str(suite.axes["path"][0])


def _ping(suite: Suite) -> str:
    return suite.ping.path if suite.ping else "no health check"


def _endings(apps: Sequence[str]) -> list[str]:
    """Return the words that distinguish the applications, such as `wsgi` and `asgi`; empty for a single one."""
    words = [re.split("[.:]", app) for app in apps]
    shared = set(words[0]).intersection(*words[1:])
    return ["-".join(word for word in each if word not in shared) for each in words]


def _user_application(first: GeneratedSuite, data: Mapping[str, Any]) -> UserApplication:
    """Describe what was chosen for the user, so that the result can say it."""
    application, notes = first.application, []
    if additions := data.get("additions"):
        notes.append(
            f"{listed(additions)} {'was' if len(additions) == 1 else 'were'} added beside the packages of "
            f"{first.environment.found}, without changing them"
        )
    host = data["load"]["headers"].get("Host")
    if host and host == application.host:
        notes.append(f"requests have the header Host: {host}, because the application refuses {HOST}")
    routes = tuple(f"{method} {path}".removeprefix("GET ") for method, path in application.routes)
    return UserApplication(application.name, routes, first.environment.found, tuple(notes))


def generated_suite(
    app: str, file: Path, folder: Path, options: TargetOptions, *, has_twin: bool = True
) -> GeneratedSuite:
    """Return a suite for `module:name`; raise BadInputError if it can't be imported or is no application."""
    if not is_application(app):
        raise BadInputError(f"{app!r} names no application: expected module:name, such as app:app")
    if ".py:" in app:
        raise BadInputError(f"{app!r}: expected a module, without .py: {app.replace('.py:', ':')}")
    environment = user_environment(folder, options.pythons)
    python = installed_python(environment, folder, options.tell)
    limit_s = max(IMPORT_LIMIT_S, _seconds(options.ready_within) or 0.0)
    application = inspected(app, python.path, folder, limit_s)
    servers = list(deployments_of(application if has_twin else msgspec.structs.replace(application, twin="")))
    if not servers:
        raise BadInputError(f"{app}: no server can run this application; write a suite with your own commands")
    if application.host is None:
        raise BadInputError(f"{app} accepts no host: add 127.0.0.1 to ALLOWED_HOSTS in its settings")
    is_inside = environment.python.startswith(f"{folder.resolve()}{os.sep}") and not options.pythons
    text = _text(app, file, folder, application, environment, servers, options, is_inside=is_inside)
    is_named = is_inside or environment.python == sys.executable
    return GeneratedSuite(text, application, environment, "" if is_named else environment.python)


def _text(
    app: str,
    file: Path,
    folder: Path,
    application: Application,
    environment: UserEnvironment,
    servers: list[Deployment],
    options: TargetOptions,
    *,
    is_inside: bool,
) -> str:
    routes, ping = application.work(), application.ping()
    requestable = [route for route in routes if not has_parameters(route[1]) and is_path(route[1])]
    method, path = (requestable or [("GET", "/")])[0]
    listed = [f"{name} {route}".removeprefix("GET ") for name, route in routes[:_LISTED_ROUTES]]
    template = Path(__file__).with_name("suite_from_application.toml.jinja").read_text(encoding="utf-8")
    text: str = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        users=USERS,
        app=app,
        program=PROGRAM,
        file=file,
        module=app.partition(":")[0],
        folder=json.dumps(os.path.relpath(folder, (folder / file).parent)),
        python=json.dumps(os.path.relpath(environment.python, folder.resolve())) if is_inside else "",
        requirements=json.dumps(environment.requirements) if environment.requirements else "",
        additions=json.dumps(missing(servers, application.servers)),
        import_from=application.import_from,
        host=application.host,
        ready_within=_ready_within(application, options),
        method=method,
        path=path,
        routes=", ".join(re.sub(r"[^\x20-\x7e]", "?", route) for route in listed),
        tools=", ".join(tool for tool in DRIVERS if tool not in ("siege", JOBS)),
        ping=ping,
        servers=[(each, json.dumps(each.command)) for each in servers],
        most=max(2, min(usable_cpus(), 8)),
    )
    return text


def _ready_within(application: Application, options: TargetOptions) -> str:
    """Return how long servers may take to start, or an empty string for the default."""
    if options.ready_within is not None:
        if _seconds(options.ready_within) is None:
            raise BadInputError(f"--ready-within {options.ready_within!r}: expected a time such as 60s or 2m")
        return options.ready_within
    needed_s = READY_WITHIN_S + SLOWEST_START * application.import_s
    return f"{needed_s:.0f}s" if application.import_s > 1 else ""


def _seconds(text: str | None) -> float | None:
    return None if text is None else parse_time_s(text)
