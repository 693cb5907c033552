"""Define the keys of a suite file and the types of their values, with a one-line error for each invalid value."""

import ast
import difflib
import re
import shlex
from collections.abc import Collection
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.load import DRIVERS
from under_siege.load.request import DEFAULT_TOOL, OPEN, PING_INTERVAL_S, RANDOM, STREAMS, parse_time_s
from under_siege.secrets import expanded_path
from under_siege.suite.suite import DRAIN_LIMIT_S

# The characters that RFC 3986 allows, plus brackets, which all tools send unchanged, and braces for placeholders. Tools
# differ in how they send other characters, and some tools resolve `.` and `..`.
_PATH = r"(?a)\A(?![^?]*/\.\.?(?:[/?]|\Z))/[\w/?%.~!$&'()*+,;=:@\[\]{}-]*\Z"
_FIXED_PATH = _PATH.replace(r"\A", r"\A(?!.*(?<!\$)\{[a-z])")
_TEXT, _VALUE, _HEADER = r"\A[^\0]*[^\s\0][^\0]*\Z", r"\A[^\0]*\Z", r"\A[^\0\r\n]*\Z"
_VARIABLE, _SERVER = r"\A[^\s=:\x00-\x1f]+\Z", r"\A[\w.+-]{1,60}\Z"
METHOD = r"\A(?:GET|POST|PUT|PATCH|DELETE)\Z"
PATH = "a path that begins with /, without /../, and with special characters encoded, such as %20 or %C3%A9"
FIXED_PATH = f"{PATH}, and without placeholders"
TIME = 'seconds, or a time such as "30s" or "500ms"'
_EXPECTED = {  # what is expected of text that does not match a pattern
    _PATH: PATH,
    _FIXED_PATH: FIXED_PATH,
    _TEXT: "a string with visible characters",
    _VALUE: "a string without NUL characters",
    _HEADER: "a string without line breaks and NUL characters",
    _VARIABLE: "names that contain no space, '=' or ':'",
    _SERVER: "names of up to 60 characters: letters, digits, or any of _ . + -",
}
_TOML_TERMS = {  # replacements for msgspec's terms in error messages
    " | null": "",
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


class Seconds(float):
    """A time in seconds, written as `30`, `"30s"`, `"500ms"`, `"2m"` or `"1h"`."""


class LoadSeconds(Seconds):
    """A time in seconds, or 0 for `"auto"`."""


class Command(tuple[str, ...]):
    """The words of a command, split as in a shell."""

    __slots__ = ()


RequestCount = Annotated[int, Meta(ge=1, le=10_000_000)]
UserCount = Annotated[int, Meta(ge=1, le=10_000)]
ThreadCount = Annotated[int, Meta(ge=1, le=64)]
WarmUpValue = Annotated[int, Meta(ge=0, le=10_000_000)] | str
Status = Annotated[int, Meta(ge=100, le=599)]
Text = Annotated[str, Meta(pattern=_TEXT)]
PathText = Annotated[str, Meta(pattern=_PATH)]
FixedPath = Annotated[str, Meta(pattern=_FIXED_PATH)]
Variable = Annotated[str, Meta(pattern=_VARIABLE)]
Environment = dict[Variable, Annotated[str, Meta(pattern=_VALUE)] | int]
Headers = dict[Variable, Annotated[str, Meta(pattern=_HEADER)] | int]
AxisValue = Text | int | float
AxisValues = AxisValue | Annotated[list[AxisValue], Meta(min_length=1)]
Method = Annotated[str, Meta(pattern=METHOD)]
Tool = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join((*DRIVERS, OPEN))})\Z")]
Order = Annotated[str, Meta(pattern=r"\A(?:random|file)\Z")]
StreamKind = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(STREAMS)})\Z")]
EventLimit = Annotated[int, Meta(ge=1, le=10_000_000)] | str  # events or a time, after which a stream is closed
BodyMode = Annotated[str, Meta(pattern=r"\A(?:same|json|any)\Z")]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


TableT = TypeVar("TableT", bound=_Table)


class RequestTable(_Table, frozen=True):
    method: Method | None = None
    headers: Headers = {}
    body: str | list[Any] | dict[str, Any] | None = None  # lists and tables are sent as JSON
    body_file: Text | None = None
    content_type: Text | None = None
    form: Annotated[dict[Text, str | int], Meta(min_length=1)] | None = None  # a value such as `@a.bin` names a file

    def __post_init__(self) -> None:
        if self.form is not None and not (self.body is self.body_file is self.content_type is None):
            raise ValueError("form is the body and sets its content type; remove body, body_file and content_type")
        if self.body is not None and self.body_file is not None:
            raise ValueError("body and body_file can't be combined; use only one of them")


