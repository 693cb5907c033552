"""Parse the name of a task: a built-in one, `module:function`, or `module:function('acme', 3)`."""

import ast
import copy
import importlib
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

THEIRS = "common_of_the_user"  # the name of theirs among all modules, where `common` is ours
_OURS = Path(str(common.__file__))


def import_from(folder: str, name: str) -> ModuleType:
    """Imports the module as a script in that folder would; raises whatever it raises."""
    theirs = _their_common(folder)
    # Worker processes inherit the path, and import our `common` after that.
    first = [str(_OURS.parents[1]), folder] if theirs else [folder]
    if sys.path[: len(first)] != first:
        sys.path[:0] = first
    top, dot, rest = name.partition(".")
    if theirs is None or top != common.__name__:
        return importlib.import_module(name)
    if THEIRS not in sys.modules:
        _import_theirs(theirs)
    return importlib.import_module(THEIRS + dot + rest)


def _their_common(folder: str) -> ModuleSpec | None:
    found = PathFinder.find_spec(common.__name__, [folder])
    return None if found and found.origin and _OURS.samefile(found.origin) else found


def _import_theirs(found: ModuleSpec) -> None:
    spec = ModuleSpec(THEIRS, None, is_package=True)
    if found.origin is None:  # a folder without __init__.py
        spec.submodule_search_locations = found.submodule_search_locations
    else:
        within = found.submodule_search_locations
        spec = spec_from_file_location(THEIRS, found.origin, submodule_search_locations=within) or spec
    module = sys.modules[THEIRS] = module_from_spec(spec)
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[THEIRS]
        raise


class UnknownTaskError(BadInputError):
    """There is no such task; the message is one line that says what would be one."""


class BadCallError(UnknownTaskError):
    """It can't be called like that: the arguments are no literals, or do not fit."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Literals, and what was written for them: nothing of it was ever evaluated."""

    text: str = ""  # with its brackets; empty where there are none
    positional: tuple[object, ...] = ()
    named: dict[str, object] = field(default_factory=dict)

    def fresh(self) -> "Arguments":
        """Lists, sets and dicts that no run has changed yet."""
        return copy.deepcopy(self) if self.positional or self.named else self


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is called with."""

    function: Callable[..., object]
    arguments: Arguments = Arguments()

    def __call__(self) -> object:
        """Whatever the function gives."""
        fresh = self.arguments.fresh()
        return self.function(*fresh.positional, **fresh.named)


def split(spec: str) -> tuple[str, Arguments]:
    """The name before the brackets, and what is in them.

    Raises:
        BadCallError: what is in them are not literals, or have what nobody could see.
    """
    name, bracket, _ = spec.partition("(")
    if bracket and not spec.isprintable():
        raise BadCallError(f"task {spec!r} has invisible characters; expected them as escapes, such as '\\n'")
    return name, _arguments(spec, spec[len(name) :]) if bracket else Arguments()


def _arguments(spec: str, text: str) -> Arguments:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that mean nothing, on stderr
            call = ast.parse(f"f{text}", mode="eval").body
            whole = len(f"f{text}".encode()) == call.end_col_offset  # and no comment behind it
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not whole:
                raise BadCallError(f"task {spec!r} goes on behind its brackets; expected nothing there")
            positional = tuple(_literal(spec, one) for one in call.args)
            named = [(one.arg or "**", _literal(spec, one.value, one.arg is None)) for one in call.keywords]
    except BadCallError:
        raise
    except SyntaxError as error:
        raise BadCallError(f"task {spec!r} can't be read: {error.msg}; expected {_EXAMPLE}") from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise BadCallError(f"task {spec!r} can't be read: {one_line(error)}; expected {_EXAMPLE}") from None
    if len(dict(named)) < len(named):
        raise BadCallError(f"task {spec!r} has the same argument twice")
    return Arguments(text, positional, dict(named))


_EXAMPLE = "something like module:function('acme', 3, lines=[1, 2])"


def _literal(spec: str, node: ast.expr, unpacked: bool = False) -> object:
    try:
        if not unpacked:
            return ast.literal_eval(node)
    except (ValueError, TypeError):  # TypeError: of a list as a key
        pass
    raise BadCallError(
        f"task {spec!r} has an argument that is no literal: {'**' * unpacked}{ast.unparse(node)}; "
        "expected texts, numbers, True, False, None, and lists, tuples, sets and dicts of them"
    )
