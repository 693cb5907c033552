"""Parse the name of a task: a built-in name, `module:function`, or `module:function('acme', 3)`."""

import ast
import copy
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import common
from common.errors import BadInputError, one_line

USER_COMMON = "common_of_the_user"  # the name of the user's own module `common` in sys.modules
_OURS = Path(str(common.__file__))


def import_from(folder: str, name: str) -> ModuleType:
    """Import a module as a script in that folder would; exceptions of the module propagate."""
    user_common = _user_common(folder)
    # Worker processes inherit sys.path, and must import this project's `common`.
    first = [str(_OURS.parents[1]), folder] if user_common else [folder]
    if sys.path[: len(first)] != first:
        sys.path[:0] = first
    top, dot, rest = name.partition(".")
    if user_common is None or top != common.__name__:
        return importlib.import_module(name)
    if USER_COMMON not in sys.modules:
        _import_user_common(user_common)
    return importlib.import_module(USER_COMMON + dot + rest)


def _user_common(folder: str) -> ModuleSpec | None:
    spec = PathFinder.find_spec(common.__name__, [folder])
    return None if spec and spec.origin and _OURS.samefile(spec.origin) else spec


def _import_user_common(module_spec: ModuleSpec) -> None:
    spec = ModuleSpec(USER_COMMON, None, is_package=True)
    if module_spec.origin is None:  # a folder without __init__.py
        spec.submodule_search_locations = module_spec.submodule_search_locations
    else:
        locations = module_spec.submodule_search_locations
        spec = spec_from_file_location(USER_COMMON, module_spec.origin, submodule_search_locations=locations) or spec
    module = sys.modules[USER_COMMON] = module_from_spec(spec)
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[USER_COMMON]
        raise


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
    arguments: Arguments = Arguments()

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
            whole = len(f"f{text}".encode()) == call.end_col_offset  # false if a comment follows
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not whole:
                raise UnknownTaskError(f"task {spec!r} has text after its arguments; remove it")
            positional = tuple(_literal(spec, argument) for argument in call.args)
            named = [
                (keyword.arg or "**", _literal(spec, keyword.value, keyword.arg is None)) for keyword in call.keywords
            ]
    except UnknownTaskError:
        raise
    except SyntaxError as error:
        raise UnknownTaskError(f"task {spec!r} can't be read: {error.msg}; expected {_EXAMPLE}") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise UnknownTaskError(f"task {spec!r} can't be read: {one_line(error)}; expected {_EXAMPLE}") from None
    if len(dict(named)) < len(named):
        raise UnknownTaskError(f"task {spec!r} has the same argument twice; remove one")
    return Arguments(text, positional, dict(named))


_EXAMPLE = "a call such as module:function('acme', 3, lines=[1, 2])"


def _literal(spec: str, node: ast.expr, unpacked: bool = False) -> object:
    try:
        if not unpacked:
            return ast.literal_eval(node)
    except (ValueError, TypeError):  # TypeError: for example, a list as a dict key
        pass
    raise UnknownTaskError(
        f"task {spec!r} has an argument that is not a literal: {'**' * unpacked}{ast.unparse(node)}; "
        "expected strings, numbers, True, False, None, and lists, tuples, sets and dicts of them"
    )


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
