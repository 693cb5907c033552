"""The strategies: finding the server files and reading what they say of themselves, without running them."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from common.contract import unmet
from common.errors import BadInputError
from common.model.legible import legible

ROOT = Path(__file__).resolve().parents[3]
SERVERS = ROOT / "servers"


class NoSuchServerError(BadInputError):
    """There is no such server, or its file can't be one; the message is one line."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One server file."""

    stem: str  # of its file; in a plan with folders before it where that is needed to tell it from another
    title: str  # the first line of its docstring
    path: Path
    requires: str = ""  # its REQUIRES line, such as "python>=3.14"

    @property
    def number(self) -> int | None:
        """The number that its name begins with."""
        digits = re.match(r"\d+", self.stem)
        return int(digits[0]) if digits else None


def all_strategies() -> list[Strategy]:
    """Every file in servers/, in the order of their numbers."""
    found = [read_strategy(path) for path in SERVERS.glob("*.py")]
    return sorted(found, key=lambda strategy: (strategy.number or 0, strategy.stem))


def find_strategy(name: str) -> Strategy:
    """A strategy by number (`3`), stem (`3_async_threadexecutor`), or path to any script that keeps the contract.

    Raises:
        NoSuchServerError: nothing fits, or the file can't be a server.
    """
    strategies = all_strategies()
    for strategy in strategies:
        if name in (strategy.stem, str(strategy.number)):
            return strategy
    if name.endswith(".py") or "/" in name:
        return read_strategy(Path(name))
    stems = ", ".join(strategy.stem for strategy in strategies)
    raise NoSuchServerError(f"unknown server {name!r}: expected a number, a path, or one of {stems}")


def read_strategy(path: Path) -> Strategy:
    """What a server file says of itself.

    Raises:
        NoSuchServerError: it isn't there, isn't Python, has neither a docstring nor a --port,
            or a REQUIRES that can't be understood.
    """
    try:
        source = path.read_text(encoding="utf-8")
        module = ast.parse(source)
    except OSError as error:
        raise NoSuchServerError(f"server {str(path)!r} can't be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise NoSuchServerError(f"server {str(path)!r} is not Python: {' '.join(str(error).split())}") from None
    docstring = ast.get_docstring(module) or ""
    if not docstring and "port" not in source:
        raise NoSuchServerError(
            f"server {str(path)!r} doesn't keep the server contract: it has neither a docstring, whose first line "
            "is its title, nor a --port; see README, 'Add your own'"
        )
    title = docstring.splitlines()[0] if docstring else path.stem
    requires = _requires(module)
    try:
        unmet(requires)
    except BadInputError as error:
        raise NoSuchServerError(f"server {str(path)!r} says {error}") from None
    return Strategy(legible(path.stem), legible(title), path.resolve(), requires)


def _requires(module: ast.Module) -> str:
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == ["REQUIRES"]:
                return str(node.value.value)
    return ""
