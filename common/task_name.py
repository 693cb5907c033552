"""Parse the name of a task: a built-in name, `module:function`, or `module:function('acme', 3)`."""

import ast
import copy
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from common.errors import BadInputError

ROOT = str(Path(__file__).parents[1])


def import_from(folder: str, name: str) -> ModuleType:
    """Import a module as a script in that folder would, even if the folder has a `common` of its own."""
    theirs = PathFinder.find_spec("common", [folder])
    ours = {key: module for key, module in sys.modules.items() if key.partition(".")[0] == "common"}
    if theirs is None or theirs.origin == ours["common"].__file__:
        if sys.path[0] != folder:
            sys.path.insert(0, folder)
        return importlib.import_module(name)
    before = sys.path[:]
    sys.path[:] = [folder, *(path for path in before if path != ROOT)]
    for key in ours:
        del sys.modules[key]
    try:
        return importlib.import_module(name)
    finally:
        sys.modules.update(ours)
        sys.path[:] = [ROOT, folder, *before]  # worker processes inherit it, and must import this project's `common`


class UnknownTaskError(BadInputError):
    """Raised for an unknown task, or one that can't be called. The message is one line with the expected value."""


Arguments = tuple[tuple[object, ...], dict[str, object]]  # literals, positional and named


def split(spec: str) -> tuple[str, Arguments]:
    """Split a task such as `module:function('acme', 3)` into its name and its arguments, or raise UnknownTaskError."""
    name, bracket, _ = spec.partition("(")
    if bracket and not spec.isprintable():
        raise UnknownTaskError(f"task {spec!r} has invisible characters; use escapes, such as '\\n'")
    return name, _arguments(spec, spec[len(name) :] or "()")


def _arguments(spec: str, text: str) -> Arguments:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escape sequences
            call = ast.parse(f"f{text}", mode="eval").body
        is_whole = len(f"f{text}".encode()) == call.end_col_offset  # false if a comment follows
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not is_whole:
            raise ValueError(text)
        named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
        if "" in named or len(named) < len(call.keywords):  # `**values`, or the same name twice
            raise ValueError(text)
        return tuple(map(ast.literal_eval, call.args)), named
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        expected = "literals: module:function('acme', lines=[1, 2])"
        raise UnknownTaskError(f"task {spec!r} has arguments that can't be read; expected {expected}") from None


def task_of(function: object, arguments: Arguments, spec: str) -> Callable[[], object]:
    """Return the function with these arguments, or raise UnknownTaskError if it can't be called with them."""
    if not callable(function):
        raise UnknownTaskError(f"task {spec!r} has the type {type(function).__name__}; expected a function")
    if inspect.isasyncgenfunction(function):
        expected = "an async function that returns the result, or a generator function that yields the seconds to wait"
        raise UnknownTaskError(f"task {spec!r} is an async generator function; expected {expected}")
    try:
        inspect.signature(function).bind(*arguments[0], **arguments[1])
    except TypeError as error:
        how = f"with {spec[spec.index('(') :]}" if "(" in spec else "without arguments"
        raise UnknownTaskError(f"task {spec!r} can't be called {how}: {error}") from None
    except ValueError:
        pass  # some builtins have no signature

    @wraps(function)
    def call() -> object:
        positional, named = copy.deepcopy(arguments)  # so that a run can't change them for the next run
        return function(*positional, **named)

    return call
