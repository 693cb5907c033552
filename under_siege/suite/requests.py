"""Read the tables [load], [expect] and [ping] of a suite file: the requests, and the correct responses."""

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from common.errors import BadInputError
from under_siege.formatting import legible, listed
from under_siege.load.body_rule import BYTES, FIELDS, JSON, PATTERN, SAME, BodyRule, as_json, keys_of, path_text
from under_siege.load.fresh_values import names_in, sample
from under_siege.load.request import (
    DEFAULT_TOOL,
    FORM,
    GET,
    RANDOM,
    STREAMS,
    Expect,
    Load,
    MixedRequest,
    Ping,
    Request,
    SetupRequest,
    Stream,
    WarmUp,
    filled,
    parse_pause,
    parse_rate_per_s,
    parse_time_s,
    placeholders,
)
from under_siege.load.streams import pattern_of
from under_siege.record.case import ARRIVALS, PAUSE, Value
from under_siege.record.files import read_limited
from under_siege.secrets import expanded, expanded_file, expanded_header, expanded_json, expanded_path, masked
from under_siege.suite.form import FormField, multipart
from under_siege.suite.keys import (
    METHOD,
    PATH,
    TIME,
    ExpectTable,
    LoadTable,
    MixedRequestTable,
    PingTable,
    RequestTable,
    SetupTable,
    SuiteTable,
    WarmUpValue,
    converted,
    invalid_value,
    is_path,
    shown,
)
from under_siege.suite.suite import SERVICES

MAX_BODY_BYTES = 64_000_000
MOST_REQUESTS = 1000  # in a requests file
# A form such as `user=ann&age=7`, which the body of a login often is. Its values may contain placeholders.
_FORM = re.compile(r"[\w.\[\]%+-]+=[^&=\s]*(?:&[\w.\[\]%+-]+=[^&=\s]*)*", re.ASCII)
_TOOL_HEADERS = ("connection", "content-length", "transfer-encoding")
_LONGEST_PATH = 200  # maximum length, in characters, of a path to a value in JSON
Axes = Mapping[str, Sequence[Value]]


@contextlib.contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{prefix}: {error}") from None


def contents(key: str, path: Path) -> bytes:
    """Return the contents of a file; raise BadInputError if it can't be read."""
    try:
        return read_limited(path, most_bytes=MAX_BODY_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{key} = {str(path)!r} can't be read: {reason}") from None


def check_placeholders(key: str, words: Sequence[str], allowed: Collection[str]) -> None:
    for name in placeholders(*words):
        if name not in allowed:
            raise BadInputError(
                f"{key} = {shown(' '.join(words))} has the placeholder {{{name}}}: expected one of {', '.join(allowed)}"
            )


def distinct(value: object) -> list[Any]:
    """Return the distinct values of an axis, from a list or a single value."""
    values = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(str(item) if isinstance(item, float) else item for item in values))


def load_of(top: SuiteTable, expect: Expect, folder: Path) -> Load:
    table = top.load
    for key in ("files", "requests_file"):
        if getattr(table, key) and top.ping is None:
            raise BadInputError(
                f"load.{key} needs a ping that shows when a server is ready: expected a path under [ping]"
            )
    request = _request(table, folder, "load")
    replaced = next((key for key in ("requests_file", "files", "script") if getattr(table, key)), "")
    if replaced and (
        request != (replace(GET, headers=request.headers) if replaced == "requests_file" else GET)
        or (replaced == "requests_file" and (table.path != "/" or table.files or table.task))
    ):
        others = "path, task, files, " if replaced == "requests_file" else "headers, "
        raise BadInputError(
            f"load.{replaced} replaces the request: remove {others}method, body, body_file, form and content_type"
        )
    if expect.events is not None and table.stream is None:
        raise BadInputError('expect.events needs a stream: set stream = "sse", "lines" or "chunks" under [load]')
    return Load(
        tool=table.tool or DEFAULT_TOOL,
        is_tool_given=table.tool is not None,
        request=request,
        time_s=float(table.time) if table.time else None,
        requests=table.requests,
        keep_alive=distinct(table.keep_alive)[0],
        threads=table.locust_workers or table.threads or 1,
        options=tuple(table.options),
        own_network=bool(table.own_network),
        ports=None if isinstance(table.own_network, bool) else table.own_network,
        warm_up=warm_up("load.warm_up", table.warm_up),
        files=table.files,
        setup=setup_of([*table.setup], folder),
        mix=_mix(table.requests_file, folder, expect, request.headers) if table.requests_file else (),
        has_random_order=table.order == RANDOM,
        stream=stream_of(table.stream, table.events, table.first, "load."),
        script=contents("load.script", folder / table.script).decode(errors="replace") if table.script else "",
    )


