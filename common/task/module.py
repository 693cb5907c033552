"""The module that a user's task is in: found in the current folder first, even if it is called `common`, as we are."""

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import common

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
