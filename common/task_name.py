"""Parse the name of a task: a built-in name, `module:function`, or `module:function('acme', 3)`."""

import ast
import copy
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
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
    for key in ours:
        del sys.modules[key]
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.modules.update(ours)
        sys.path.insert(0, ROOT)  # worker processes inherit sys.path, and must import this project's `common`


class UnknownTaskError(BadInputError):
    """Raised for an unknown task, or one that can't be called. The message is one line with the expected value."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The literal arguments of a task, and their source text, which is never executed."""

    text: str = ""  # source text with parentheses, or empty if there are no arguments
    positional: tuple[object, ...] = ()
    named: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A task: a function and its arguments."""

    function: Callable[..., object]
    arguments: Arguments

    def __call__(self) -> object:
        """Call the function with copies of the arguments, so that a run can't change them for the next run."""
        positional, named = copy.deepcopy((self.arguments.positional, self.arguments.named))
        return self.function(*positional, **named)


def split(spec: str) -> tuple[str, Arguments]:
    """Split a task such as `module:function('acme', 3)` into its name and its arguments.

    Raises:
        UnknownTaskError: the arguments can't be parsed, are not literals, or contain invisible characters.
    """
    name, bracket, _ = spec.partition("(")
    if bracket and not spec.isprintable():
        raise UnknownTaskError(f"task {spec!r} has invisible characters; use escapes, such as '\\n'")
    return name, _arguments(spec, spec[len(name) :]) if bracket else Arguments()


def _arguments(spec: str, text: str) -> Arguments:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escape sequences
            call = ast.parse(f"f{text}", mode="eval").body
        is_whole = len(f"f{text}".encode()) == call.end_col_offset  # false if a comment follows
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not is_whole:
            raise ValueError(text)
        if not all(keyword.arg for keyword in call.keywords):  # `**values`
            raise ValueError(text)
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return Arguments(text, tuple(map(ast.literal_eval, call.args)), named)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise UnknownTaskError(
            f"task {spec!r} has arguments that can't be read; expected literals: module:function('acme', lines=[1, 2])"
        ) from None


def checked(function: object, arguments: Arguments, spec: str) -> Callable[..., object]:
    """Return the function if it can be called with these arguments as a task, or raise UnknownTaskError."""
    if not callable(function):
        raise UnknownTaskError(f"task {spec!r} has the type {type(function).__name__}; expected a function")
    if inspect.isasyncgenfunction(function):
        raise UnknownTaskError(
            f"task {spec!r} is an async generator function; expected an async function that returns the result, "
            "or a generator function that yields the seconds to wait"
        )
    try:
        inspect.signature(function).bind(*arguments.positional, **arguments.named)
    except TypeError as error:
        how = f"with {arguments.text}" if arguments.text else "without arguments"
        raise UnknownTaskError(f"task {spec!r} can't be called {how}: {error}") from None
    except ValueError:
        pass  # some builtins have no signature
    return function
