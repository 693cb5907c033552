"""Define the keys and types of a suite file, with a one-line error for each invalid value."""

import difflib
import re
import shlex
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.load.body_rule import SAME
from under_siege.load.request import WarmUp, parse_time_s, placeholders
from under_siege.paths import USERS

PATH = "a path that begins with /, without /../, and with special characters encoded, such as %20 or %C3%A9"
MAX_REQUESTS, MAX_USERS, MAX_THREADS = 10_000_000, 10_000, 64
# The characters that RFC 3986 allows, plus brackets, which all tools send unchanged, and braces for placeholders. Tools
# differ in how they send other characters, and some tools resolve `.` and `..`.
_URL_PATH = r"(?a)\A(?![^?]*/\.\.?(?:[/?]|\Z))/[\w/?%.~!$&'()*+,;=:@\[\]{}-]*\Z"
_VARIABLES = re.compile(r"(servers\..+\.|load\.|ping\.)?(environment|headers)")  # tables whose keys may have any name
_JSON_VALUES = ("load.body", "expect.json")  # keys whose values may be any JSON
_TOML_TERMS = {  # replacements for msgspec's terms in error messages
    " of length >= 1": " of at least one value",
    "`": "",
    "object": "a table",
    "array": "a list",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    " |": " or",
}

RequestCount = Annotated[int, Meta(ge=1, le=MAX_REQUESTS)]
UserCount = Annotated[int, Meta(ge=1, le=MAX_USERS)]
ThreadCount = Annotated[int, Meta(ge=1, le=MAX_THREADS)]
WarmUpValue = Annotated[int, Meta(ge=0, le=MAX_REQUESTS)] | str
Time = int | float | str
Status = Annotated[int, Meta(ge=100, le=599)]
AxisValue = str | int | float
AxisValues = AxisValue | Annotated[list[AxisValue], Meta(min_length=1)]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


TableT = TypeVar("TableT", bound=_Table)


class RequestTable(_Table, frozen=True):
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None
    headers: dict[str, str | int] = {}
    body: str | list[Any] | dict[str, Any] | None = None  # lists and tables are sent as JSON
    body_file: str | None = None
    content_type: str | None = None


class MixedRequestTable(RequestTable, frozen=True):
    """A line of a requests file."""

    path: str = ""
    weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    status: Status | None = None
    expected: Any = None  # expected body: a string, or other JSON


class LoadTable(RequestTable, frozen=True):
    tool: str = "siege"
    path: str | Annotated[list[str], Meta(min_length=1)] = "/"
    requests_file: str | None = None
    order: str = "random"
    files: str = ""
    script: str | None = None
    users: UserCount | Annotated[list[UserCount], Meta(min_length=1)] = USERS
    time: Time | None = None
    requests: RequestCount | None = None
    warm_up: WarmUpValue = 0
    keep_alive: bool | Annotated[list[bool], Meta(min_length=1)] = False
    threads: ThreadCount | None = None
    options: list[str] = []
    own_network: bool | Annotated[int, Meta(ge=100, le=28_000)] = False  # an integer is the number of local ports
    task: str | Annotated[list[str], Meta(min_length=1)] | None = None
    locust_workers: ThreadCount | None = None


class ExpectTable(_Table, frozen=True):
    status: Status = 200
    body: str = SAME
    json: dict[str, Any] = {}  # expected values, by path
    ignore: list[str] = []
    pattern: str | None = None
    file: str | None = None
    check: str = ""


class PingTable(_Table, frozen=True):
    path: str = "/ping"
    headers: dict[str, str | int] | None = None  # None: the headers of the load
    ready_within: Time | None = None


class DrainTable(_Table, frozen=True):
    path: str | None = None
    json: str | None = None
    limit: Time | None = None


class QuickTable(_Table, frozen=True):
    load: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    servers: list[str] = []


class ServerTable(_Table, frozen=True):
    title: str = ""
    command: str | None = None
    url: str = ""
    path: str = ""
    requirements: list[str] = []
    environment: dict[str, str | int] = {}
    needs: list[str] = []
    ceiling: bool = False
    ready_within: Time | None = None
    warm_up: WarmUpValue | None = None
    prepare: str = ""
    headers: dict[str, str | int] = {}


class SuiteTable(_Table, frozen=True):
    """A whole suite file."""

    title: str = ""
    folder: str = "."
    requirements: list[str] = []
    additions: list[str] = []
    python: str = ""
    environment: dict[str, str | int] = {}
    keep_environment: bool = True
    prepare: str = ""
    load: LoadTable = LoadTable()
    expect: ExpectTable = ExpectTable()
    ping: PingTable | None = None
    drain: DrainTable = DrainTable()
    axes: dict[str, AxisValues] = {}
    require: dict[str, list[str]] = {}
    servers: dict[str, ServerTable] = {}
    quick: QuickTable | None = None


_TABLES = {
    "load": LoadTable,
    "expect": ExpectTable,
    "ping": PingTable,
    "drain": DrainTable,
    "servers": ServerTable,
    "quick": QuickTable,
}


def suite_table(data: dict[str, Any]) -> SuiteTable:
    """Return the parsed TOML as a typed table; raise BadInputError for an unknown key or an invalid value."""
    table = _converted(data, SuiteTable)
    _check_texts("", data)
    return table


def mixed_request_table(data: dict[str, Any]) -> MixedRequestTable:
    """Return a line of a requests file as a typed table; raise BadInputError for an unknown key or an invalid value."""
    table = _converted(data, MixedRequestTable)
    _check_texts("request", {key: value for key, value in data.items() if key not in ("body", "expected")})
    if not is_path(table.path):
        raise invalid_value("request.path", table.path, PATH)
    return table


