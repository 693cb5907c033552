"""Read the tables [load] and [expect] of a suite file: the request, and the rule for correct bodies."""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.load.body_rule import ANY, BYTES, FIELDS, JSON, PATTERN, SAME, BodyRule, as_json
from under_siege.load.request import GET, Backlog, Expect, MixedRequest, Ping, Request, filled, placeholders
from under_siege.record.case import Value
from under_siege.record.files import read_limited
from under_siege.record.secrets import expanded_file, expanded_header, expanded_json
from under_siege.suite.keys import (
    PATH,
    DrainTable,
    ExpectTable,
    LoadTable,
    PingTable,
    RequestTable,
    ServerTable,
    choice,
    command_words,
    invalid_value,
    is_path,
    mixed_request_table,
    ping_path,
    shown,
)
from under_siege.suite.suite import SERVICES

MAX_BODY_BYTES = 64_000_000
_TOOL_HEADERS = ("connection", "content-length", "transfer-encoding", "accept-encoding")
MOST_REQUESTS = 1000
_LONGEST_PATH = 200  # maximum length, in characters, of a path to a value in JSON


def contents(key: str, path: Path) -> bytes:
    """Return the contents of a file; raise BadInputError if it can't be read."""
    try:
        return read_limited(path, most_bytes=MAX_BODY_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{key} = {str(path)!r} can't be read: {reason}") from None


@contextlib.contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{prefix}: {error}") from None


def check_path(path: str, load: LoadTable, axes: Mapping[str, Sequence[Value]]) -> None:
    """Raise BadInputError if a path of the load is invalid."""
    if not is_path(path):
        raise invalid_value("load.path", path, PATH)
    if ("file" in placeholders(path)) != bool(load.files):
        raise invalid_value("load.path", path, "{file} in the path if load.files is set, and only then")
    for name in placeholders(path):
        if name not in ("file", *axes):
            raise invalid_value("load.path", path, f"{{{name}}} to be an axis: one of {', '.join(axes)}")
        for value in axes.get(name, ()):
            if name != "task" and not is_path(filled_path := filled(path, {name: value})):
                raise BadInputError(f"load.path = {shown(filled_path)} where {name} is {shown(value)}: expected {PATH}")


def check_server_path(key: str, table: ServerTable, load: LoadTable) -> None:
    """Raise BadInputError if the path of a server is invalid, conflicts with the load, or belongs to the ceiling."""
    if not is_path(table.path):
        raise invalid_value(key, table.path, PATH)
    if placeholders(table.path):
        raise invalid_value(key, table.path, "a path without placeholders; load.path may have them")
    if isinstance(load.path, list) or load.files or load.requests_file:
        other = "files" if load.files else "a file of requests" if load.requests_file else "several paths"
        raise BadInputError(f"{key} can't be combined with {other} under [load]; remove one of them")
    if table.ceiling:
        raise BadInputError(
            f"{key}: a ceiling gets the same requests as the server that it is compared with; remove path"
        )


def mix_of(table: LoadTable, folder: Path, status: int, rule: BodyRule) -> tuple[MixedRequest, ...]:
    """Return the requests in `load.requests_file` (JSON Lines), or an empty tuple if this key is not set.

    Args:
        status: the expected status for lines that don't set one.
        rule: how to compare bodies for lines that don't set the expected body.
    """
    if not table.requests_file:
        return ()
    text = contents("load.requests_file", folder / table.requests_file)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 1 <= len(lines) <= MOST_REQUESTS:
        raise BadInputError(
            f"load.requests_file has {len(lines):,} requests: expected 1 to {MOST_REQUESTS:,}, one on each line"
        )
    mix = []
    for number, line in lines:
        with prefixed(f"{table.requests_file}, line {number}"):
            if not isinstance(data := as_json(line), dict):
                raise BadInputError('expected a JSON object such as {"path": "/report", "weight": 3}')
            row = mixed_request_table(data)
            request = request_of(row, folder, "request")
            answered = (rule, None) if row.expected is None else _answered(row.expected)
            mix.append(MixedRequest(row.path, request, row.weight, row.status or status, *answered))
    return tuple(mix)


def _answered(expected: Any) -> tuple[BodyRule, bytes]:
    """Return the rule for comparing bodies with the expected body, and the expected body as bytes."""
    if isinstance(expected, str):
        return BYTES, expected.encode()
    fields = tuple(_fields(expected)) if isinstance(expected, dict) else ()
    return BodyRule(FIELDS, fields) if fields else BodyRule(JSON), json.dumps(expected).encode()


def request_of(table: RequestTable, folder: Path, key: str = "load") -> Request:
    """Return the request; its default content type is JSON if the body is a table or list, or JSON text of one."""
    if table.body is not None and table.body_file is not None:
        raise BadInputError(f"{key}.body and {key}.body_file can't be combined; use only one of them")
    body = b""
    if table.body_file is not None:
        body = expanded_file(contents(f"{key}.body_file", folder / table.body_file), f"{key}.body_file")
    elif table.body is not None:
        value = expanded_json(table.body, f"{key}.body")
        body = (value if isinstance(value, str) else _json(f"{key}.body", value)).encode()
    is_json = isinstance(as_json(body), dict | list)
    if is_json:
        body = body.strip()  # removes, for example, the last line break of a file, which siege doesn't send
    method = table.method or ("POST" if body else GET.method)
    if body and method == GET.method:
        raise BadInputError(f'{key}.body: a GET has no body: expected method = "POST", "PUT", "PATCH" or "DELETE"')
    headers = headers_of(table.headers, f"{key}.headers")
    if (table.content_type or body) and not any(name.lower() == "content-type" for name, _ in headers):
        default = "application/json" if is_json else "application/octet-stream"
        headers = (*headers, _header("Content-Type", table.content_type or default, f"{key}.content_type"))
    return Request(method, headers, body)


def headers_of(table: Mapping[str, str | int], key: str) -> tuple[tuple[str, str], ...]:
    """Return the headers with the values of environment variables; raise BadInputError for an invalid header."""
    return tuple(_header(name, str(value), f"{key}.{legible(name)[:60]}") for name, value in table.items())


def ping_of(table: PingTable, request: Request) -> Ping:
    """Return the health check; unless it has its own headers, it is sent with those of the load."""
    kept = tuple((name, value) for name, value in request.headers if name.lower() != "content-type")
    headers = kept if table.headers is None else headers_of(table.headers, "ping.headers")
    return Ping(ping_path("ping.path", table.path), headers=headers)


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


def body_rule(table: ExpectTable) -> BodyRule:
    """Return the rule for comparing bodies."""
    body = choice("expect.body", table.body, (SAME, JSON, ANY))
    ways = {"json": table.json, "pattern": table.pattern, "ignore": table.ignore, f'body = "{body}"': body != SAME}
    given = [key for key, is_set in ways.items() if is_set]
    if len(given) > 1 and given != ["ignore", 'body = "json"']:
        raise BadInputError(f"expect.{given[0]} and expect.{given[1]} can't be combined; use only one of them")
    if table.file and given and given[0] in ("json", "pattern"):
        raise BadInputError(f"expect.file and expect.{given[0]} can't be combined; use only one of them")
    fields = tuple(_fields(table.json))
    for key, paths in (("json", [path for path, _ in fields]), ("ignore", table.ignore)):
        for path in paths:
            if not all(path.split(".")) or len(path) > _LONGEST_PATH:
                raise invalid_value(f"expect.{key}", path, "a path such as items.0.id or items.*.id")
    if table.pattern is not None:
        try:
            re.compile(table.pattern)
        except re.error as error:
            raise invalid_value("expect.pattern", table.pattern, f"a regular expression ({error})") from None
        return BodyRule(PATTERN, pattern=table.pattern)
    return BodyRule(FIELDS if fields else JSON if table.ignore else body, fields, tuple(table.ignore))


def expect_of(table: ExpectTable, folder: Path, axes: Collection[str]) -> Expect:
    return Expect(
        table.status,
        body_rule(table),
        contents("expect.file", folder / table.file) if table.file else None,
        command_words(
            "expect.check", table.check, ("url", "answers", "bytes", "folder", "suite", "python", *SERVICES, *axes)
        ),
    )


def backlog_of(table: DrainTable) -> Backlog | None:
    if (table.path is None) != (table.json is None):
        raise BadInputError(
            'drain.path and drain.json must be set together, for example path = "/metrics" and json = "pending"'
        )
    return Backlog(ping_path("drain.path", table.path), table.json) if table.path and table.json else None


def _fields(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field, including the fields of nested tables."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _fields(value, f"{prefix}{name}.")
        else:
            _json(f"expect.json.{prefix}{name}", value)
            yield f"{prefix}{name}", value
