"""Generate a suite for a user's application, from what its own Python says about it."""

import contextlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Template

from common.errors import BadInputError
from under_siege.formatting import legible, listed
from under_siege.host.cpu_division import server_cpus
from under_siege.host.environments import installed_python
from under_siege.host.interpreter import UserEnvironment, user_environment
from under_siege.load import DRIVERS
from under_siege.load.body_rule import ANY, as_json
from under_siege.load.fresh_values import names_in
from under_siege.load.request import GET, JOBS, Stream, parse_time_s
from under_siege.paths import HOST, PROGRAM, USERS
from under_siege.secrets import expanded_path
from under_siege.suite import what_if
from under_siege.suite.application import (
    IMPORT_LIMIT_S,
    Application,
    Deployment,
    deployments_of,
    inspected,
    is_application,
    is_requestable,
    missing,
    named,
    refuse_absent,
)
from under_siege.suite.keys import PATH, invalid_value, is_path, ping_path
from under_siege.suite.requests import setup_table, stream_of
from under_siege.suite.suite import READY_WITHIN_S, Suite, UserApplication
from under_siege.suite.suite_file import suite_from

_LISTED_ROUTES = 5
_THREADS = 8  # in each process of a server that has threads
_REFUSED_ROUTES = 12  # maximum number of routes in an error
_WITH_BODY = ("POST", "PUT", "PATCH")  # methods whose requests have a body by default
_PARAMETER = r"(?<!\$)\{\w+(?::\w+)?\}|<(?:\w+:)?\w+>"  # in the path of a route, but not a variable such as ${TOKEN}
_AXES = ("{users}", "{workers}", "{threads}")  # placeholders of a suite, which are replaced
_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)  # in TOML
OF_APPLICATIONS = ("path", "method", "body", "keep_environment", "ready_within", "strategies")
OF_URLS = ("ping", "headers", "setup", "stream", "events", "first", "status", "ignored", "any_body")  # and applications
_NAMES = {  # of options whose field has another name
    "headers": "header",
    "ignored": "ignore",
    "strategies": "strategy",
    "keep_environment": "use-my-server-config",
}
# A server may take this many times as long to start as the import took alone, because workers share CPUs.
SLOWEST_START = 3


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The options that describe an application, or servers given by their URL."""

    ping: str | None = None
    path: str | None = None
    method: str | None = None  # None: POST with a body, otherwise GET
    body: str | None = None  # JSON, or other text
    headers: tuple[str, ...] = ()  # such as `Authorization: Bearer ${TOKEN}`
    setup: tuple[str, ...] = ()  # such as `POST /login {"user": "ann"}`
    pythons: tuple[str, ...] = ()
    keep_environment: bool = False
    ready_within: str | None = None
    stream: str | None = None  # kind of the stream
    events: str | None = None  # number of events or time after which a stream is closed
    first: str | None = None  # which events count
    status: int | None = None  # status of the correct response; None: 200
    ignored: tuple[str, ...] = ()  # fields of JSON responses that may differ, such as `items.*.id`
    any_body: bool = False  # whether only the status is checked
    strategies: tuple[
        str, ...
    ] = ()  # members of `what_if.STRATEGIES`; empty: all servers, and all strategies that differ
    tell: Callable[[str], None] = lambda _: None

    def refuse(self, names: Collection[str], needed: str) -> None:
        """Raise BadInputError if one of these options is given, because it needs something else."""
        for each in fields(self):
            if each.name in names and getattr(self, each.name) != each.default:
                raise BadInputError(f"--{_NAMES.get(each.name, each.name).replace('_', '-')} needs {needed}")

    def expect_table(self) -> dict[str, Any]:
        """Return the keys of [expect]; raise BadInputError if two options contradict each other."""
        if self.ignored and self.any_body:
            raise BadInputError("--ignore with --any-body, which ignores every field: use only one of them")
        given = {"status": self.status, "ignore": list(self.ignored), "body": ANY if self.any_body else None}
        return {key: value for key, value in given.items() if value}

    def load_table(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the keys of [load] besides those of the request; raise BadInputError for an invalid option."""
        table = {"headers": {**headers, **self.header_table()}, "setup": [setup_table(text) for text in self.setup]}
        self.read_stream()
        given = {"stream": self.stream, "events": self.events, "first": self.first}
        return table | {key: value for key, value in given.items() if value is not None}

    def read_stream(self) -> Stream | None:
        """Return how to read a stream, or None for whole responses; raise BadInputError for an invalid option."""
        return stream_of(self.stream, self.events, self.first, "--")

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
class ApplicationTables:
    """The tables of a suite for an application, and the environment in which it was inspected."""

    data: dict[str, Any]
    application: Application
    environment: UserEnvironment
    servers: list[Deployment]
    python: str  # value for --python if the tables don't name the Python, or an empty string


