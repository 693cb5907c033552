"""Define how a body is compared with the expected body."""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from under_siege.formatting import listed
from under_siege.secrets import is_secret_name, masked, masked_difference

SAME, JSON, ANY, FIELDS, PATTERN = "same", "json", "any", "fields", "pattern"


MOST_PATHS = 30  # number of paths that a message names
_MOST_VARYING = 300  # maximum number of paths at which responses differ by design
_MOST_SHOWN = 60  # maximum length of a value in a message
_MISSING = object()
_STEP = re.compile(r'(?:\A|(?!\A)\.)([^.\[\]]+)|\[(\d+|\*)\]|\[("(?:[^"\\]|\\.)*")\]')
Keys = tuple[str | int, ...]  # the steps of a path: names, and indexes of lists
_Difference = tuple[Keys, object, object]  # path, actual value, expected value
_Ignored = dict[str, Any]  # ignored paths as a tree: by step, the rest of the paths; an empty tree ends a path


@dataclass(frozen=True, slots=True)
class BodyRule:
    """How to compare a body with the expected body: byte by byte, as JSON, by its fields, by a pattern, or not at all.

    A path such as `items.0.id` or `items[0].id` names a value in JSON; `*` matches every key or index. A name that
    contains a dot or a bracket is written as `["a.b"]`.
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
            for actual in list(values_at(value, keys_of(path))) or [_MISSING]:
                yield from (_in_words(*difference) for difference in _differences(keys_of(path), actual, right))

    def _differences(self, body: bytes, right: bytes) -> Iterator[_Difference]:
        return _differences((), as_json(body), as_json(right), (_tree(self.ignored),) if self.ignored else ())

    def differing_paths(self, body: bytes, right: bytes) -> list[str]:
        """Return the paths at which the values of two JSON objects or lists differ, with `*` in place of indexes.

        Return none if they differ as a whole, or at too many paths.
        """
        if not isinstance(as_json(right), dict | list):
            return []
        found = [path for path, *_ in self._differences(body, right)]
        paths = list(dict.fromkeys(path_text(["*" if isinstance(key, int) else key for key in path]) for path in found))
        return paths if all(paths) and len(paths) <= _MOST_VARYING else []

    def unused(self, right: bytes) -> str:
        """Return an ignored path that the expected body does not contain, or an empty string if there is none."""
        value = as_json(right)
        return next((path for path in self.ignored if not list(values_at(value, keys_of(path)))), "")

    def checked(self, *, is_found: bool = False) -> str:
        """Return a note that describes the comparison, or an empty string if every byte is compared.

        Args:
            is_found: whether the responses decided how they are compared, and not the user.
        """
        differ = "as a whole, such as HTML or lists of different lengths, or in more than 300 fields"
        any_body = f"because the responses differ {differ}" if is_found else "because bodies may differ (body = any)"
        return {
            SAME: "",
            ANY: f"only the status was checked, {any_body}",
            JSON: "compared as JSON, not byte for byte"
            + (f", ignoring {listed(self.ignored, MOST_PATHS)}" if self.ignored else ""),
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


@functools.lru_cache(1000)
def keys_of(path: str) -> tuple[str, ...]:
    """Return the steps of a path such as `items.*.id`, `items[0].id` or `["a.b"]`; raise ValueError for other text."""
    keys, end = list[str](), 0
    while match := _STEP.match(path, end):
        name, index, quoted = match.groups()
        keys.append(name or index or json.loads(quoted))
        end = match.end()
    if not keys or end < len(path):
        raise ValueError(f"no path: {path!r}")
    return tuple(keys)


def path_text(keys: Sequence[str | int]) -> str:
    """Return the path with these steps as text; see `keys_of`."""
    steps = map(str, keys)
    return "".join(
        f".{step}" if re.fullmatch(r"[^.\[\]]+", step) else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in steps
    ).removeprefix(".")


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


@functools.lru_cache(100)
def _tree(paths: tuple[str, ...]) -> _Ignored:
    """Return paths as a tree. A path that begins with another one adds nothing to it."""
    tree: _Ignored = {}
    for *above, last in sorted(map(keys_of, paths), key=len):
        branch = tree
        for key in above:
            if branch.get(key) == {}:
                break
            branch = branch.setdefault(key, {})
        else:
            branch[last] = {}
    return tree


def _differences(path: Keys, actual: object, right: object, ignored: Sequence[_Ignored] = ()) -> Iterator[_Difference]:
    """Yield where two values differ. Objects without a common name, such as those by random id, differ as a whole."""
    children: list[tuple[str | int, object, object]] = []
    if (
        isinstance(actual, dict)
        and isinstance(right, dict)
        and not (actual and right and actual.keys().isdisjoint(right))
    ):
        names = dict.fromkeys([*right, *actual])
        children = [(name, actual.get(name, _MISSING), right.get(name, _MISSING)) for name in names]
    elif isinstance(actual, list) and isinstance(right, list) and len(actual) == len(right):
        children = [(index, *values) for index, values in enumerate(zip(actual, right, strict=True))]
    elif actual != right or isinstance(actual, bool) != isinstance(right, bool):  # in Python, True == 1
        yield path, actual, right
    for key, one, other in children:
        below = [tree[name] for tree in ignored for name in (str(key), "*") if name in tree]
        if all(below):
            yield from _differences((*path, key), one, other, below)


def _in_words(path: Keys, actual: object, right: object) -> str:
    name = path_text(path) or "it"
    if right is _MISSING:
        return f"{name} is unexpected"
    if any(is_secret_name(str(key)) for key in path):
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
