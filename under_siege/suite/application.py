"""Describe an application, as a program in its own Python reports it, and list the servers that can run it."""

import asyncio
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from common.errors import BadInputError
from under_siege.formatting import cut, legible
from under_siege.host.environments import DIRECTORY
from under_siege.host.helper_process import HelperDiedError, HelperError, answer
from under_siege.host.known_causes import known_cause
from under_siege.host.requirement_files import have_own_packages, mentions
from under_siege.paths import script
from under_siege.secrets import masked
from under_siege.suite.keys import is_path
from under_siege.suite.module_files import (
    elsewhere,
    hides_others,
    is_here,
    likely_application,
    name_in_package,
    right_place,
)

_NAME = r"[A-Za-z_][\w.-]*:([A-Za-z_][\w.]*(\(\))?)?"
_HEALTH = ("health", "healthz", "ping", "ready", "readyz", "livez", "alive", "status")  # last part of the path
_FIRST_WINS = ("fastapi", "starlette", "django", "tornado")  # frameworks that take the first route that fits
IMPORT_LIMIT_S = 120.0
EXPECTED = "expected the module:name of an application, such as shop.main:app"
_LONGEST_PROBLEM = 400  # maximum number of characters
PARAMETER = re.compile(r"\{[^}]*\}|<[^>]*>")  # in the path of a route


class RouteFunction(msgspec.Struct, frozen=True):
    """The function that answers the requests for a route."""

    name: str  # qualified, such as `Report.get`
    file: str  # relative to the directory of the application if it is below it
    line: int  # line of its first decorator
    is_async: bool
    is_method: bool = False
    unmovable: tuple[str, ...] = ()  # parameters that can't be pickled


class Application(msgspec.Struct, frozen=True):
    """An application that servers can run."""

    name: str  # module:name, without parentheses
    kind: str  # asgi, wsgi, aiohttp or tornado
    is_factory: bool
    is_async: bool  # whether the factory is a coroutine function
    framework: str  # empty if unknown
    version: str
    routes: list[tuple[str, str]]  # (method, path)
    host: str | None  # a Host header that it accepts: empty for 127.0.0.1; None: it accepts none
    twin: str  # Django's application for the other interface
    import_from: str  # a folder to add to the path, such as `src`
    import_s: float
    python: tuple[int, int, int]
    servers: dict[str, str]  # modules of installed servers, with their versions
    file: str = ""  # of its module
    needs_loop: bool = False  # whether its import needs a running event loop
    functions: list[RouteFunction | None] = []  # of the routes
    patched_by: str = ""  # the package that replaces threads by its own, such as gevent

    def function_of(self, method: str, path: str) -> RouteFunction | None:
        """Return the function that answers a request, or None if it is unknown or not the only one.

        A route with this path precedes those with parameters, unless the framework takes the first route that fits.
        """
        path = path.partition("?")[0]
        known = [(route.partition("?")[0], each) for (name, route), each in self._answers() if name == method]
        fitting = [(route, each) for route, each in known if route == path or re.fullmatch(pattern_of(route), path)]
        exact = next((number for number, (route, _) in enumerate(fitting) if route == path), None)
        if exact is not None:
            fitting = fitting[: exact + 1] if self.framework in _FIRST_WINS else fitting[exact : exact + 1]
        found = dict.fromkeys(each for _, each in fitting)
        if not found and self.framework == "django" and method != "GET":  # a function gets all methods
            answers = self.function_of("GET", path)
            return answers if answers and not answers.is_method else None
        return next(iter(found)) if len(found) == 1 else None

    def _answers(self) -> Iterator[tuple[tuple[str, str], RouteFunction | None]]:
        return zip(self.routes, self.functions or [None] * len(self.routes), strict=True)

    def ping(self) -> str | None:
        """Return the path of the health check, or None if there is none."""
        paths = [path for method, path in self.routes if method == "GET" and not has_parameters(path)]
        found = [path for path in paths if path.strip("/").rpartition("/")[2] in _HEALTH and is_path(path)]
        return min(found, key=lambda path: path.count("/"), default=None)

    def work(self) -> list[tuple[str, str]]:
        """Return the routes except the health check; first those with GET that need no parameters and end no login."""
        routes = [route for route in self.routes if route != ("GET", self.ping())]
        return sorted(routes, key=lambda route: (has_parameters(route[1]), route[0] != "GET", _ends_login(route[1])))

    def is_copy_of_sources_in(self, folder: Path) -> bool:
        """Return whether its module was imported from an installed copy, although the folder has the sources."""
        top = self.name.partition(":")[0].partition(".")[0]
        sources = [place / name for place in (folder, folder / "src") for name in (top, f"{top}.py")]
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(Path(self.file).parts)
        return is_installed and any(source.exists() for source in sources)

    def methods_of(self, path: str) -> list[str]:
        """Return the methods that a path accepts; empty if it is unknown."""
        wanted, routes = path.partition("?")[0], [(name, route.partition("?")[0]) for name, route in self.routes]
        exact = [method for method, route in routes if route == wanted]
        fitting = [method for method, route in routes if re.fullmatch(pattern_of(route), wanted)]
        return list(dict.fromkeys(exact or fitting))