def suite_of_application(app: str, folder: Path, options: TargetOptions, *, has_twin: bool = True) -> Suite:
    """Return the suite for the application in this folder.

    Args:
        has_twin: whether to compare the servers of Django's application for the other interface, too.

    Raises:
        BadInputError: the application can't be imported, or an option is invalid.
    """
    expanded_path(options.path or "", "--path")  # raises BadInputError if a variable is not set
    if options.ping is not None:
        ping_path("--ping", options.ping)
    tables = tables_of(app, folder, options, has_twin=has_twin)
    data, application = tables.data, tables.application
    if tables.python:
        data["python"] = tables.python
    if inherited := os.environ.get("PYTHONPATH"):  # as for the inspection
        data["environment"] = {"PYTHONPATH": os.pathsep.join(filter(None, [application.import_from, inherited]))}
    moved = what_if.moved(application, tables.servers, data["load"], options.strategies, folder)
    if moved is not None:
        data["servers"] |= what_if.server_tables(moved, application, data)
    suite = suite_from(data, folder / "suite.toml", app if app.partition(":")[2] else application.name)
    suite = suite if moved is None else what_if.with_strategies(suite, moved)
    described = _user_application(tables, suite, folder)
    if moved is not None and moved.route.is_chosen and options.path is None:
        note = f"{moved.route.path} was chosen, because it needs no parameters; to measure another route, use --path"
        described = replace(described, notes=(*described.notes, note))
    return replace(suite, application=described)


def suite_text(app: str, file: Path, folder: Path, options: TargetOptions) -> tuple[str, str]:
    """Return the text of a suite file for an application, and the value for --python that it needs, if any.

    Raises:
        BadInputError: the application can't be imported, or an option is invalid.
    """
    tables = tables_of(app, folder, options)
    template = Path(__file__).with_name("suite_from_application.toml.jinja").read_text(encoding="utf-8")
    routes = named(tables.application.work()[:_LISTED_ROUTES])
    text = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        tables.data,
        toml=_toml,
        program=PROGRAM,
        file=file,
        folder=os.path.relpath(folder, (folder / file).parent),
        module=tables.application.name.partition(":")[0],
        routes=", ".join(re.sub(r"[^\x20-\x7e]", "?", route) for route in routes),
        tools=", ".join(tool for tool in DRIVERS if tool not in ("siege", JOBS)),
    )
    return text, tables.python


def tables_of(app: str, folder: Path, options: TargetOptions, *, has_twin: bool = True) -> ApplicationTables:
    """Return the tables of a suite for `module:name`.

    Raises:
        BadInputError: it can't be imported, is no application, or an option is invalid.
    """
    if not is_application(app):
        raise BadInputError(f"{app!r} names no application: expected module:name, such as app:app")
    if ".py:" in app:
        raise BadInputError(f"{app!r}: expected a module, without .py: {app.replace('.py:', ':')}")
    if options.path is not None and (
        names := [each for each in re.findall(_PARAMETER, options.path) if not _is_filled(each, options)]
    ):
        example = re.sub(_PARAMETER, lambda found: found[0] if _is_filled(found[0], options) else "20", options.path)
        raise BadInputError(f"--path {options.path}: {names[0]} stands for a value; put one in, such as {example}")
    if options.path is not None and not is_path(options.path):
        raise invalid_value("--path", options.path, PATH)
    refuse_absent(app, folder)
    environment = user_environment(folder, options.pythons)
    refuse_absent(app, folder, environment.requirements)
    python = installed_python(environment, folder, options.tell)
    limit_s = max(IMPORT_LIMIT_S, _seconds(options.ready_within) or 0.0)
    application = inspected(app, python.path, folder, limit_s)
    servers = list(deployments_of(application if has_twin else msgspec.structs.replace(application, twin="")))
    if not servers:
        raise BadInputError(
            f"{application.name}: no server can run this application; write a suite with your own commands"
        )
    if application.host is None:
        raise BadInputError(f"{application.name} accepts no host: add 127.0.0.1 to ALLOWED_HOSTS in its settings")
    load, ready_within = _request(options, application), _ready_within(application, options)
    headers = {"Host": application.host} if application.host else {}
    ping = application.ping() if options.ping is None else options.ping
    is_inside = environment.python.startswith(f"{folder.resolve()}{os.sep}") and not options.pythons
    workers = [1, max(2, min(server_cpus(), 8))]
    data = {
        "title": f"How should {application.name.partition(':')[0]} be deployed?",
        "requirements": list(environment.requirements),
        "keep_environment": options.keep_environment,
        "environment": {"PYTHONPATH": application.import_from} if application.import_from else {},
        "load": {**load, **options.load_table(headers), "users": [USERS]},
        "expect": options.expect_table(),
        "axes": {"workers": workers, **({"threads": [_THREADS]} if "{threads}" in str(servers) else {})},
        "servers": {
            each.name: {
                "title": each.title,
                "command": each.command,
                "additions": missing([each], application.servers),
                **({"ready_within": ready_within} if ready_within else {}),
            }
            for each in servers
        },
    }
    if ping is not None:
        data["ping"] = {"path": ping}
    if is_inside:
        data["python"] = os.path.relpath(environment.python, folder.resolve())
    is_named = is_inside or environment.python == sys.executable
    return ApplicationTables(data, application, environment, servers, "" if is_named else environment.python)


