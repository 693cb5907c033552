"""Write a first suite file for an existing application, from its source code."""

import ast
import json
import os
import re
from pathlib import Path

from jinja2 import Template

from common.errors import BadInputError
from under_siege.load_tools import DRIVERS
from under_siege.model.suite import JOBS
from under_siege.paths import PROGRAM
from under_siege.targets.strategies import parsed_source
from under_siege.targets.suite_schema import is_path

_WSGI = {"Flask", "Bottle", "get_wsgi_application", "Pyramid", "make_wsgi_app"}
_ASGI = {"FastAPI", "Starlette", "Quart", "Litestar", "Sanic", "get_asgi_application"}
_FRAMEWORKS = ["bottle", "django", "falcon", "fastapi", "flask", "litestar", "pyramid", "quart", "sanic", "starlette"]
_METHODS = {"post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}  # by decorator
_ROUTE_DECORATORS = {"get", "route", "api_route", *_METHODS}
_LISTED_ROUTES = 5
_HEALTH = ("/health", "/healthz", "/ping", "/ready", "/readyz", "/livez", "/status")


def first_suite(app: str, file: Path, folder: Path) -> str:
    """Return the text of a suite for `module:application`; raise BadInputError if there is no such module."""
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(\(\))?", app, re.ASCII):
        raise BadInputError(f"{app!r} names no application: expected module:name, such as app:app")
    module = app.partition(":")[0]
    nodes = list(ast.walk(_source(module, folder)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    is_asgi = not names & _WSGI or bool(names & _ASGI)
    programs = ["uvicorn", "granian"] if is_asgi else ["gunicorn"]
    if is_asgi and app.endswith("()"):  # ASGI servers call a function that makes the application only with this option
        app = f"{app.removesuffix('()')} --factory"
    constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
    ping = next((path for path in _HEALTH if path in constants), None)
    routes = [route for route in _routes(nodes) if route != ("GET", ping)]
    requestable = [route for route in routes if not re.search("[{<]", route[1])]
    method, path = next((route for route in requestable if route[0] == "GET"), (requestable or [("GET", "/")])[0])
    template = Path(__file__).with_name("first_suite.toml.jinja").read_text(encoding="utf-8")
    text: str = Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        program=PROGRAM,
        file=file,
        module=module,
        folder=json.dumps(os.path.relpath(folder, (folder / file).parent)),
        python=own_python(folder),
        requirements=", ".join(f'"{name}"' for name in (*_requirements(nodes, folder), *programs)),
        method=method,
        path=path,
        routes=", ".join(f"{method} {path}".removeprefix("GET ") for method, path in routes[:_LISTED_ROUTES]),
        tools=", ".join(tool for tool in DRIVERS if tool not in ("siege", JOBS)),
        ping=ping,
        is_asgi=is_asgi,
        app=app,
    )
    return text


def own_python(folder: Path) -> str:
    """Return the relative path of the Python of the folder's virtual environment; empty if there is none."""
    paths = (Path(name, "bin", "python") for name in (".venv", "venv", "env"))
    return next((str(path) for path in paths if (folder / path).exists()), "")


def _requirements(nodes: list[ast.AST], folder: Path) -> list[str]:
    """Return the packages that the application imports."""
    if (folder / "requirements.txt").is_file():
        return ["-r requirements.txt"]
    imported = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    return [name for name in _FRAMEWORKS if name in imported]


def _routes(nodes: list[ast.AST]) -> list[tuple[str, str]]:
    """Return the methods and paths of its decorators, such as `@app.get("/report")`."""
    routes = []
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ROUTE_DECORATORS:
            path = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(path, str) and is_path(path) and not re.search(r'["\\]', path):
                routes.append((_method(node, node.func.attr), path))
    return list(dict.fromkeys(routes))


def _method(call: ast.Call, decorator: str) -> str:
    """Return the method of a decorator, such as `@app.post(...)` or `@app.route(..., methods=["POST"])`."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "methods"]
    named = [node.value for value in values for node in ast.walk(value) if isinstance(node, ast.Constant)]
    known = [name for name in _METHODS.values() if name in named and "GET" not in named]
    return _METHODS.get(decorator, known[0] if known else "GET")


def _source(module: str, folder: Path) -> ast.Module:
    path = folder / Path(*module.split("."))
    source = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    if source is None:
        raise BadInputError(f"there is no {path.name}.py in {folder}: expected module:name of an application there")
    return parsed_source(source)
