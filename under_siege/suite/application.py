"""Describe a user's application, as the program that imports it in the user's Python reports it."""

import asyncio
import json
import os
import re
from pathlib import Path

import msgspec

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.host.managed_process import ManagedProcess, Tail, until
from under_siege.paths import PACKAGE
from under_siege.suite.keys import is_path

_NAME = r"[A-Za-z_][\w.-]*:[A-Za-z_][\w.]*(\(\))?"
_PROGRAM = PACKAGE / "subprocess_scripts" / "inspect_application.py"
_HEALTH = ("health", "healthz", "ping", "ready", "readyz", "livez", "alive", "status")  # last part of the path
IMPORT_LIMIT_S = 120.0


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

    def ping(self) -> str | None:
        """Return the path of the health check, or None if there is none."""
        paths = [path for method, path in self.routes if method == "GET" and not has_parameters(path)]
        found = [path for path in paths if path.strip("/").rpartition("/")[2] in _HEALTH and is_path(path)]
        return min(found, key=lambda path: path.count("/"), default=None)

    def work(self) -> list[tuple[str, str]]:
        """Return the routes except the health check; first those with GET that need no parameters."""
        routes = [route for route in self.routes if route != ("GET", self.ping())]
        return sorted(routes, key=lambda route: (has_parameters(route[1]), route[0] != "GET"))


def has_parameters(path: str) -> bool:
    return re.search(r"[{<(\[*]|/:|/\^", path) is not None


def is_application(name: str) -> bool:
    """Return whether a name has the form `module:application`."""
    return re.fullmatch(_NAME, name, re.ASCII) is not None


def inspected(name: str, python: str, folder: Path, limit_s: float = IMPORT_LIMIT_S) -> Application:
    """Import the application in its own Python and folder, and return what it is.

    Raises:
        BadInputError: it can't be imported, or is no application.
    """
    try:
        answer, said = asyncio.run(_output([python, str(_PROGRAM), name], folder, limit_s))
    except TimeoutError:
        raise BadInputError(
            f"{name} can't be imported within {limit_s:.0f} s; if its start takes longer, use --ready-within"
        ) from None
    except OSError as error:
        raise BadInputError(f"{name} can't be imported by {python}: {error.strerror}") from None
    try:
        found = json.loads(answer)
        problem = found.get("error")
        if problem is None:
            return msgspec.convert(found, Application)
    except (ValueError, AttributeError, msgspec.ValidationError):
        lines = said.strip().splitlines() or ["the process ended"]
        problem = f"can't be imported: {lines[-1]}"
    raise BadInputError(f"{name}: {legible(problem)[:400]}{_remedy(problem, python)}")


async def _output(command: list[str], folder: Path, limit_s: float) -> tuple[str, str]:
    """Run a command and return its stdout and stderr; stop it and raise TimeoutError if it takes too long."""
    process = ManagedProcess(command, environment=os.environ, folder=folder)
    outputs = Tail(process.stdout), Tail(process.stderr)
    try:
        if not await process.wait(limit_s):
            raise TimeoutError
    finally:
        await process.stop(grace_s=0)
    await until(lambda: not any(output.reading() for output in outputs), 1.0)
    return outputs[0].all_kept(), outputs[1].text()


def _remedy(problem: str, python: str) -> str:
    """Return what to do about a package that is missing in the application's environment."""
    if missing := re.search(r"No module named '([\w.]+)'", problem):
        return (
            f"; {python} has no package {missing[1].partition('.')[0]}: list it in requirements.txt or pyproject.toml, "
            "activate its environment, or pass --python PATH"
        )
    return ""