def _is_filled(parameter: str, options: TargetOptions) -> bool:
    """Return whether a parameter in a path is a placeholder that the load fills."""
    return parameter in _AXES or bool(names_in(parameter, has_setup=bool(options.setup)))


def _request(options: TargetOptions, application: Application) -> dict[str, Any]:
    """Return the keys of [load] for the request: a GET, unless the options choose a body or another method.

    Raises:
        BadInputError: no route of the application fits, or several do; nobody but its owner may choose among requests
            that change data.
    """
    method = options.method or ("POST" if options.body is not None else GET.method)
    if options.body is not None and method == GET.method:
        raise BadInputError("--body with --method GET: a GET has no body; use --method POST, or remove --body")
    load: dict[str, Any] = {"path": _path_for(method, options, application)}
    if method != GET.method:
        load["method"] = method
    if options.body is not None:
        try:
            body = as_json(options.body.encode())
        except UnicodeEncodeError:
            raise invalid_value("--body", options.body, "text in UTF-8") from None
        load["body"] = body if isinstance(body, dict | list) else options.body
    elif method in _WITH_BODY:
        load["body"] = {}
    return load


def _path_for(method: str, options: TargetOptions, application: Application) -> str:
    """Return the path to request; raise BadInputError if the options and the routes don't determine it."""
    if options.path is not None:
        accepted = application.methods_of(options.path)
        is_view = GET.method in accepted and not {*accepted} & {*_WITH_BODY}  # a view of Django accepts POST, too
        is_possible = method in accepted or (method == "POST" and is_view)
        if options.method is None and accepted and not is_possible:
            why = f"{options.path} accepts {listed(accepted)}, but not {method}"
            choice = f"{'it' if len(accepted) == 1 else 'one'} with --method {' or '.join(accepted)}"
            raise _unchosen(application, f"{why}; choose {choice}")
        return options.path
    paths = [path for name, path in application.work() if name == method and is_requestable(path)]
    if method == GET.method:
        if not paths and application.routes:
            besides = " besides the health check" if application.ping() else ""
            why = f"no route accepts GET without parameters{besides}"
            raise _unchosen(application, f"{why}; use --path, and --method or --body if the request is not a GET")
        return paths[0] if paths else "/"
    if len(paths) != 1:
        raise _unchosen(application, f"{len(paths) or 'no'} routes accept {method} without parameters; use --path")
    return paths[0]


def _unchosen(application: Application, why: str) -> BadInputError:
    routes = listed(named(application.routes), _REFUSED_ROUTES) if application.routes else "unknown"
    return BadInputError(f"{application.name}: {why}; its routes: {legible(routes)}")


def _toml(value: Any) -> str:
    """Return a value in TOML; as JSON text if TOML has no such value, such as `null`."""
    with contextlib.suppress(ValueError, RecursionError):
        text = _toml_value(value)
        if tomllib.loads(f"value = {text}")["value"] == value and text.encode():
            return text
    return _toml_value(json.dumps(value))


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        names = (name if _BARE_KEY.fullmatch(name) else json.dumps(name) for name in value)
        fields = ", ".join(f"{name} = {_toml_value(item)}" for name, item in zip(names, value.values(), strict=True))
        return f"{{ {fields} }}" if fields else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def suite_of_applications(apps: Sequence[str], folder: Path, options: TargetOptions) -> Suite:
    """Return a suite that compares the servers of one or several applications in this folder.

    Raises:
        BadInputError: an application can't be imported, an option is invalid, or the requests would differ.
    """
    suites = [suite_of_application(app, folder, options, has_twin=len(apps) == 1) for app in apps]
    first, apps = suites[0], [suite.source for suite in suites]
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
    copies = tuple(file for each in described for file in each.copies)
    application = replace(described[0], name=" and ".join(apps), notes=notes, copies=copies)
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


def _user_application(tables: ApplicationTables, suite: Suite, folder: Path) -> UserApplication:
    """Describe what was chosen for the user, so that the result can say it."""
    application, notes = tables.application, []
    if additions := list(dict.fromkeys(name for target in suite.targets for name in target.additions)):
        notes.append(
            f"{listed(additions)} {'was' if len(additions) == 1 else 'were'} installed for this benchmark only; "
            f"{tables.environment.found} is unchanged"
        )
    host = tables.data["load"]["headers"].get("Host")
    if host and host == application.host:
        notes.append(f"requests have the header Host: {host}, because the application refuses {HOST}")
    if application.needs_loop:
        notes.append("the import of the application needs a running event loop: servers that import it before fail")
    if application.patched_by and application.kind == "wsgi":
        notes.append(
            f"{application.patched_by} replaces the threads of Python when the application is imported, so servers "
            "that need these threads, such as gthread and Granian, were left out"
        )
    copies = (application.file,) if application.is_copy_of_sources_in(folder) else ()
    for file in copies:
        notes.append(f"{file} was imported: changes in this folder count only after the next installation")
    routes = tuple(named(application.routes))
    return UserApplication(
        application.name, routes, tables.environment.found, tuple(notes), copies, application.needs_loop
    )


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
