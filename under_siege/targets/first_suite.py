"""Write a first suite for an existing application, based on its source code and its installed packages."""

import ast
import contextlib
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Template

from common.errors import BadInputError
from common.workers import usable_cpus
from under_siege.load_tools import DRIVERS
from under_siege.model.result_file import legible
from under_siege.model.suite import JOBS, Ping, Suite
from under_siege.paths import HOST, PROGRAM
from under_siege.targets.interpreter import evaluate
from under_siege.targets.strategies import parsed_source
from under_siege.targets.suite_file import suite_from
from under_siege.targets.suite_schema import PATH, invalid_value, is_path, ping_path

_WSGI = {"Flask", "Bottle", "get_wsgi_application", "Pyramid", "make_wsgi_app"}
_ASGI = {"FastAPI", "Starlette", "Quart", "Litestar", "Sanic", "get_asgi_application"}
_FRAMEWORKS = ["bottle", "django", "falcon", "fastapi", "flask", "litestar", "pyramid", "quart", "sanic", "starlette"]
_METHODS = {"post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}  # by the name of the decorator
_ROUTE_DECORATORS = {"get", "route", "api_route", *_METHODS}
_LISTED_ROUTES = 5
MOST_INCLUDES = 5  # maximum depth of nested includes
_APPLICATION = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(\(\))?"
_INSTALLED = """
import importlib.util, json
def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
answer = [name for name in {names!r} if is_installed(name)]
"""
_IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1])"
IMPORT_LIMIT_S = 60.0


class Deployment(NamedTuple):
    """A way to run an application."""

    name: str
    title: str
    module: str  # module that must be importable
    command: str

    @property
    def requirement(self) -> str:
        return self.module.partition(".")[0].replace("_", "-")


_ADDRESS = "--host {host} --port {port}"
_ASGI_SERVERS = (
    Deployment("uvicorn", "Uvicorn", "uvicorn", f"uvicorn APP --workers {{workers}} {_ADDRESS}"),
    Deployment(
        "gunicorn-asgi",
        "Gunicorn with ASGI workers",
        "gunicorn.workers.gasgi",
        "gunicorn CALL -k asgi -w {workers} -b {host}:{port}",
    ),
    Deployment(
        "gunicorn-uvicorn",
        "Gunicorn with Uvicorn workers",
        "uvicorn_worker",
        "gunicorn CALL -k uvicorn_worker.UvicornWorker -w {workers} -b {host}:{port}",
    ),
    Deployment("granian", "Granian", "granian", f"granian --interface asgi APP --workers {{workers}} {_ADDRESS}"),
)
_WSGI_SERVERS = (
    Deployment(
        "sync",
        "Gunicorn, one request at a time in each process",
        "gunicorn",
        "gunicorn CALL -w {workers} -b {host}:{port}",
    ),
    Deployment(
        "gthread",
        "Gunicorn, eight threads in each process",
        "gunicorn",
        "gunicorn CALL -w {workers} -k gthread --threads 8 -b {host}:{port}",
    ),
)
SERVERS = (*_ASGI_SERVERS, *_WSGI_SERVERS)


def is_application(name: str) -> bool:
    """Return whether a name has the form `module:application`."""
    return re.fullmatch(_APPLICATION, name, re.ASCII) is not None


def suite_of_application(app: str, folder: Path, path: str | None, ping: str | None) -> Suite:
    """Return the suite that `init` would write for the application in this folder.

    Raises:
        BadInputError: the application can't be imported, a path is invalid, or Django refuses requests to `HOST`.
    """
    python = own_python(folder)
    if python:
        command = [str(folder / python), "-c", _IMPORT, app.partition(":")[0]]
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=IMPORT_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInputError(f"{app} can't be imported by {python}: {error}") from None
        if ran.returncode:
            why = ran.stderr.decode(errors="replace").strip().splitlines() or ["the process ended"]
            raise BadInputError(f"{app} can't be imported by {python}: {legible(why[-1])[:300]}")
    suite = suite_from(tomllib.loads(first_suite(app, Path("suite.toml"), folder)), folder / "suite.toml", app)
    axes = dict(suite.axes)
    if path is not None:
        if not is_path(path):
            raise invalid_value("--path", path, PATH)
        axes["path"] = (path,)
    if python and not any(target.requirements for target in suite.targets):
        axes["python"] = (str(folder / python),)
    return replace(suite, axes=axes, ping=Ping(ping_path("--ping", ping)) if ping else suite.ping)