def setup_of(tables: Sequence[SetupTable], folder: Path) -> tuple[SetupRequest, ...]:
    """Return the requests of each user before the load."""
    setup = []
    for number, one in enumerate(tables):
        key = f"load.setup[{number}]"
        setup.append(SetupRequest(expanded_path(one.path, f"{key}.path"), _request(one, folder, key), one.status))
    return tuple(setup)


def setup_table(text: str) -> dict[str, Any]:
    """Return the table of a request such as `POST /login {"user": "ann"}`; raise BadInputError if it is invalid."""
    method, _, rest = text.strip().partition(" ")
    path, _, body = rest.strip().partition(" ")
    body, value = body.strip(), as_json(body.strip().encode(errors="replace"))
    if not re.fullmatch(METHOD, method) or not is_path(path):
        raise BadInputError(
            f"--setup {shown(masked(text))}: expected a method, a path and perhaps a body, such as "
            'POST /login {"user": "ann"} or POST /login user=ann'
        )
    sent = {"body": value if isinstance(value, dict | list) else body} if body else {}
    return {"method": method, "path": path, **sent}


def pace_values(name: str, values: Sequence[Value | float], key: str) -> tuple[str, ...]:
    """Return the values of the axis `pause` or `arrivals` as text; raise BadInputError if one is invalid.

    Args:
        key: where the user wrote the value, such as `--pause`.
    """
    texts = tuple(dict.fromkeys(" ".join(str(value).split()) for value in values))
    for text in texts:
        if name == PAUSE and parse_pause(text) is None:
            raise BadInputError(f"{key} {shown(text)}: expected a pause such as 1s, 0.5s-2s or exponential 1s")
        if name == ARRIVALS and parse_rate_per_s(text) is None:
            raise BadInputError(f"{key} {shown(text)}: expected a rate such as 20/s or 90/min, up to 10,000/s")
    return texts


def check_path(path: str, load: LoadTable, axes: Axes) -> None:
    """Raise BadInputError for an invalid placeholder, or a variable that is not set, in a path of the load."""
    expanded_path(path, "load.path")
    if ("file" in placeholders(path)) != bool(load.files):
        raise invalid_value("load.path", path, "{file} in the path if load.files is set, and only then")
    for name in placeholders(path):
        if name not in ("file", *axes, *names_in(path, has_setup=bool(load.setup))):
            raise invalid_value("load.path", path, f"{{{name}}} to be an axis: one of {', '.join(axes)}")
        for value in axes.get(name, ()):
            if name != "task" and not is_path(filled_path := filled(path, {name: value})):
                raise BadInputError(f"load.path = {shown(filled_path)} where {name} is {shown(value)}: expected {PATH}")


def stream_of(kind: str | None, limit: int | str | None, first: str | None, prefix: str) -> Stream | None:
    """Return how to read a stream, or None for whole responses; raise BadInputError for an invalid value.

    Args:
        limit: the number of events or the time after which it is closed.
        first: which events count, as a path of a value in JSON, or as a pattern such as `/token/`.
        prefix: of the names of these values in errors.
    """
    if kind is None:
        if option := next((name for name, value in (("events", limit), ("first", first)) if value is not None), ""):
            raise BadInputError(f"{prefix}{option} needs {prefix}stream: {listed(STREAMS, word='or')}")
        return None
    text = () if first is None else (_place(first, f"{prefix}first"),)
    if limit is not None and str(limit).isdecimal() and int(limit) < 1:
        raise invalid_value(f"{prefix}events", limit, "at least 1 event")
    if limit is None or isinstance(limit, int) or limit.isdecimal():
        return Stream(kind, None if limit is None else int(limit), text=text)
    if (time_s := parse_time_s(limit)) is None:
        raise invalid_value(f"{prefix}events", limit, f"a number of events, or {TIME}")
    return Stream(kind, time_s=time_s, text=text)


