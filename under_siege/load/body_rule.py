"""Define how a body is compared with the expected body."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from under_siege.secrets import is_secret_name, masked, masked_difference

SAME, JSON, ANY, FIELDS, PATTERN = "same", "json", "any", "fields", "pattern"


_MOST_SHOWN = 60  # maximum length of a value in a message


_MISSING = object()


_Difference = tuple[tuple[str, ...], object, object]  # path, actual value, expected value


@dataclass(frozen=True, slots=True)
class BodyRule:
    """How to compare a body with the expected body: byte by byte, as JSON, by its fields, by a pattern, or not at all.

    A path such as `items.0.id` names a value in JSON; `*` matches every key or index.
    """

    mode: str = SAME
    fields: tuple[tuple[str, Any], ...] = ()  # for FIELDS: paths and the expected values
    ignored: tuple[str, ...] = ()  # for JSON: paths of values that may differ
    pattern: str = ""  # for PATTERN: a regular expression that must match somewhere

    def problem(self, body: bytes, right: bytes) -> str:
        """Describe how the body differs from the expected body; return an empty string if the body is correct."""
        if self.mode == ANY or (self.mode in (SAME, JSON) and body == right):
            return ""
        if self.mode == SAME:
            return "different bytes"
        if self.mode == PATTERN:
            found = re.search(self.pattern, body.decode(errors="replace"))
            return "" if found else f"nothing matches {self.pattern!r}"
        try:
            if self.mode == FIELDS:
                return next(self._wrong_fields(as_json(body)), "")
            return next((_in_words(*difference) for difference in self._differences(body, right)), "")
        except RecursionError:
            return "its JSON is nested too deeply"

    def _wrong_fields(self, value: object) -> Iterator[str]:
        for path, right in self.fields:
            for actual in list(values_at(value, path.split("."))) or [_MISSING]:
                yield from (_in_words(*difference) for difference in _differences((path,), actual, right))

    def _differences(self, body: bytes, right: bytes) -> Iterator[_Difference]:
        ignored = [path.split(".") for path in self.ignored]
        for difference in _differences((), as_json(body), as_json(right)):
            if not any(_covers(pattern, difference[0]) for pattern in ignored):
                yield difference

    def differing_paths(self, body: bytes, right: bytes) -> list[str]:
        """Return up to 30 paths at which the values of two JSON objects differ, with `*` in place of indexes."""
        if not isinstance(as_json(right), dict):
            return []
        paths = [path for path, *_ in self._differences(body, right)]
        names = dict.fromkeys(".".join("*" if key.isdecimal() else key for key in path) for path in paths)
        return list(itertools.islice(names, 30))

    def unused(self, right: bytes) -> str:
        """Return an ignored path that the expected body does not contain, or an empty string if there is none."""
        value = as_json(right)
        return next((path for path in self.ignored if not list(values_at(value, path.split(".")))), "")

    def checked(self) -> str:
        """Return a note that describes the comparison, or an empty string if every byte is compared."""
        return {
            SAME: "",
            ANY: "only the status was checked, because bodies may differ (body = any)",
            JSON: "compared as JSON, not byte for byte"
            + (f", ignoring {', '.join(self.ignored)}" if self.ignored else ""),
            FIELDS: f"only the status and these fields were checked: {', '.join(path for path, _ in self.fields)}",
            PATTERN: f"only the status and the pattern {self.pattern!r} were checked",
        }[self.mode]


BYTES = BodyRule()


def as_json(body: bytes) -> object:
    """Return the decoded JSON value, or the bytes if they are not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


def values_at(value: object, path: Sequence[str]) -> Iterator[object]:
    """Yield the values at a path; there are several only if the path contains `*`."""
    if not path:
        yield value
        return
    key, *rest = path
    children: list[object] = []
    if isinstance(value, dict):
        if key == "*":
            children = list(value.values())
        elif key in value:
            children = [value[key]]
    elif isinstance(value, list):
        if key == "*":
            children = value
        elif key.isdecimal() and int(key) < len(value):
            children = [value[int(key)]]
    for child in children:
        yield from values_at(child, rest)


def _differences(path: tuple[str, ...], actual: object, right: object) -> Iterator[_Difference]:
    if isinstance(actual, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*right, *actual]):
            yield from _differences((*path, key), actual.get(key, _MISSING), right.get(key, _MISSING))
    elif isinstance(actual, list) and isinstance(right, list) and len(actual) == len(right):
        for index, values in enumerate(zip(actual, right, strict=True)):
            yield from _differences((*path, str(index)), *values)
    elif actual != right or isinstance(actual, bool) != isinstance(right, bool):  # in Python, True == 1
        yield path, actual, right


def _covers(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether the pattern matches the path or one of its parents."""
    return len(path) >= len(pattern) and all(key in ("*", name) for key, name in zip(pattern, path, strict=False))


def _in_words(path: Sequence[str], actual: object, right: object) -> str:
    name = ".".join(path) or "it"
    if right is _MISSING:
        return f"{name} is unexpected"
    if any(map(is_secret_name, path)):
        return f"{name} is missing" if actual is _MISSING else f"{name}, which is masked, has another value"
    masked_name = "" if _MISSING in (actual, right) else masked_difference(*map(_text, (actual, right)))
    why = f"; they differ in {masked_name}, which is masked" if masked_name else ""
    return f"{name} is {_shown(actual)} instead of {_shown(right)}{why}"


def _text(value: object) -> str:
    return repr(value) if isinstance(value, bytes) else json.dumps(value)


def _shown(value: object) -> str:
    if value is _MISSING:
        return "missing"
    text = masked(_text(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
