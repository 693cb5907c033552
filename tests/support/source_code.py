"""Parse source code and count its lines."""

import ast
import functools
import gc
from pathlib import Path


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