def _place(text: str, key: str) -> str:
    """Return the path or the pattern that says which events count; raise BadInputError for other text."""
    try:
        re.compile(pattern_of(text))
    except re.error as error:
        raise invalid_value(key, text, f"a regular expression between slashes ({error})") from None
    if not pattern_of(text):
        json_path(key, text, "choices.0.delta.content, or a regular expression between slashes, such as /token/")
    return text


def warm_up(key: str, value: WarmUpValue) -> WarmUp:
    """Return the warm-up for a number of requests such as `6000`, or for a time such as `"2s"`."""
    if isinstance(value, int):
        return WarmUp(requests=value or None)
    if (time_s := parse_time_s(value)) is None:
        raise invalid_value(key, value, TIME)
    return WarmUp(time_s=time_s)


def _mix(name: str, folder: Path, expect: Expect, headers: tuple[tuple[str, str], ...]) -> tuple[MixedRequest, ...]:
    """Return the requests in a requests file (JSON Lines).

    `expect` and `headers` apply to lines without their own values.
    """
    text = contents("load.requests_file", folder / name)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 1 <= len(lines) <= MOST_REQUESTS:
        raise BadInputError(
            f"load.requests_file has {len(lines):,} requests: expected 1 to {MOST_REQUESTS:,}, one on each line"
        )
    mix = []
    for number, line in lines:
        with prefixed(f"{name}, line {number}"):
            if not isinstance(data := as_json(line), dict):
                raise BadInputError('expected a JSON object such as {"path": "/report", "weight": 3}')
            row = converted(data, MixedRequestTable, "request")
            rule, answer = (expect.rule, None) if row.expected is None else _expected_body(row.expected)
            status = row.status or expect.status
            request = _request(row, folder, "request")
            own = {name.lower() for name, _ in request.headers}
            shared = tuple((header, value) for header, value in headers if header.lower() not in own)
            request = replace(request, headers=(*shared, *request.headers))
            path = expanded_path(row.path, "request.path")
            mix.append(MixedRequest(path, request, row.weight, status, rule, answer))
    return tuple(mix)


def _expected_body(expected: Any) -> tuple[BodyRule, bytes]:
    """Return the rule for comparing bodies with the expected body, and the expected body as bytes."""
    if isinstance(expected, str):
        return BYTES, expected.encode()
    fields = tuple(_fields(expected, path_text)) if isinstance(expected, dict) else ()
    return BodyRule(FIELDS, fields) if fields else BodyRule(JSON), json.dumps(expected).encode()


def _request(table: RequestTable, folder: Path, key: str) -> Request:
    """Return the request; its default content type is JSON if the body is a table or list, or JSON text of one."""
    body, content_type = b"", table.content_type
    if table.form is not None:
        fields = [_field(name, value, folder, f"{key}.form") for name, value in table.form.items()]
        content_type, body = multipart(fields)
    elif table.body_file is not None:
        body = expanded_file(contents(f"{key}.body_file", folder / table.body_file), f"{key}.body_file")
    elif isinstance(table.body, str) and _is_form(table):
        content_type = content_type or FORM
        body = expanded(table.body, f"{key}.body", quote_plus).encode()
    elif table.body is not None:
        value = expanded_json(table.body, f"{key}.body")
        body = (value if isinstance(value, str) else _json(f"{key}.body", value)).encode()
    is_json = isinstance(as_json(sample(body)), dict | list)
    if is_json:
        body = body.strip()  # removes, for example, the last line break of a file, which siege doesn't send
    method = table.method or ("POST" if body else GET.method)
    if body and method == GET.method:
        raise BadInputError(f'{key}.body: a GET has no body: expected method = "POST", "PUT", "PATCH" or "DELETE"')
    headers = headers_of(table.headers, f"{key}.headers")
    if (content_type or body) and not any(name.lower() == "content-type" for name, _ in headers):
        default = "application/json" if is_json else "application/octet-stream"
        headers = (*headers, _header("Content-Type", content_type or default, f"{key}.content_type"))
    return Request(method, headers, body)


def _is_form(table: RequestTable) -> bool:
    """Return whether the body is that of a form, unless the suite gives it another content type."""
    given = [
        table.content_type,
        *(str(value) for name, value in table.headers.items() if name.lower() == "content-type"),
    ]
    is_other = any(value and not value.startswith(FORM) for value in given)
    return not is_other and isinstance(table.body, str) and _FORM.fullmatch(table.body) is not None