def pattern_of(route: str) -> str:
    """Return a regular expression for the paths of a route such as `/reports/{year}`."""
    return "[^/]+".join(map(re.escape, PARAMETER.split(route)))


def has_parameters(path: str) -> bool:
    return re.search(r"[{<(\[*]|/:|/\^", path) is not None


def _ends_login(path: str) -> bool:
    return re.search(r"(log|sign)-?_?(out|off)", path, re.IGNORECASE) is not None


def is_requestable(path: str) -> bool:
    """Return whether the path of a route can be requested as it is."""
    return not has_parameters(path) and is_path(path)


def named(routes: Sequence[tuple[str, str]]) -> list[str]:
    """Return routes as text, such as `/report` or `POST /orders`."""
    return [f"{method} {path}".removeprefix("GET ") for method, path in routes]


def is_application(name: str) -> bool:
    """Return whether a name has the form `module:application`, or `module:`, in which an application is searched."""
    return re.fullmatch(_NAME, name, re.ASCII) is not None


def inspected(name: str, python: str, folder: Path, limit_s: float = IMPORT_LIMIT_S) -> Application:
    """Import the application in its own Python and folder, and return what it is.

    Raises:
        BadInputError: it can't be imported, or is no application.
    """
    # The script must not get -P, which Python 3.9 lacks, nor PYTHONPATH, which could hide modules of the application.
    command = [python, *script("inspect_application", application=name)[1:]]
    try:
        found = asyncio.run(answer(command, limit_s, environment=os.environ, folder=folder))
        return msgspec.convert(found, Application)
    except TimeoutError:
        raise BadInputError(
            f"{name} can't be imported within {limit_s:.0f} s; if its start takes longer, use --ready-within"
        ) from None
    except OSError as error:
        raise BadInputError(f"{name} can't be imported by {python}: {error.strerror}") from None
    except HelperDiedError as error:
        problem = f"can't be imported: {error}"
    except HelperError as error:
        problem = str(error)
    if problem.startswith("there is no "):
        remedy = elsewhere(name.partition(":")[0], folder) or likely_application(folder)
    else:
        remedy = _remedy(problem, name, python, folder)
    problem = cut(legible(masked(problem)), _LONGEST_PROBLEM)
    raise BadInputError("; ".join(filter(None, [f"{name.rstrip(':')}: {problem}", remedy])))


def refuse_absent(name: str, folder: Path, requirements: Sequence[str] = ()) -> None:
    """Raise BadInputError if the module of an application is missing, and can't be in the environment either.

    Args:
        requirements: of an environment that has yet to be created; empty if the environment is unknown or exists.
    """
    module = name.partition(":")[0]
    if is_here(module, folder):
        return
    files = [folder / requirement.removeprefix("-r ") for requirement in requirements]
    top, place = module.partition(".")[0], elsewhere(module, folder)
    may_be_installed = not files or have_own_packages(files) or (not place and mentions(top, files))
    if hides_others(top, folder) or not may_be_installed:
        problem = f"{name.rstrip(':')}: there is no {module.replace('.', '/')}.py here or in src: {EXPECTED}"
        raise BadInputError("; ".join(filter(None, [problem, place or likely_application(folder)])))


