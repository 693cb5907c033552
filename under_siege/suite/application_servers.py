"""The servers that can run each kind of application, and their commands."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from under_siege.suite.application import Application


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
    Deployment("sync", "Gunicorn, one request at a time in each process", "wsgi", "gunicorn", f"{_GUNICORN} -k sync"),
    Deployment(
        "gthread",
        "Gunicorn, eight threads in each process",
        "wsgi",
        "gunicorn",
        f"{_GUNICORN} -k gthread --threads 8",
    ),
    Deployment(
        "waitress",
        "Waitress, eight threads in one process",
        "wsgi",
        "waitress",
        "{python} -m waitress --host={host} --port={port} --threads=8 FACTORY APP",
        "--call",
    ),
    Deployment(
        "granian",
        "Granian",
        "wsgi",
        "granian",
        f"{{python}} -m granian --interface wsgi APP FACTORY --workers {{workers}} {_ADDRESS} --log-level warning",
        "--factory",
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
            is_installed = each.module in application.servers
            is_outdated = each.module.partition(".")[0] in application.servers or (
                application.python[:2] < each.least_python
            )
            if is_installed or not (is_outdated or each.is_optional):
                unique = each.name if each.name not in taken else f"{each.name}-{kind}"
                taken.add(unique)
                yield each._replace(name=unique, command=_completed(each, name, application))


def missing(deployments: Collection[Deployment], servers: Mapping[str, str]) -> list[str]:
    """Return the packages to add for these deployments, such as `gunicorn`."""
    return list(dict.fromkeys(each.requirement for each in deployments if each.module not in servers))


def _completed(deployment: Deployment, name: str, application: Application) -> str:
    """Insert the application into a command."""
    module, _, attribute = name.partition(":")
    first, _, rest = attribute.partition(".")
    call = "()" if application.is_factory else ""
    load = f"from {module} import {first}"
    if not module.isidentifier() and "-" in module:  # servers can import my-app.py, but `import` can't
        load = f"import importlib; {first} = importlib.import_module('{module}').{first}"
    values = {
        "CALL": name if application.is_async else f"{name}{call}",  # Gunicorn's aiohttp workers call a coroutine
        "APP": name,
        " FACTORY": f" {deployment.factory}" if application.is_factory and deployment.factory else "",
        "IMPORT": load,
        "RESULT": f"{first}{'.' * bool(rest)}{rest}{call}",
    }
    command = deployment.command
    for word, value in values.items():
        command = command.replace(word, value)
    return command