def _field(name: str, value: str | int, folder: Path, key: str) -> FormField:
    """Return a field of a form: the contents of the file in `@FILE`, or text; `@@` stands for `@`."""
    key = f"{key}.{legible(name)[:60]}"
    text = str(value)
    if text.startswith("@") and not text.startswith("@@"):
        path = folder / text[1:]
        return FormField(name, contents(key, path), path.name)
    return FormField(name, str(expanded_json(text.removeprefix("@") if text.startswith("@@") else text, key)).encode())


def headers_of(table: Mapping[str, str | int], key: str) -> tuple[tuple[str, str], ...]:
    """Return the headers with the values of environment variables; raise BadInputError for an invalid header."""
    return tuple(_header(name, str(value), f"{key}.{legible(name)[:60]}") for name, value in table.items())


def _header(name: str, value: str, key: str) -> tuple[str, str]:
    if name.lower() in _TOOL_HEADERS:
        raise BadInputError(f"{key}: set by the load tool; remove it, or use load.keep_alive")
    if not name.isascii():
        raise invalid_value(key, value, "ASCII characters only")
    return name, expanded_header(name, value, key)


def _json(key: str, value: object) -> str:
    try:
        return json.dumps(value)
    except TypeError:  # a date or a time
        raise invalid_value(key, value, "values that JSON supports; put dates and times in quotes") from None


def headers_of_pings(
    headers: Sequence[tuple[str, str]], setup: Sequence[SetupRequest] = ()
) -> tuple[tuple[str, str], ...]:
    """Return those headers of the load that pings have, too: they have no body, and no values of a user."""
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() != "content-type" and not names_in(value, has_setup=bool(setup))
    )


def expect_of(table: ExpectTable, folder: Path, axes: Axes) -> Expect:
    check_placeholders(
        "expect.check", table.check, ("url", "answers", "bytes", "folder", "suite", "python", *SERVICES, *axes)
    )
    reference = contents("expect.file", folder / table.file) if table.file else None
    return Expect(table.status, _body_rule(table), reference, table.check, table.events)


def _body_rule(table: ExpectTable) -> BodyRule:
    """Return the rule for comparing bodies."""
    body = table.body
    ways = {"json": table.json, "pattern": table.pattern, "ignore": table.ignore, f'body = "{body}"': body != SAME}
    given = [key for key, is_set in ways.items() if is_set]
    if len(given) > 1 and given != ["ignore", 'body = "json"']:
        raise BadInputError(f"expect.{given[0]} and expect.{given[1]} can't be combined; use only one of them")
    if table.file and given and given[0] in ("json", "pattern"):
        raise BadInputError(f"expect.file and expect.{given[0]} can't be combined; use only one of them")
    fields = tuple(_fields(table.json, ".".join))  # a name may be a path
    for key, paths in (("json", [path for path, _ in fields]), ("ignore", table.ignore)):
        for path in paths:
            json_path(f"expect.{key}", path)
    if table.pattern is not None:
        try:
            re.compile(table.pattern)
        except re.error as error:
            raise invalid_value("expect.pattern", table.pattern, f"a regular expression ({error})") from None
        return BodyRule(PATTERN, pattern=table.pattern)
    if fields:
        return BodyRule(FIELDS, fields, tuple(table.ignore))
    return BodyRule(JSON if table.ignore else body, ignored=tuple(table.ignore))


def json_path(key: str, path: str, example: str = 'items.0.id, items.*.id or ["a.b"]') -> tuple[str, ...]:
    """Return the steps of a path to a value in JSON; raise BadInputError for other text."""
    try:
        if len(path) <= _LONGEST_PATH:
            return keys_of(path)
    except ValueError:
        pass
    raise invalid_value(key, path, f"a path such as {example}")


def _fields(
    table: Mapping[str, Any], text_of: Callable[[Sequence[str]], str], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field, including the fields of nested tables.

    Args:
        text_of: joins the names to a path.
    """
    for name, value in table.items():
        names = (*above, name)
        if isinstance(value, dict) and value:
            yield from _fields(value, text_of, names)
        else:
            _json(f"expect.json.{'.'.join(names)}", value)
            yield text_of(names), value


def ping_of(table: PingTable, load: Load) -> Ping:
    """Return the health check; unless it has its own headers, it is sent with those of the load."""
    kept = headers_of_pings(load.request.headers, load.setup)
    headers = kept if table.headers is None else headers_of(table.headers, "ping.headers")
    return Ping(expanded_path(table.path, "ping.path"), headers=headers, every_s=float(table.every))
