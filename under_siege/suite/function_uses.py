"""Find what uses a function of an application, and which functions of the application it calls."""

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import BadInputError
from under_siege.record.files import read_limited

MOST_BYTES = 2_000_000  # of a source file
_MOST_FILES = 3000
_MOST_FUNCTIONS = 200
_NO_SOURCES = ("node_modules", "site-packages", "__pycache__")
# These calls register the function of a route.
_REGISTER = {
    *("Route", "path", "re_path", "url", "add_api_route", "add_route", "add_url_rule", "Litestar", "Router"),
    *("register", "route_handlers"),
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed(file: Path) -> ast.Module | None:
    """Return the code of a file, or None if it can't be read."""
    try:
        return ast.parse(read_limited(file, most_bytes=MOST_BYTES).decode())
    except (OSError, BadInputError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def imported_names(tree: ast.AST) -> dict[str, tuple[str, int]]:
    """Return the dotted name of whatever each name of a module is imported from, and the level of the import."""
    found: dict[str, tuple[str, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0]: (each.name, 0) for each in node.names if each.asname}
            found |= {root: (root, 0) for each in node.names if not each.asname for root in [each.name.split(".")[0]]}
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = (".".join(filter(None, (node.module, each.name))), node.level)
    return found


def use_elsewhere(node: Function, tree: ast.Module, file: str, folder: Path) -> str:
    """Return why the function is more than the function of a route, such as `it is called elsewhere (main.py:20)`."""
    for verb, line in _uses(tree, node.name, {node.name}, _parts(file), imported_names(tree)):
        if node.lineno <= line <= (node.end_lineno or 0):
            return f"it calls itself ({file}:{line})"
        return f"it is {verb} elsewhere ({file}:{line})"
    for number, other in enumerate(_sources(folder)):
        if number >= _MOST_FILES:
            return f"this folder has more than {_MOST_FILES:,} Python files, and one of them may call it"
        if other == folder / file or not _mentions(other, node.name) or (found := parsed(other)) is None:
            continue
        names = imported_names(found)
        own = {name for name, (dotted, _) in names.items() if _is_function(dotted, node.name, _parts(file))}
        is_all = any(dotted.endswith("*") and _is_below(dotted, _parts(file)) for dotted, _ in names.values())
        for verb, line in _uses(found, node.name, own | ({node.name} if is_all else set()), _parts(file), names):
            return f"it is {verb} elsewhere ({other.relative_to(folder)}:{line})"
    return ""


def _parts(file: str) -> set[str]:
    return set(Path(file).with_suffix("").parts)


def _is_function(dotted: str, name: str, parts: set[str]) -> bool:
    return dotted.rpartition(".")[2] == name and _is_below(dotted, parts)


def _is_below(dotted: str, parts: set[str]) -> bool:
    """Return whether what has this dotted name may be in the module whose path has these parts."""
    return dotted.rpartition(".")[0].rpartition(".")[2] in {"", *parts}


def _sources(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".") and each not in _NO_SOURCES and not Path(parent, each, "pyvenv.cfg").exists()
        )
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(".py"))


def _mentions(file: Path, name: str) -> bool:
    try:
        return re.search(rf"\b{name}\b".encode(), read_limited(file, most_bytes=MOST_BYTES)) is not None
    except (OSError, BadInputError):
        return False


def _uses(
    node: ast.AST, name: str, own: set[str], parts: set[str], names: dict[str, tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    """Yield how and in which lines a function is used, except where it is registered for a route.

    Args:
        own: the names that the function has in this module.
        parts: the parts of the path of the module that defines the function.
        names: all imported names.
    """

    def is_it(each: ast.AST) -> bool:
        if isinstance(each, ast.Name):
            return each.id in own and isinstance(each.ctx, ast.Load)
        if isinstance(each, ast.Attribute) and each.attr == name:
            root, _, rest = ast.unparse(each.value).partition(".")
            return root in names and _is_below(".".join(filter(None, (names[root][0], rest, name))), parts)
        return False

    if isinstance(node, _FUNCTIONS) and not own.isdisjoint(_bound(node)):
        below: Sequence[ast.AST] = [*node.decorator_list, *node.args.defaults]  # it has another object of this name
    else:
        below = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _REGISTER:
        below = [node.func, *_except_handlers([*node.args, *(each.value for each in node.keywords)], is_it)]
    for each in below:
        if is_it(each):
            is_call = isinstance(node, ast.Call) and node.func is each
            yield "called" if is_call else "used", int(getattr(each, "lineno", 0))
        else:
            yield from _uses(each, name, own, parts, names)


def _except_handlers(values: Sequence[ast.expr], is_it: "object") -> Iterator[ast.AST]:
    assert callable(is_it)
    for value in values:
        if isinstance(value, ast.List | ast.Tuple):
            yield from _except_handlers(value.elts, is_it)
        elif not is_it(value):
            yield value


def _bound(function: Function) -> set[str]:
    """Return the local names of a function."""
    nodes = list(ast.walk(function))
    shared = {name for each in nodes if isinstance(each, ast.Global) for name in each.names}
    stored = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return (stored | {each.arg for each in nodes if isinstance(each, ast.arg)}) - shared


@dataclass(frozen=True, slots=True)
class Code:
    """A function of the application, and the module that defines it."""

    node: ast.AST
    nodes: Sequence[ast.AST]  # of the body
    tree: ast.Module


def reached(function: Function, tree: ast.Module, file: Path, folder: Path) -> list[Code]:
    """Return the function and all functions and classes of the application that it may call by their names."""
    waiting: list[tuple[ast.AST, ast.Module, Path]] = [(function, tree, file)]
    found = list[Code]()
    modules = {file: tree}
    while waiting and len(found) < _MOST_FUNCTIONS:
        node, its_tree, its_file = waiting.pop(0)
        if any(each.node is node for each in found):
            continue
        nodes = [each for statement in getattr(node, "body", ()) for each in ast.walk(statement)]
        found.append(Code(node, nodes, its_tree))
        names = imported_names(its_tree)
        for each in nodes:
            if not isinstance(each, ast.Name | ast.Attribute) or not isinstance(each.ctx, ast.Load):
                continue
            root, _, rest = ast.unparse(each).partition(".")
            if not rest:
                waiting += [(other, its_tree, its_file) for other in its_tree.body if _defines(other, root)]
            if root not in names:
                continue
            dotted, level = names[root]
            module, _, name = ".".join(filter(None, (dotted, rest))).rpartition(".")
            if (other_file := _module(module, level, its_file, folder)) is None:
                continue
            if other_file not in modules and (other_tree := parsed(other_file)) is not None:
                modules[other_file] = other_tree
            if (other_tree := modules.get(other_file)) is not None:
                waiting += [(other, other_tree, other_file) for other in other_tree.body if _defines(other, name)]
    return found


def _defines(node: ast.AST, name: str) -> bool:
    return isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and node.name == name


def _module(dotted: str, level: int, file: Path, folder: Path) -> Path | None:
    """Return the file of a module of the application, or None for any other module."""
    if level > len(file.parents):
        return None
    places = [file.parents[level - 1]] if level else [folder, folder / "src"]
    names = [f"{dotted.replace('.', '/')}.py", f"{dotted.replace('.', '/')}/__init__.py"] if dotted else ["__init__.py"]
    return next((place / name for place in places for name in names if (place / name).is_file()), None)