class MixedRequestTable(RequestTable, frozen=True, kw_only=True):
    """A line of a requests file."""

    path: PathText
    weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    status: Status | None = None
    expected: Any = None  # expected body: a string, or other JSON


class SetupTable(RequestTable, frozen=True, kw_only=True):
    """A request of each user before the load."""

    path: PathText
    status: Status | None = None


class LoadTable(RequestTable, frozen=True):
    tool: Tool | None = None
    path: PathText | Annotated[list[PathText], Meta(min_length=1)] = "/"
    requests_file: Text | None = None
    order: Order = RANDOM
    files: Text = ""
    script: Text | None = None
    users: UserCount | Annotated[list[UserCount], Meta(min_length=1)] | None = None
    pause: AxisValues | None = None
    arrivals: AxisValues | None = None
    stream: StreamKind | None = None
    events: EventLimit | None = None
    first: Text | None = None
    time: LoadSeconds | None = None
    requests: RequestCount | None = None
    warm_up: WarmUpValue = 0
    keep_alive: bool | Annotated[list[bool], Meta(min_length=1)] = False
    threads: ThreadCount | None = None
    options: list[Text] = []
    own_network: bool | Annotated[int, Meta(ge=100, le=28_000)] = False  # an integer is the number of local ports
    task: Text | Annotated[list[Text], Meta(min_length=1)] | None = None
    locust_workers: ThreadCount | None = None
    setup: list[SetupTable] = []

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.requests is not None and self.time is not None:
            raise ValueError("time and requests can't be combined; use only one of them")
        if self.arrivals is not None and (self.users or self.pause or self.requests):
            raise ValueError("arrivals replaces users, pause and requests; remove these")
        if self.stream is not None and (self.files or self.script or self.task):
            raise ValueError("stream can't be combined with files, script or task")
        driver = DRIVERS.get(self.tool or "")
        if self.files and not (driver and driver.supports_multiple_paths):
            tool = self.tool or DEFAULT_TOOL
            raise ValueError(f'files is set, but {tool} requests only one path: expected tool = "wrk"')
        if self.locust_workers and (self.tool != "locust" or self.threads):
            raise ValueError('locust_workers needs tool = "locust", and can\'t be combined with threads')


class ExpectTable(_Table, frozen=True):
    status: Status = 200
    body: BodyMode = "same"
    json: dict[str, Any] = {}  # expected values, by path
    ignore: list[Text] = []
    pattern: Text | None = None
    file: Text | None = None
    check: Command = Command()
    events: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None


class PingTable(_Table, frozen=True):
    path: FixedPath = "/ping"
    headers: Headers | None = None  # None: the headers of the load
    every: Seconds = Seconds(PING_INTERVAL_S)
    ready_within: Seconds | None = None


class DrainTable(_Table, frozen=True):
    path: FixedPath | None = None
    json: Text | None = None
    limit: Seconds = Seconds(DRAIN_LIMIT_S)

    def __post_init__(self) -> None:
        if (self.path is None) != (self.json is None):
            example = 'for example path = "/metrics" and json = "pending"'
            raise ValueError(f"path and json must be set together, {example}")


class LimitsTable(_Table, frozen=True):
    cpus: AxisValues | None = None
    memory: AxisValues | None = None


class QuickTable(_Table, frozen=True):
    load: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    servers: list[str] = []


class ServerTable(_Table, frozen=True):
    title: Text = ""
    command: Command = Command()
    url: Text = ""
    path: FixedPath = ""
    requirements: list[Text] = []
    additions: list[Text] = []
    environment: Environment = {}
    needs: list[Text] = []
    ceiling: bool = False
    ready_within: Seconds | None = None
    warm_up: WarmUpValue | None = None
    prepare: Command = Command()
    reload: Command = Command()
    headers: Headers = {}

    def __post_init__(self) -> None:
        if not self.url and not self.command:
            raise ValueError('expected a url, or a command such as "uvicorn app:app --port {port}"')
        if self.reload and not self.command:
            raise ValueError("reload needs a command, because drill reloads only servers that it starts")
        if self.path and self.ceiling:
            raise ValueError(
                "a ceiling gets the same requests as the server that it is compared with; remove path or ceiling"
            )