def _converted(data: dict[str, Any], to: type[TableT]) -> TableT:
    try:
        return msgspec.convert(data, to)
    except msgspec.ValidationError as error:
        raise _explained(str(error), data, to) from None


def _explained(message: str, data: dict[str, Any], to: type[_Table]) -> BadInputError:
    """Convert an error of msgspec to an error that shows the key and its value."""
    problem, _, place = message.partition(" - at ")
    path: list[str] = []
    key, value = "", cast(Any, data)
    for field, index, any_key in re.findall(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])", place):
        if index:
            key, value = f"{key}[{index}]", value[int(index)]
            continue
        if any_key:  # msgspec does not report the key
            field = next(name for name, item in value.items() if not _is_valid([*path, name], item, to))
        path.append(field)
        key, value = ".".join(legible(name)[:60] for name in path), value[field]
    if unknown := re.search("unknown field `(.*)`", problem, re.DOTALL):
        return unknown_key(key, unknown[1], (_TABLES[path[0]] if path else to).__struct_fields__)
    expected = problem.removeprefix("Expected ").partition(", got ")[0]
    for theirs, ours in _TOML_TERMS.items():
        expected = expected.replace(theirs, ours)
    return invalid_value(key, value, expected)


def _is_valid(path: Sequence[str], value: Any, to: type[_Table]) -> bool:
    for name in reversed(path):
        value = {name: value}
    try:
        msgspec.convert(value, to)
    except msgspec.ValidationError:
        return False
    return True


def _check_texts(key: str, value: Any, *, may_be_empty: bool = False) -> None:
    """Raise BadInputError for an empty string, or for characters that a command, file name or address can't contain."""
    if key in _JSON_VALUES:
        return
    if isinstance(value, str):
        if ".headers." in f".{key}" and re.search(r"[\r\n]", value):
            raise invalid_value(key, value, "a string without line breaks")
        if "\0" in value:
            raise invalid_value(key, value, "a string without NUL characters")
        if not value.strip() and not may_be_empty:
            raise invalid_value(key, value, "a string with visible characters")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_texts(f"{key}[{index}]", item)
    elif isinstance(value, dict):
        has_variables = _VARIABLES.fullmatch(key) is not None
        if has_variables and not all(re.fullmatch(r"[^\s=:\x00-\x1f]+", name) for name in value):
            raise invalid_value(key, value, "names that contain no space, '=' or ':'")
        for name, item in value.items():
            _check_texts(f"{key}.{legible(name)[:60]}".lstrip("."), item, may_be_empty=has_variables)


def invalid_value(key: str, value: object, expected: str) -> BadInputError:
    return BadInputError(f"{key} = {shown(value)}: expected {expected}")


def unknown_key(table: str, key: str, known: Collection[str]) -> BadInputError:
    near = difflib.get_close_matches(key, known, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    has = f"{table} has an " if table else ""
    return BadInputError(f"{has}unknown key {shown(key)}{hint}: expected one of {', '.join(known)}")


def shown(value: object) -> str:
    """Return the value as shortened text for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def choice(key: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise invalid_value(key, value, f"one of {', '.join(choices)}")
    return value


def time_s(key: str, value: Time) -> float:
    """Parse a time such as `30`, `"30s"`, `"500ms"` or `"2m"` into seconds."""
    parsed_s = parse_time_s(str(value))
    if parsed_s is None:
        raise invalid_value(key, value, 'seconds, or a time such as "30s" or "500ms"')
    return parsed_s


def warm_up(key: str, value: WarmUpValue) -> WarmUp:
    """Parse a number of requests such as `6000`, or a time such as `"2s"`."""
    return WarmUp(time_s=time_s(key, value)) if isinstance(value, str) else WarmUp(requests=value or None)


def command_words(key: str, command: str, allowed: Collection[str] | None = None) -> tuple[str, ...]:
    """Split a command into words, as a shell does; raise BadInputError for placeholders that are not allowed."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise BadInputError(
            f"{key} = {shown(command)} can't be split into words ({error}): close every quotation mark, and "
            "don't end with a backslash"
        ) from None
    if words and not words[0]:
        raise invalid_value(key, command, "a program and its arguments")
    for name in placeholders(*words):
        if allowed is not None and name not in allowed:
            raise BadInputError(
                f"{key} = {shown(command)} has the placeholder {{{name}}}: expected one of {', '.join(allowed)}"
            )
    return words


def is_path(text: str) -> bool:
    """Return whether the text is a path that every load tool sends unchanged."""
    return re.search(_URL_PATH, text) is not None


def address(text: str) -> SplitResult | None:
    """Return the parts of an HTTP URL, or None for any other text, including a URL with a user or a fragment."""
    try:
        parts = urlsplit(text)
        has_valid_port = parts.port != 0
    except ValueError:  # an invalid port, or unpaired brackets
        return None
    match = re.fullmatch(r"http://[\w.:\[\]-]+(/[^\s#]*|\?[^\s#]*)?", text, re.ASCII)
    if match is None or not parts.hostname or not has_valid_port or parts.netloc.endswith(":"):
        return None
    return parts if is_path(path_of(parts)) else None


def path_of(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def ping_path(key: str, text: str) -> str:
    """Return the path; raise BadInputError if it is invalid or has placeholders."""
    if not is_path(text):
        raise invalid_value(key, text, PATH)
    if names := placeholders(text):
        raise BadInputError(
            f"{key} = {shown(text)} has {{{names[0]}}}: expected the same path for all cases, without placeholders"
        )
    return text
