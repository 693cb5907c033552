"""A suite file to begin with, for an application that is there."""

import ast
import re
from pathlib import Path

from common.errors import BadInputError
from common.load.drivers import DRIVERS

_WSGI = {"Flask", "Bottle", "get_wsgi_application", "Pyramid", "make_wsgi_app"}
_ASGI = {"FastAPI", "Starlette", "Quart", "Litestar", "Sanic", "get_asgi_application"}

_HEALTH = ("/health", "/healthz", "/ping", "/ready", "/readyz", "/livez", "/status")

_HEAD = """\
# What is compared, and how: `bench.py run {file}` measures it, `bench.py run {file}:{first}` one server of it.
title = "How should {module} be deployed?"

# Without requirements, commands run with the Python that --python names (or else that of the bench), as it is:
# bench.py run {file} --python .venv/bin/python
# With them, an environment is made once and kept; one server may have further ones of its own.
# requirements = ["-r requirements.txt", "{package}"]

[load]
path = "/"           # what users ask for, such as "/report?customer=acme"
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
    first, _, command = servers[0]
    others = ", ".join(tool for tool in DRIVERS if tool != "siege")
    package = command.split()[0]
    head = _HEAD.format(
        file=file,
        first=first,
        module=module,
        package=package,
        tools=others,
        ping=ping or _HEALTH[0],
        off="" if ping else "# ",
    )
    told = [_SERVER.format(name=name, title=title, command=text.format(app=app)) for name, title, text in servers]
    return "".join([head, *told, _CEILING])


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