class SuiteTable(_Table, frozen=True):
    """A whole suite file."""

    title: Text = ""
    folder: Text = "."
    requirements: list[Text] = []
    additions: list[Text] = []
    python: Text = ""
    environment: Environment = {}
    keep_environment: bool = True
    prepare: Command = Command()
    load: LoadTable = LoadTable()
    expect: ExpectTable = ExpectTable()
    ping: PingTable | None = None
    drain: DrainTable = DrainTable()
    axes: dict[str, AxisValues] = {}
    limits: LimitsTable = LimitsTable()
    require: dict[str, list[Text]] = {}
    servers: dict[Annotated[str, Meta(pattern=_SERVER)], ServerTable] = {}
    quick: QuickTable | None = None


_TABLES = {
    "load": LoadTable,
    "expect": ExpectTable,
    "ping": PingTable,
    "drain": DrainTable,
    "limits": LimitsTable,
    "servers": ServerTable,
    "quick": QuickTable,
}


def converted(data: dict[str, Any], to: type[TableT], root: str = "") -> TableT:
    """Return parsed TOML or JSON as a typed table.

    Args:
        root: the key of `data`, with which error messages begin.

    Raises:
        BadInputError: a key is unknown, or a value is invalid.
    """
    try:
        return msgspec.convert(data, to, dec_hook=_custom)
    except msgspec.ValidationError as error:
        raise _explained(str(error), data, to, root) from None


def _custom(kind: type, value: Any) -> Any:
    """Convert a value to a type that msgspec does not support; the ValueError names what is expected."""
    if kind is Command:
        return _words(value)
    if kind is LoadSeconds and value == "auto":
        return LoadSeconds()
    time_s = parse_time_s(str(value))
    if time_s is None:
        raise ValueError(f"Expected {TIME}")
    return kind(time_s)


def _words(value: Any) -> Command:
    if not isinstance(value, str) or not re.search(_TEXT, value):
        raise ValueError(f"Expected {_EXPECTED[_TEXT]}")
    try:
        words = Command(shlex.split(value))
    except ValueError as error:
        raise ValueError(
            f"Expected words as in a shell ({error}): close every quotation mark, and don't end with a backslash"
        ) from None
    if not words or not words[0]:
        raise ValueError("Expected a program and its arguments")
    return words


def _explained(message: str, data: dict[str, Any], to: type[_Table], root: str) -> BadInputError:
    """Convert an error of msgspec to an error that shows the key and its value."""
    problem, _, place = message.partition(" - at ")
    path, value = _located(place, data, to)
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{legible(part)[:60]}" for part in (root, *path))
    key = key.lstrip(".")
    if unknown := re.search("unknown field `(.*)`", problem, re.DOTALL):
        table = SetupTable if path[:2] == ["load", "setup"] else _TABLES[str(path[0])] if path else to
        return unknown_key(key, unknown[1], table.__struct_fields__)
    if missing := re.search("missing required field `(.*)`", problem):
        return BadInputError(f"{key}.{missing[1]} is missing".lstrip("."))
    if pattern := re.search("matching regex (.*)", problem):
        return invalid_value(key, value, _description(ast.literal_eval(pattern[1])))
    if not problem.startswith("Expected "):
        return BadInputError(f"{key}: {problem}".removeprefix(": "))
    expected = problem.removeprefix("Expected ").partition(", got ")[0]
    if "`" in expected:
        for theirs, ours in _TOML_TERMS.items():
            expected = expected.replace(theirs, ours)
    return invalid_value(key, value, expected)


def _description(pattern: str) -> str:
    """Describe the text that matches a pattern, which may be a list of choices."""
    choices = pattern.removeprefix(r"\A(?:").removesuffix(r")\Z").replace("|", ", ")
    return _EXPECTED.get(pattern, f"one of {choices}")


def _located(place: str, data: dict[str, Any], to: type[_Table]) -> tuple[list[str | int], Any]:
    """Return the path of an invalid value, and the value; msgspec writes `[...]` instead of the names in a dict."""
    path: list[str | int] = []
    value: Any = data
    for field, index, any_key in re.findall(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])", place):
        if any_key:
            field = next(name for name, item in value.items() if not _is_valid([*path, name], item, to))
        part = int(index) if index else field
        path.append(part)
        value = value[part]
    return path, value


def _is_valid(path: list[Any], value: Any, to: type[_Table]) -> bool:
    for name in reversed(path):
        value = {name: value}
    try:
        msgspec.convert(value, to, dec_hook=_custom)
    except msgspec.ValidationError:
        return False
    return True


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


def is_path(text: str) -> bool:
    """Return whether the text is a path that every load tool sends unchanged."""
    return re.search(_PATH, text) is not None


def ping_path(key: str, text: str) -> str:
    """Return the expanded path; raise BadInputError if it is invalid, has placeholders, or a variable is not set."""
    if not re.search(_FIXED_PATH, text):
        raise invalid_value(key, text, FIXED_PATH)
    return expanded_path(text, key)


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
