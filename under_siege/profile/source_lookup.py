"""Look up what the source files of an application define, and which files belong to libraries."""

import ast
import contextlib
import re
from functools import cache
from pathlib import Path

from under_siege.record.files import read_limited

LIBRARY = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[^/]*/|(?=<)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_in_coroutine(path: str, line: int) -> bool:
    """Return whether the innermost function around a line is an `async def`."""
    around = [node for node in functions_of(path) if node.lineno <= line <= (node.end_lineno or 0)]
    return bool(around) and isinstance(max(around, key=lambda node: node.lineno), ast.AsyncFunctionDef)


def functions_of(path: str) -> list[Function]:
    """Return the functions and methods that a source file defines."""
    return [node for node in nodes_of(path) if isinstance(node, Function)]


@cache
def nodes_of(path: str) -> list[ast.AST]:
    """Return the functions, methods and imports of a source file; an empty list if it can't be parsed."""
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(read_limited(Path(path), most_bytes=2_000_000))
        return [node for node in ast.walk(tree) if isinstance(node, Function | ast.Import | ast.ImportFrom)]
    return []


def is_library(path: Path) -> bool:
    """Return whether a file is part of Python or of an installed package."""
    return bool(LIBRARY.match(str(path)))
