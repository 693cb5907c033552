"""Find the function of an application that answers a request, from the routes in its source code.

A framework serializes or streams a response after this function has returned, so the sampled stacks don't contain it.
"""

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from under_siege.profile.sampler import Frame
from under_siege.profile.source_lookup import Function, functions_of, is_library, nodes_of
from under_siege.suite.application import PARAMETER, pattern_of

MOST_FILES = 500


def endpoint_of(command: Sequence[str], folder: Path, method: str, path: str) -> list[Frame]:
    """Return the lines of the only function with a route for this request; an empty list if there is not exactly one.

    Args:
        command: the command line of the server, which names a module or script of the application.
        folder: the directory in which it runs.

    Returns:
        The line of `def`, followed by the lines that return or create a response.
    """
    path = path.partition("?")[0]
    routes = [
        (route, file, function)
        for file in _files(command, folder)
        for function in functions_of(str(file))
        for route in _routes(function, method)
    ]
    found = [row for row in routes if re.fullmatch(pattern_of(row[0]), path)]
    # The path of a router begins with a prefix that is not in the decorator.
    found = found or [row for row in routes if _has_name(row[0]) and re.search(f"{pattern_of(row[0])}$", path)]
    if len(found) != 1:
        return []
    _, file, function = found[0]
    kind = "async" if isinstance(function, ast.AsyncFunctionDef) else "app"
    place = str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)
    numbers = [function.lineno, *sorted(set(_responses(function)))]
    return [Frame(function.name, place, line, kind, linecache.getline(str(file), line).strip()) for line in numbers]


def _files(command: Sequence[str], folder: Path) -> list[Path]:
    """Return the files that the words of a command name, and the files of the application that they import."""
    found = list[Path]()
    waiting = [file for word in command for file in _modules(word.partition(":")[0].removesuffix(".py"), [folder])]
    while waiting and len(found) < MOST_FILES:
        if (file := waiting.pop(0)) not in found:
            found.append(file)
            waiting += [
                other for name, level in _imports(file) for other in _modules(name, [folder, file.parents[level]])
            ]
    return found


def _modules(name: str, folders: Sequence[Path]) -> list[Path]:
    """Return the existing files of a module such as `shop.main`, or of a script without its `.py`."""
    stem = name if "/" in name else name.replace(".", "/")
    names = [f"{stem}.py", f"{stem}/__init__.py", f"{stem}/__main__.py"] if stem else []
    files = [(folder / each).resolve() for folder in folders for each in names]
    return [file for file in files if file.is_file() and not is_library(file)]


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the modules that a file may import, and how many directories above it each import starts."""
    for node in nodes_of(str(file)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            level = min(max(0, node.level - 1), len(file.parents) - 1)
            yield node.module or "", level
            yield from ((".".join(filter(None, (node.module, alias.name))), level) for alias in node.names)


def _routes(function: Function, method: str) -> Iterator[str]:
    """Yield the paths in decorators such as `@router.get("/reports/{year}")`."""
    for decorator in function.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and isinstance(decorator.func, ast.Attribute)
            and decorator.func.attr in {method.lower(), "route", "api_route"}
        ):
            paths = [*decorator.args[:1], *(word.value for word in decorator.keywords if word.arg == "path")]
            yield from (path.value for path in paths if isinstance(path, ast.Constant) and isinstance(path.value, str))


def _has_name(route: str) -> bool:
    return route.startswith("/") and bool(re.search(r"\w", PARAMETER.sub("", route)))


def _responses(function: Function) -> Iterator[int]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Response")):
            yield node.lineno
