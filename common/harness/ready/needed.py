"""Which packages a server needs: those that its file imports, by itself or through modules of ours."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.harness.ours import ROOT
from common.harness.ready.strategies import SERVERS


def needed_by(servers: Iterable[Path | None], tasks: Iterable[str]) -> set[str] | None:
    """By the names that they are imported by; None where a script or a task of the user's may need any."""
    paths = list(servers)
    if any(path is None or path.parent != SERVERS for path in paths) or any(":" in task for task in tasks):
        return None
    found, left = set[str](), [path for path in paths if path]
    seen = set(left)
    while left:
        for module in _imported(left.pop()):
            package = module.partition(".")[0]
            path = (ROOT / module.replace(".", "/")).with_suffix(".py")
            if package != "common":
                found.add(package)
            elif path not in seen and path.exists():
                seen.add(path)
                left.append(path)
    return found


def _imported(path: Path) -> Iterator[str]:
    """The modules that it names, and what it takes from them, which may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{one.name}" for one in node.names))
