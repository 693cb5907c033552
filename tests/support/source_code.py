"""Parse source code: modules, their imports, and lines of code; import scripts."""

import ast
import functools
import gc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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


@functools.cache
def script(name: str) -> ModuleType:
    """Import a script of scripts/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lines_of_code = script("count_lines").lines_of_code


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
