"""Parse source code: modules, their imports, and lines of code."""

import ast
import functools
import gc
from pathlib import Path

from conftest import ROOT, SERVERS

MODULES = [
    ROOT / "bench.py",
    *SERVERS,
    *sorted((ROOT / "common").rglob("*.py")),
    *sorted((ROOT / "under_siege").rglob("*.py")),
]


@functools.cache
def tree(path: Path) -> ast.Module:
    # Prevent finalizers from running: a finalizer that prints a traceback calls `ast.parse`, and Python 3.11 does not
    # support nested calls (SystemError: AST constructor recursion depth mismatch).
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def lines_of_code(path: Path) -> int:
    """Return the number of lines, excluding empty lines, comments and docstrings."""
    prose: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            prose.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for number, line in lines if line.strip(" #") and line.strip()[0] != "#" and number not in prose)


def name_of(path: Path) -> str:
    """Return the import name, for example `under_siege.formatting`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return all imported modules and names, including those in functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside if inside <= NAMES.keys() else {node.module, *inside}
    return frozenset(found)
