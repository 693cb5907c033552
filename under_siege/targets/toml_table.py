"""A table of a TOML file that somebody wrote by hand: its values, or one line that says what is wrong."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from common.errors import BadInputError
from under_siege.model.case import Value

_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}
LONGEST_S = 86_400.0


class Table:
    """The values of some known keys, each of the type that is asked for; raises BadInputError where it isn't."""

    def __init__(self, where: str, data: object, known: Collection[str]) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise self.wrong(f"is {shown(data)}", "a table")
        self._data: Mapping[str, Any] = data
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                meant = f" (did you mean {near[0]!r}?)" if near else ""
                raise self.wrong(f"has an unknown key {shown(key)}{meant}", f"one of {', '.join(known)}")

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def wrong(self, what: str, expected: str) -> BadInputError:
        """The error: `shop.toml: [load] ...: expected ...`."""
        return BadInputError(f"{self.where} {what}: expected {expected}")

    def raw(self, key: str) -> object:
        """Whatever it is; None where nothing is said."""
        return self._data.get(key)

    def text(self, key: str, default: str = "") -> str:
        """A text that is not empty."""
        value = self._data.get(key, default)
        if not _is_text(value) or (key in self._data and not value.strip()):
            raise self.wrong(f"has {key} = {shown(value)}", "a text")
        return value

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """One of several texts."""
        value = self._data.get(key, default)
        if value not in choices:
            raise self.wrong(f"has {key} = {shown(value)}", f"one of {', '.join(choices)}")
        return str(value)

    def flag(self, key: str) -> bool:
        """True or false; false where nothing is said."""
        value = self._data.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"has {key} = {shown(value)}", "true or false")
        return value

    def flags(self, key: str) -> tuple[bool, ...]:
        """True, false, or a list of both; false where nothing is said."""
        given = self._data.get(key, False)
        values = given if isinstance(given, list) else [given]
        if not values or not all(isinstance(one, bool) for one in values):
            raise self.wrong(f"has {key} = {shown(given)}", "true, false, or a list of both")
        return tuple(dict.fromkeys(values))

    def number(self, key: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number within limits."""
        value = self._data.get(key, default)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(f"has {key} = {shown(value)}", f"a whole number from {least} to {most:,}")
        return value

    def seconds(self, key: str, default: float) -> float:
        """A time: `30`, `"30s"`, `"500ms"`, `"2m"`."""
        value = self._data.get(key, default)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|)", str(value))
        seconds = float(found[1]) * _UNITS_S[found[2]] if found and not isinstance(value, bool) else 0.0
        if not 0 < seconds <= LONGEST_S:
            raise self.wrong(f"has {key} = {shown(value)}", 'seconds, or a time such as "30s" or "500ms"')
        return seconds

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; none where nothing is said."""
        value = self._data.get(key, [])
        if not isinstance(value, list) or not all(_is_text(one) and one.strip() for one in value):
            raise self.wrong(f"has {key} = {shown(value)}", "a list of texts")
        return tuple(value)

    def values(self, key: str, default: Value) -> tuple[Value, ...]:
        """A value, or a list of several, which is an axis: texts, or whole numbers; each once."""
        given = self._data.get(key, default)
        values = given if isinstance(given, list) else [given]
        if not values:
            raise self.wrong(f"has {key} = []", "at least one value")
        for one in values:
            if isinstance(one, bool) or not (isinstance(one, (int, float)) or _is_text(one)) or one == "":
                raise self.wrong(f"has {key} = {shown(given)}", "texts or numbers")
        return tuple(dict.fromkeys(str(one) if isinstance(one, float) else one for one in values))

    def environment(self, key: str) -> tuple[tuple[str, str], ...]:
        """A table of texts, by names that a variable or a header may have."""
        value = self._data.get(key, {})
        if not isinstance(value, dict) or not all(_is_text(one) or type(one) is int for one in value.values()):
            raise self.wrong(f"has {key} = {shown(value)}", "a table of texts")
        for name in value:
            if not re.fullmatch(r"[^\s=:\x00-\x1f]+", name):
                raise self.wrong(f"has {shown(name)} in {key}", "a name without spaces, = and :")
        return tuple((str(name), str(one)) for name, one in value.items())

    def tables(self, key: str) -> Iterator[tuple[str, object]]:
        """The tables below a key, by their names."""
        value = self._data.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(f"has {key} = {shown(value)}", f"tables such as [{key}.NAME]")
        yield from value.items()

    def below(self, key: str, known: Collection[str]) -> "Table":
        """The table of that key, empty where there is none."""
        return Table(f"{self.where} [{key}]", self._data.get(key, {}), known)


def _is_text(value: object) -> TypeGuard[str]:
    """Without what would end it for whoever is told it: no command, file or address can have that."""
    return isinstance(value, str) and "\0" not in value


def shown(value: object) -> str:
    """As it may stand in a message: short, whatever it is."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
