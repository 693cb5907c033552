"""A suite file to begin with, for an application that is there."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import BadInputError
from under_siege.load_tools import DRIVERS
from under_siege.model.suite import JOBS
from under_siege.paths import PROGRAM
from under_siege.targets.suite_schema import is_path

_WSGI = {"Flask", "Bottle", "get_wsgi_application", "Pyramid", "make_wsgi_app"}
_ASGI = {"FastAPI", "Starlette", "Quart", "Litestar", "Sanic", "get_asgi_application"}

_FRAMEWORKS = (
    *("bottle", "django", "falcon", "fastapi", "flask", "litestar", "pyramid", "quart", "sanic", "starlette"),
)
_ENVIRONMENTS = (".venv", "venv", "env")
_REQUIREMENTS = "requirements.txt"
_ROUTE = {"get", "route", "api_route"}  # decorators of what may be asked for
_MOST_ROUTES = 5

_HEALTH = ("/health", "/healthz", "/ping", "/ready", "/readyz", "/livez", "/status")

_HEAD = """\
# What is compared, and how: `{program} run {file}` measures it, `{program} run {file}:{first}` one server of it.
title = "How should {module} be deployed?"

# With requirements an environment is made once and kept; one server may have further ones of its own.
# Without, commands run with the Python that --python names (or else that of the bench), as it is:
# {program} run {file} --python {python}
{no_requirements}requirements = [{requirements}]

[load]
path = "{path}"{routes}
users = [25]         # at the same time; a list is an axis: [5, 25] measures both
# time = "auto"      # how long each load lasts
# tool = "siege"     # or {tools}

# [expect]
# status = 200
# body = "same"      # in bytes, as the first right answer; "json": equal as JSON; "any": differs by design

{off}[ping]
{off}path = "{ping}"   # asked 20 times a second meanwhile: what everybody else feels. Any status below 400 is right

[axes]
workers = [1, 2]     # may be used as {{workers}} below; one case for each value
"""
_ANY_PATH = '           # what users ask for, such as "/report?customer=acme"'
_SERVER = """
[servers.{name}]
title = "{title}"
command = "{command}"
"""
_CEILING = """
# A server that does no work shows what the load tool and this machine can do at all:
# [servers.nginx]
# command = "nginx -p {folder} -c nginx.conf"   # a file with {port} in it is filled in
# needs = ["nginx"]                             # programs; and postgresql or redis, private, at {postgresql}, {redis}
# ceiling = true
"""
_ASGI_SERVERS = (
    ("uvicorn", "Uvicorn", "uvicorn {app} --workers {{workers}} --host {{host}} --port {{port}}"),
    ("granian", "Granian", "granian --interface asgi {app} --workers {{workers}} --host {{host}} --port {{port}}"),
)
_WSGI_SERVERS = (
    ("sync", "Gunicorn, one request at a time in each process", "gunicorn {app} -w {{workers}} -b {{host}}:{{port}}"),
    (
        "gthread",
        "Gunicorn, eight threads in each process",
        "gunicorn {app} -w {{workers}} -k gthread --threads 8 -b {{host}}:{{port}}",
    ),
)


def first_suite(app: str, file: str, folder: Path) -> str:
    """The text of a suite for `module:application` in that folder, with servers of the kind that it needs.

    Raises:
        BadInputError: `app` is no such name, or no such module is in the folder.
    """
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(\(\))?", app, re.ASCII):
        raise BadInputError(f"{app!r} names no application: expected module:name, such as app:app")
    module, _, _ = app.partition(":")
    tree = _source(module, folder)
    servers = _WSGI_SERVERS if _is_wsgi(tree) else _ASGI_SERVERS
    ping = next((path for path in _HEALTH if path in _texts(tree)), None)
    others = ", ".join(tool for tool in DRIVERS if tool not in ("siege", JOBS))
    routes = [one for one in _routes(tree) if one != ping]
    head = _HEAD.format(
        program=PROGRAM,
        file=file,
        first=servers[0][0],
        module=module,
        python=own_python(folder) or ".venv/bin/python",
        requirements=", ".join(f'"{one}"' for one in _requirements(tree, folder, servers)),
        no_requirements="# " if own_python(folder) else "",
        path=next((one for one in routes if not re.search("[{<]", one)), "/"),
        routes=f"   # what users ask for; {module} has {', '.join(routes[:_MOST_ROUTES])}" if routes else _ANY_PATH,
        tools=others,
        ping=ping or _HEALTH[0],
        off="" if ping else "# ",
    )
    told = [
        _SERVER.format(name=name, title=title, command=_command(text, app, asgi=servers is _ASGI_SERVERS))
        for name, title, text in servers
    ]
    return "".join([head, *told, _CEILING])


def own_python(folder: Path) -> str:
    """The Python of the virtual environment in that folder, as it is called from there; empty if there is none."""
    found = (Path(name, "bin", "python") for name in _ENVIRONMENTS)
    return next((str(one) for one in found if (folder / one).exists()), "")


def _command(text: str, app: str, *, asgi: bool) -> str:
    """What starts the application; a function that makes it is called by servers of ASGI if they are told."""
    if asgi and app.endswith("()"):
        return text.format(app=f"{app.removesuffix('()')} --factory")
    return text.format(app=app)


def _requirements(tree: ast.Module, folder: Path, servers: Sequence[tuple[str, str, str]]) -> list[str]:
    """What the application and the servers need, as far as it can be seen."""
    imported = {name.name.split(".")[0] for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
    imported |= {(one.module or "").split(".")[0] for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    own = [name for name in _FRAMEWORKS if name in imported]
    if (folder / _REQUIREMENTS).is_file():
        own = [f"-r {_REQUIREMENTS}"]
    return list(dict.fromkeys([*own, *(command.split()[0] for _, _, command in servers)]))


def _routes(tree: ast.Module) -> list[str]:
    """The paths that its decorators name, such as `@app.get("/report")`."""
    found = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _ROUTE:
            first = call.args[0] if call.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and is_path(first.value):
                found.append(first.value)
    return [one for one in dict.fromkeys(found) if not re.search(r'["\\]', one)]


def _source(module: str, folder: Path) -> ast.Module:
    place = folder / Path(*module.split("."))
    source = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    if source is None:
        raise BadInputError(f"there is no {place.name}.py in {folder}: expected module:name of an application there")
    try:
        return ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise BadInputError(f"{str(source)!r} is not Python: {' '.join(str(error).split())}") from None


def _is_wsgi(tree: ast.Module) -> bool:
    """Whether it names what makes WSGI applications, and nothing that makes ASGI ones."""
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool(named & _WSGI) and not named & _ASGI


def _texts(tree: ast.Module) -> set[object]:
    """The texts in it, such as the paths of routes."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