def _remedy(problem: str, name: str, python: str, folder: Path) -> str:
    """Return what to do about a package that is missing in the application's environment."""
    if missing := re.search(r"No module named '([\w.]+)'", problem):
        package = missing[1].partition(".")[0]
        if place := right_place(name, package, folder):
            return place
        how = "list it in requirements.txt or pyproject.toml"  # of which the bench makes an environment
        if python == sys.executable and (folder / "setup.py").is_file():
            how = "create .venv, for example with python3 -m venv .venv && .venv/bin/pip install -e ."
        elif python != sys.executable and not Path(python).is_relative_to(DIRECTORY):
            how = f"install it there, for example with {python} -m pip install {package}"
        return f"{python} has no package {package}: {how}, activate its environment, or pass --python PATH"
    if "relative import with no known parent" in problem:
        return name_in_package(name, folder)
    if "application in this module" in problem or "application was found in this module: name it" in problem:
        return likely_application(folder)
    return known_cause(problem)


class Deployment(NamedTuple):
    """A way to run an application.

    In the command, APP is the application as module:name, CALL is the same with parentheses if it is a factory, and
    FACTORY is the server's option for a factory. In Python code, IMPORT imports the application, and RESULT is it.
    """

    name: str
    title: str
    kind: str
    module: str  # module that must be importable
    command: str
    factory: str = ""
    is_optional: bool = False  # whether it is compared only if it is installed
    least_python: tuple[int, int] = (3, 9)
    framework: str = ""  # the only framework whose applications it runs; empty: any
    patched_by: str = ""  # the package that an application has to be patched by; empty: any
    has_threads: bool = False  # whether it needs the threads of the standard library
    also: tuple[str, ...] = ()  # further packages that it needs

    def runs(self, application: Application) -> bool:
        """Return whether it runs applications with this framework and these patches."""
        is_hindered = self.has_threads and application.patched_by != ""
        return (
            self.framework in ("", application.framework)
            and self.patched_by in ("", application.patched_by)
            and not is_hindered
        )

    @property
    def requirement(self) -> str:
        return self.module.partition(".")[0].replace("_", "-")


_ADDRESS = "--host {host} --port {port}"
# No server writes an access log. Gunicorn keeps idle connections as long as Uvicorn and, like the other servers, does
# not restart a worker because a response takes long.
_GUNICORN = "{python} -m gunicorn CALL -w {workers} -b {host}:{port} --keep-alive 5 --timeout 0"
_TORNADO_LOOP = "ioloop.IOLoop.current().start()"
DEPLOYMENTS = (
    Deployment(
        "uvicorn",
        "Uvicorn",
        "asgi",
        "uvicorn",
        f"{{python}} -m uvicorn APP FACTORY --workers {{workers}} {_ADDRESS} --no-access-log --log-level warning",
        "--factory",
    ),
    Deployment(
        "gunicorn-asgi",
        "Gunicorn with ASGI workers",
        "asgi",
        "gunicorn.workers.gasgi",
        f"{_GUNICORN} -k asgi",
        least_python=(3, 10),
    ),
    Deployment(
        "gunicorn-uvicorn",
        "Gunicorn with Uvicorn workers",
        "asgi",
        "uvicorn_worker",
        f"{_GUNICORN} -k uvicorn_worker.UvicornWorker",
        is_optional=True,
    ),
    Deployment(
        "granian",
        "Granian",
        "asgi",
        "granian",
        f"{{python}} -m granian --interface asgi APP FACTORY --workers {{workers}} {_ADDRESS} --log-level warning",
        "--factory",
    ),
    Deployment(
        "hypercorn",
        "Hypercorn",
        "asgi",
        "hypercorn",
        "{python} -m hypercorn CALL -w {workers} -b {host}:{port} --log-level warning",
        is_optional=True,
    ),
    Deployment(
        "sanic",
        "Sanic's own server",
        "asgi",
        "sanic",
        f"{{python}} -m sanic APP FACTORY --workers {{workers}} {_ADDRESS} --no-motd --no-access-logs",
        "--factory",
        framework="sanic",
    ),
    Deployment("sync", "Gunicorn, one request at a time in each process", "wsgi", "gunicorn", f"{_GUNICORN} -k sync"),
    Deployment(
        "gthread",
        "Gunicorn, several threads in each process",
        "wsgi",
        "gunicorn",
        f"{_GUNICORN} -k gthread --threads {{threads}}",
        has_threads=True,
    ),
    Deployment(
        "gevent",
        "Gunicorn with gevent workers",
        "wsgi",
        "gunicorn",
        f"{_GUNICORN} -k gevent",
        patched_by="gevent",
        also=("packaging",),
    ),
    Deployment(
        "waitress",
        "Waitress, several threads in one process",
        "wsgi",
        "waitress",
        "{python} -m waitress --host={host} --port={port} --threads={threads} FACTORY APP",
        "--call",
    ),
    Deployment(
        "granian",
        "Granian",
        "wsgi",
        "granian",
        f"{{python}} -m granian --interface wsgi APP FACTORY --workers {{workers}} {_ADDRESS} --log-level warning",
        "--factory",
        has_threads=True,
    ),
    Deployment(
        "run_app",
        "aiohttp's own server",
        "aiohttp",
        "aiohttp",
        "{python} -c \"from aiohttp import web; IMPORT; web.run_app(RESULT, host='{host}', port={port})\"",
    ),
    Deployment(
        "gunicorn-aiohttp",
        "Gunicorn with aiohttp workers",
        "aiohttp",
        "gunicorn",
        f"{_GUNICORN} -k aiohttp.GunicornWebWorker",
    ),
    Deployment(
        "listen",
        "Tornado in one process",
        "tornado",
        "tornado",
        f"{{python}} -c \"from tornado import ioloop; IMPORT; RESULT.listen({{port}}, '{{host}}'); {_TORNADO_LOOP}\"",
    ),
    Deployment(
        "prefork",
        "Tornado, forked before any request",
        "tornado",
        "tornado",
        '{python} -c "from tornado import httpserver, ioloop, netutil, process; '
        "sockets = netutil.bind_sockets({port}, '{host}'); process.fork_processes({workers}, 0); "
        f'IMPORT; httpserver.HTTPServer(RESULT).add_sockets(sockets); {_TORNADO_LOOP}"',
    ),
)