def installed(python: Path) -> Collection[str]:
    """Return the modules of `SERVERS` that this Python can import."""
    try:
        names: list[str] = evaluate(str(python), _INSTALLED.format(names=sorted({server.module for server in SERVERS})))
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    return names


_HEALTH = ("/health", "/healthz", "/ping", "/ready", "/readyz", "/livez", "/status")


def first_suite(app: str, file: Path, folder: Path) -> str:
    """Return the text of a suite for `module:application`; raise BadInputError if there is no such module."""
    if not is_application(app):
        raise BadInputError(f"{app!r} names no application: expected module:name, such as app:app")
    module = app.partition(":")[0]
    nodes = list(ast.walk(_source(module, folder)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    is_asgi = not names & _WSGI or bool(names & _ASGI)
    python = own_python(folder)
    servers, programs, is_complete = _servers(app, folder, python, is_asgi=is_asgi)
    settings = _django_settings(nodes, folder)
    routes = [*_routes(nodes), *(("GET", path) for path in _django_paths(settings.get("ROOT_URLCONF"), folder))]
    paths = {node.value for node in nodes if isinstance(node, ast.Constant)} | {path for _, path in routes}
    ping = next((path for name in _HEALTH for path in (name, f"{name}/") if path in paths), None)
    routes = [route for route in routes if route != ("GET", ping)]
    requestable = [route for route in routes if not re.search("[{<]", route[1])]
    method, path = next((route for route in requestable if route[0] == "GET"), (requestable or [("GET", "/")])[0])
    template = Path(__file__).with_name("first_suite.toml.jinja").read_text(encoding="utf-8")
    text: str = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        program=PROGRAM,
        file=file,
        module=module,
        folder=json.dumps(os.path.relpath(folder, (folder / file).parent)),
        python=python,
        is_complete=is_complete,
        requirements=", ".join(f'"{name}"' for name in (*_requirements(nodes, folder), *programs)),
        method=method,
        path=path,
        routes=", ".join(f"{method} {path}".removeprefix("GET ") for method, path in routes[:_LISTED_ROUTES]),
        tools=", ".join(tool for tool in DRIVERS if tool not in ("siege", JOBS)),
        ping=ping,
        servers=servers,
        most=max(2, min(usable_cpus(), 8)),
    )
    return text


def _django_settings(nodes: list[ast.AST], folder: Path) -> dict[str, Any]:
    """Return the literal values in the settings module that the source names, or an empty dict if it names none."""
    module = next(filter(None, map(_settings_module, nodes)), None)
    if module is None:
        return {}
    values = {}
    for node in ast.walk(_source(module, folder)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                values[node.targets[0].id] = ast.literal_eval(node.value)
    hosts = values.get("ALLOWED_HOSTS")
    if hosts is not None and not {HOST, "*"} & set(hosts or [HOST] * bool(values.get("DEBUG", True))):
        raise BadInputError(f"Django refuses requests to {HOST}: add it to ALLOWED_HOSTS in {module}")
    return values


def _settings_module(node: ast.AST) -> str | None:
    """Return the module that `os.environ.setdefault("DJANGO_SETTINGS_MODULE", …)` or an assignment sets, or None."""
    match node:
        case ast.Call(args=[ast.Constant(value="DJANGO_SETTINGS_MODULE"), ast.Constant(value=str(module))]):
            return module
        case ast.Assign(
            targets=[ast.Subscript(slice=ast.Constant(value="DJANGO_SETTINGS_MODULE"))],
            value=ast.Constant(value=str(module)),
        ):
            return module
    return None


def _django_paths(module: str | None, folder: Path, prefix: str = "/", depth: int = 0) -> Iterator[str]:
    """Yield the paths in a module with `urlpatterns`, and in the modules that it includes."""
    if module is None or _file(module, folder) is None or depth > MOST_INCLUDES:
        return
    for call in ast.walk(_source(module, folder)):
        match call:
            case ast.Call(
                ast.Name("path"), [ast.Constant(str(route)), ast.Call(ast.Name("include"), [ast.Constant(inner)])]
            ):
                yield from _django_paths(str(inner), folder, prefix + route, depth + 1)
            case ast.Call(ast.Name("path"), [ast.Constant(str()), ast.Attribute(attr="urls")]):  # as in admin.site.urls
                pass
            case ast.Call(ast.Name("path"), [ast.Constant(str(route)), *_]) if is_path(prefix + route):
                yield prefix + route


def _servers(app: str, folder: Path, python: str, *, is_asgi: bool) -> tuple[list[Deployment], list[str], bool]:
    """Return the installed servers, or all if there are none; the packages of all servers; whether any is installed."""
    module, _, name = app.partition(":")
    twin = re.sub(r"(?<=\.)[aw]sgi$", "wsgi" if is_asgi else "asgi", module)  # Django has a module for each interface
    own, other = (_ASGI_SERVERS, _WSGI_SERVERS) if is_asgi else (_WSGI_SERVERS, _ASGI_SERVERS)
    modules = dict.fromkeys(own, module)
    if twin != module and _file(twin, folder) is not None:
        modules |= dict.fromkeys(other, twin)
    present = installed(folder / python) if python else ()
    is_complete = any(server.module in present for server in modules)
    servers = [
        server._replace(command=_completed(server.command, f"{module}:{name}"))
        for server, module in modules.items()
        if server.module in present or not is_complete
    ]
    return servers, list(dict.fromkeys(server.requirement for server in modules)), is_complete


def _completed(command: str, app: str) -> str:
    """Insert the application into a command; for `module:create()`, `APP` becomes `module:create --factory`."""
    option = f"{app.removesuffix('()')} --factory" if app.endswith("()") else app
    return command.replace("APP", option).replace("CALL", app)


def own_python(folder: Path) -> str:
    """Return the relative path of the Python in the folder's virtual environment, or "" if there is no environment."""
    paths = (Path(name, "bin", "python") for name in (".venv", "venv", "env"))
    return next((str(path) for path in paths if (folder / path).exists()), "")


def _requirements(nodes: list[ast.AST], folder: Path) -> list[str]:
    """Return `-r requirements.txt` if the folder has this file, or else the frameworks that the application imports."""
    if (folder / "requirements.txt").is_file():
        return ["-r requirements.txt"]
    imported = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    return [name for name in _FRAMEWORKS if name in imported]


def _routes(nodes: list[ast.AST]) -> list[tuple[str, str]]:
    """Return the methods and paths of route decorators, such as `@app.get("/report")`."""
    routes = []
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ROUTE_DECORATORS:
            path = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(path, str) and is_path(path) and not re.search(r'["\\]', path):
                routes.append((_method(node, node.func.attr), path))
    return list(dict.fromkeys(routes))


def _method(call: ast.Call, decorator: str) -> str:
    """Return the HTTP method of a decorator, such as `@app.post(...)` or `@app.route(..., methods=["POST"])`."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "methods"]
    named = [node.value for value in values for node in ast.walk(value) if isinstance(node, ast.Constant)]
    known = [name for name in _METHODS.values() if name in named and "GET" not in named]
    return _METHODS.get(decorator, known[0] if known else "GET")


def _source(module: str, folder: Path) -> ast.Module:
    if (source := _file(module, folder)) is None:
        raise BadInputError(
            f"there is no {module.replace('.', '/')}.py in {folder}: expected the module:name of an application there"
        )
    return parsed_source(source)


def _file(module: str, folder: Path) -> Path | None:
    path = folder / Path(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
