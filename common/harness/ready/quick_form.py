"""The quick form of a suite in a file: the same question with less of everything, for a first answer."""

from pathlib import Path
from typing import Any

from common.errors import BadInputError
from common.harness.ready.toml_table import Table

KEYS = ("load", "axes", "servers")
_OF_LENGTH = ("time", "requests")  # of which there is one


def quick_form(path: Path, told: dict[str, Any]) -> dict[str, Any]:
    """What the file says, with what `[quick]` says in place of it, key by key.

    Raises:
        BadInputError: there is no such table, or it can't be one.
    """
    if "quick" not in told:
        raise BadInputError(
            f"{path} has no quick form: expected a table such as [quick.load] in it; take less of all with "
            "--time, --users and --rounds"
        )
    top = Table(str(path), told, tuple(told))
    quick = top.below("quick", KEYS)
    load, own = dict(top.tables("load")), dict(quick.tables("load"))
    if any(key in own for key in _OF_LENGTH):
        load = {key: value for key, value in load.items() if key not in _OF_LENGTH}
    return told | {"load": load | own, "axes": dict(top.tables("axes")) | dict(quick.tables("axes"))}