def deployments_of(application: Application) -> Iterator[Deployment]:
    """Yield the deployments of an application, with complete commands.

    Django has an application for each interface; if the other one exists, its servers are compared, too. A server whose
    package is installed but too old for a deployment is left out, because the user's versions are not changed.
    """
    other = {"asgi": "wsgi", "wsgi": "asgi"}.get(application.kind)
    names = {application.kind: application.name, **({other: application.twin} if application.twin and other else {})}
    kinds = {kind: [each for each in DEPLOYMENTS if each.kind == kind] for kind in names}
    taken = set[str]()
    for kind, name in names.items():
        for each in kinds[kind]:
            if not each.runs(application):
                continue
            is_installed = each.module in application.servers
            is_outdated = each.module.partition(".")[0] in application.servers or (
                application.python[:2] < each.least_python
            )
            if is_installed or not (is_outdated or each.is_optional):
                unique = each.name if each.name not in taken else f"{each.name}-{kind}"
                taken.add(unique)
                yield each._replace(name=unique, command=completed(each, name, application))


def missing(deployments: Collection[Deployment], servers: Mapping[str, str]) -> list[str]:
    """Return the packages to add for these deployments, such as `gunicorn`."""
    wanted = [(each.module, each.requirement) for each in deployments]
    wanted += [(package, package) for each in deployments for package in each.also]
    return list(dict.fromkeys(requirement for module, requirement in wanted if module not in servers))


def completed(deployment: Deployment, name: str, application: Application) -> str:
    """Insert the application into a command."""
    module, _, attribute = name.partition(":")
    first = attribute.partition(".")[0]
    call = "()" if application.is_factory else ""
    load = f"from {module} import {first}"
    if not module.isidentifier() and "-" in module:  # servers can import my-app.py, but `import` can't
        load = f"import importlib; {first} = importlib.import_module('{module}').{first}"
    values = {
        "CALL": name if application.is_async else f"{name}{call}",  # Gunicorn's aiohttp workers call a coroutine
        "APP": name,
        " FACTORY": f" {deployment.factory}" if application.is_factory and deployment.factory else "",
        "IMPORT": load,
        "RESULT": f"{attribute}{call}",
    }
    command = deployment.command
    for word, value in values.items():
        command = command.replace(word, value)
    return command
