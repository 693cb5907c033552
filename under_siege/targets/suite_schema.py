"""The keys of a suite file with their types, and one line for a value that does not fit."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from common.errors import BadInputError
from under_siege.model.suite import SAME, WarmUp, parse_time_s, placeholders

PATH = "one that begins with /, of letters, digits and signs that an address may have, others as %20, %C3%A9, no /../"
MOST_REQUESTS, MOST_USERS, MOST_THREADS = 10_000_000, 10_000, 64
# RFC 3986, with brackets, which all tools leave alone, and braces, for names: anything else each tool sends in a way of
# its own; and some resolve the dots that others send.
_URL_PATH = r"(?a)\A(?![^?]*/\.\.?(?:[/?]|\Z))/[\w/?%.~!$&'()*+,;=:@\[\]{}-]*\Z"
_WORDS = {  # of msgspec, and what a reader of TOML calls it
    " of length >= 1": " of at least one value",
    "`": "",
    "object": "a table",
    "array": "a list",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    " |": " or",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a text must match. (Not `Meta(pattern=...)`: msgspec 0.22 then crashes while it collects garbage.)"""

    regex: str
    expected: str


_VARIABLE_NAME = Annotated[str, Pattern(r"\A[^\s=:\x00-\x1f]+\Z", "names without spaces, = and :")]
AnyText = Annotated[str, Pattern(r"\A[^\0]*\Z", "a text")]  # no command, file or address can have a NUL
Text = Annotated[str, Pattern(r"\A[^\0]*[^\s\0][^\0]*\Z", "a text that is not empty")]
UrlPath = Annotated[str, Pattern(_URL_PATH, PATH)]
Requests = Annotated[int, Meta(ge=1, le=MOST_REQUESTS)]
Users = Annotated[int, Meta(ge=1, le=MOST_USERS)]
Threads = Annotated[int, Meta(ge=1, le=MOST_THREADS)]
WarmUpValue = Annotated[int, Meta(ge=0, le=MOST_REQUESTS)] | Text
Time = int | float | Text
Variables = dict[_VARIABLE_NAME, AnyText | int]
AxisValue = Text | int | float
AxisValues = AxisValue | Annotated[list[AxisValue], Meta(min_length=1)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file; what it does not say is None, or has the default."""


class LoadTable(_Table, frozen=True):
    """`[load]`."""

    tool: Text = "siege"
    path: UrlPath | Annotated[list[UrlPath], Meta(min_length=1)] = "/"
    files: Text = ""
    script: Text | None = None
    users: Users | Annotated[list[Users], Meta(min_length=1)] = 25
    time: Time | None = None
    requests: Requests | None = None
    warm_up: WarmUpValue = 0
    keep_alive: bool | Annotated[list[bool], Meta(min_length=1)] = False
    threads: Threads | None = None
    options: list[Text] = []
    own_network: bool | Annotated[int, Meta(ge=100, le=28_000)] = False  # a number: of its ports
    task: Text | Annotated[list[Text], Meta(min_length=1)] | None = None
    locust_workers: Threads | None = None


class ExpectTable(_Table, frozen=True):
    """`[expect]`."""

    status: Annotated[int, Meta(ge=100, le=599)] = 200
    body: Text = SAME
    file: Text | None = None
    check: Text = ""


class PingTable(_Table, frozen=True):
    """`[ping]`."""

    path: UrlPath = "/ping"
    ready_within: Time | None = None


class QuickTable(_Table, frozen=True):
    """`[quick]`."""

    load: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    servers: list[Text] = []


class ServerTable(_Table, frozen=True):
    """`[servers.NAME]`."""

    title: Text = ""
    command: Text | None = None
    url: Text = ""
    requirements: list[Text] = []
    environment: Variables = {}
    needs: list[Text] = []
    ceiling: bool = False
    ready_within: Time | None = None
    warm_up: WarmUpValue | None = None
    prepare: Text = ""
    headers: Variables = {}


class SuiteTable(_Table, frozen=True):
    """The whole file; each of its tables is read by its own type, so that errors can name it."""

    title: Text = ""
    requirements: list[Text] = []
    environment: Variables = {}
    prepare: Text = ""
    load: dict[str, Any] = {}
    expect: dict[str, Any] = {}
    ping: dict[str, Any] | None = None
    axes: dict[str, AxisValues] = {}
    require: dict[str, list[Text]] = {}
    servers: dict[str, Any] = {}
    quick: dict[str, Any] | None = None


def converted(data: Any, schema: type[msgspec.Struct], place: str = "") -> Any:
    """Return the data as that type.

    Args:
        place: the keys that lead to it, such as `servers.one`.

    Raises:
        BadInputError: it does not fit; says the key, its value, and what was expected.
    """
    try:
        table = msgspec.convert(data, schema)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at ")
    else:
        hints = get_type_hints(schema, include_extras=True)
        for name, value in data.items():
            for at, text, expected in _mismatches(value, hints[name], f"{place}.{name}".lstrip(".")):
                raise wrong(at, text, expected)
        return table
    if unknown := re.search("unknown field `(.*)`", problem, re.DOTALL):
        raise unknown_key(place, unknown[1], schema.__struct_fields__)
    value = data
    for field, index, any_key in re.findall(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])", at):
        if any_key:  # which one, msgspec does not tell: each by itself
            for key in value if len(value) > 1 else ():
                outer, _, name = place.rpartition(".")
                converted({name: {key: value[key]}}, schema, outer)
            (field,) = value
        value = value[int(index)] if index else value[field]
        place += f"[{index}]" if index else f".{field}"
    expected = problem.removeprefix("Expected ").partition(", got ")[0]
    for theirs, ours in _WORDS.items():
        expected = expected.replace(theirs, ours)
    raise wrong(place.lstrip("."), value, expected)


def _mismatches(value: Any, hint: Any, place: str, shown_as: Any = None) -> Iterator[tuple[str, Any, str]]:
    """Yield the place of each text that does not match its pattern, what to show of it, and what was expected."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        for each in get_args(hint):
            yield from _mismatches(value, each, place, shown_as)
    elif get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        patterns = [mark for mark in marks if isinstance(mark, Pattern) and isinstance(value, str)]
        yield from ((place, shown_as or value, mark.expected) for mark in patterns if not re.search(mark.regex, value))
        yield from _mismatches(value, inner, place, shown_as)
    elif get_origin(hint) is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mismatches(item, get_args(hint)[0], f"{place}[{index}]")
    elif get_origin(hint) is dict and isinstance(value, dict):
        of_keys, of_values = get_args(hint)
        for key, item in value.items():
            yield from _mismatches(key, of_keys, place, value)
            yield from _mismatches(item, of_values, f"{place}.{key}")


def wrong(place: str, value: object, expected: str) -> BadInputError:
    """Return the error for the value of that key."""
    return BadInputError(f"{place} = {shown(value)}: expected {expected}")


def unknown_key(place: str, key: str, known: Collection[str]) -> BadInputError:
    """Return the error for a key that the table does not have."""
    near = difflib.get_close_matches(key, known, 1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    has = f"{place} has an " if place else ""
    return BadInputError(f"{has}unknown key {shown(key)}{meant}: expected one of {', '.join(known)}")


def shown(value: object) -> str:
    """Return the value as it may stand in a message: short, whatever it is."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def choice(place: str, value: str, choices: Collection[str]) -> str:
    """Return the value; raise BadInputError if it is none of the choices."""
    if value not in choices:
        raise wrong(place, value, f"one of {', '.join(choices)}")
    return value


def time_s(place: str, value: Time) -> float:
    """Return the seconds of `30`, `"30s"`, `"500ms"` or `"2m"`; raise BadInputError if it is none."""
    found = parse_time_s(str(value))
    if found is None:
        raise wrong(place, value, 'seconds, or a time such as "30s" or "500ms"')
    return found


def amount(place: str, value: WarmUpValue) -> WarmUp:
    """Return a number of requests, or a time: `6000`, `"2s"`; raise BadInputError if it is neither."""
    return WarmUp(time_s=time_s(place, value)) if isinstance(value, str) else WarmUp(requests=value or None)


def split_words(place: str, command: str) -> tuple[str, ...]:
    """Return the words of a command, as in a shell; raise BadInputError if there are none."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise BadInputError(f"{place} = {shown(command)} is not closed ({error}): expected quotes in pairs") from None
    if words and not words[0]:
        raise wrong(place, command, "a program and its arguments")
    return words


def is_path(text: str) -> bool:
    """Return whether every load tool sends the same for it."""
    return re.search(_URL_PATH, text) is not None


def address(text: str) -> SplitResult | None:
    """Return its parts; None if it is no HTTP URL, or has a user or a fragment, which tools understand differently."""
    try:
        parts = urlsplit(text)
        port_is_good = parts.port != 0
    except ValueError:  # a port that is no number, or brackets without a partner
        return None
    at_host = re.fullmatch(r"http://[\w.:\[\]-]+(/[^\s#]*|\?[^\s#]*)?", text, re.ASCII)
    if at_host is None or not parts.hostname or not port_is_good or parts.netloc.endswith(":"):
        return None
    return parts if is_path(path_of(parts)) else None


def path_of(parts: SplitResult) -> str:
    """Return what is requested there."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def ping_path(place: str, text: str) -> str:
    """Return the text; raise BadInputError if it is no path, or has a name in braces, which is not filled in there."""
    if not is_path(text):
        raise wrong(place, text, PATH)
    if names := placeholders(text):
        raise BadInputError(f"{place} = {shown(text)} has {{{names[0]}}}: expected one path for all, without braces")
    return text
