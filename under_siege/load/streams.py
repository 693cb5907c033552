"""Read a response piece by piece: find its events, note when each arrived, and compare it with the expected events."""

import asyncio
import itertools
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from under_siege.formatting import legible, megabytes
from under_siege.load.body_rule import ANY, FIELDS, PATTERN, SAME, BodyRule, as_json, keys_of, values_at
from under_siege.load.http_client import HttpResponse, case_fails, open_request
from under_siege.load.request import CHUNKS, GET, LINES, SSE, ErrorEvent, Request, RightAnswer, Stream
from under_siege.record.record import CaseFailedError
from under_siege.secrets import masked

EVENT_STREAM = "text/event-stream"
STREAM_ENCODINGS = "gzip, deflate"  # compressions that can be undone piece by piece
ZLIB_OR_GZIP = 47  # window size of zlib that detects the format
MOST_EVENT_BYTES = 64_000_000  # maximum size of one event
BROKEN: Final = "broken_stream"
ERROR_STATUS = 400  # the lowest status that says that a request failed
MOST_SHOWN = 10_000  # number of bytes of an error that are read
LONGEST_ERROR = 200  # number of characters of an error event that a message quotes
DONE = b"[DONE]"  # the last event of the streams of language models, which is not JSON like the others
ERROR = b"error"  # the name of an event with which a server reports an error, and its key in a JSON object
_CHOICE = "choices.*.delta"  # in the events of OpenAI's chat completions
# For each format of language models: the value of `type` in events with text, and the paths of the text. Other events,
# such as those with a role or the usage, contain no text.
TEXT_FORMATS = {
    "OpenAI's chat completions": (
        ".*",
        tuple(f"{_CHOICE}.{key}" for key in ("content", "reasoning_content", "reasoning", "refusal", "tool_calls")),
    ),
    "OpenAI's completions": (".*", ("choices.*.text",)),
    "OpenAI's responses": (r"response\.\w+\.delta", ("delta",)),
    "Anthropic's messages": ("content_block_delta", ("delta.text", "delta.thinking", "delta.partial_json")),
}
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class EventParser:
    """Find the events in the bytes of a stream.

    Server-sent events are parsed as in the HTML Living Standard, 9.2.6: comments, `id` and `retry` are no events, and
    an event that the end of the stream cuts off is discarded. A line of `lines` may lack its line break at the end.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._rest = b""
        self._is_after_cr = False
        self._is_first = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that these bytes complete."""
        if self._kind == CHUNKS:
            return [data] if data else []
        if not data:  # a piece of a compressed stream may contain nothing yet
            return []
        data = self._rest + (data.removeprefix(b"\n") if self._is_after_cr else data)
        self._is_after_cr = data.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(data)
        if len(self._rest) + self._data_bytes > MOST_EVENT_BYTES:
            raise _too_long()
        return list(filter(None, lines)) if self._kind == LINES else self._events(lines)

    def end(self) -> list[bytes]:
        """Return the event that the end of the stream completes, if any."""
        return [self._rest] if self._kind == LINES and self._rest else []

    def _events(self, lines: Sequence[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            if self._is_first:
                line, self._is_first = line.removeprefix(_BOM), False
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._data_bytes += len(value)
            elif name == b"event":
                self._name = value.removeprefix(b" ")
            elif not line:
                if self._data:
                    data = b"\n".join(self._data)
                    events.append(ErrorEvent(data) if self._name == ERROR else data)
                self._data, self._data_bytes, self._name = [], 0, b""
        return events


def _too_long() -> CaseFailedError:
    return CaseFailedError("wrong_answer", f"an event of the stream is longer than {megabytes(MOST_EVENT_BYTES)}")


def reports_error(event: bytes) -> bool:
    """Return whether a server reports an error with an event, or with a body, although the status says success.

    This is so if the name of the event is `error`, or if it is a JSON object in the format of OpenAI, Anthropic,
    Ollama, GraphQL or JSON-RPC, including the result of a tool of the Model Context Protocol. A number is a measure.
    """
    if isinstance(event, ErrorEvent):
        return True
    value = as_json(event) if b'"error' in event or b'"isError"' in event else None
    if not isinstance(value, dict):
        return False
    result, errors = value.get("result"), (value.get("error"), value.get("errors"))
    is_failed_tool = isinstance(result, dict) and result.get("isError") is True
    is_reported = any(each is True or (isinstance(each, dict | list | str) and bool(each)) for each in errors)
    return value.get("type") == "error" or is_failed_tool or is_reported


def reported_error(body: bytes, content_type: str = "") -> bytes | None:
    """Return the body, or the first of its server-sent events, that reports an error, or None if there is none."""
    events = EventParser(SSE).feed(body) if content_type.startswith(EVENT_STREAM) else [body]
    return next(filter(reports_error, events), None)


def error_instead_of(right: RightAnswer, body: bytes, content_type: str = "") -> str:
    """Describe the error that a body reports although the correct response reports none, whatever the rule."""
    if body == right.answer or right.status >= ERROR_STATUS:
        return ""
    error = reported_error(body, content_type)
    is_unexpected = error is not None and reported_error(right.answer, content_type) is None
    return f"an error: {quoted_error(error)}" if error is not None and is_unexpected else ""


def counts(event: bytes, stream: Stream) -> bool:
    """Return whether an event counts as one; in the formats of language models, only text counts."""
    if event == DONE:
        return False
    value = as_json(event) if stream.text else None
    return not stream.text or any(_is_in(event, value, place) for place in stream.text)


def _is_in(event: bytes, json: object, place: str) -> bool:
    """Return whether a pattern matches an event, or the value at a path in its JSON is not empty."""
    if pattern := pattern_of(place):
        return re.search(pattern, event.decode(errors="replace")) is not None
    return any(value not in (None, "", [], {}) for value in values_at(json, keys_of(place)))


def pattern_of(place: str) -> str:
    """Return the regular expression between slashes, or an empty string if the text is the path of a value in JSON."""
    return place[1:-1] if len(place) > 2 and place.startswith("/") and place.endswith("/") else ""


def places_of_text(events: Iterable[bytes]) -> tuple[str, ...]:
    """Return the paths of text in the format of these events, or none if their format is unknown."""
    for event in events:
        value = as_json(event)
        for kind, paths in TEXT_FORMATS.values():
            is_alike = isinstance(value, dict) and re.fullmatch(kind, str(value.get("type")))
            if is_alike and any(_is_in(event, value, path) for path in paths):
                return paths
    return ()


class EventCheck:
    """Compare the events of a stream with the expected events, one by one, without keeping them."""

    def __init__(self, rule: BodyRule, right: Sequence[bytes], count: int | None, stream: Stream) -> None:
        """Prepare for one stream.

        Args:
            right: the expected events; those beyond its end are only counted. If none of them reports an error, a
                stream that contains such an event is wrong, whatever the rule.
            count: the expected number of events; None: any number above 0.
        """
        self._rule = rule
        self._right = right
        self._count = count
        self._stream, self._kind = stream, stream.kind
        self._whole = b"".join(right) if self._kind == CHUNKS else b""
        self._problem = ""
        self._lacks = rule.problem(b"", b"") if rule.mode == PATTERN else ""  # what is missing so far
        self.seen = self.counted = 0
        self.size_bytes = 0
        self._may_report_errors = self._kind == CHUNKS or any(map(reports_error, right))
        is_whole = stream.most_events is None and stream.time_s is None  # whether the stream is read to its end
        self._lacks_done = is_whole and bool(right) and right[-1] == DONE

    def take(self, event: bytes) -> bool:
        """Compare the next event with the expected one, and return whether it counts."""
        is_counted = counts(event, self._stream)
        self.counted += is_counted
        self._compare(event)
        return is_counted

    def _compare(self, event: bytes) -> None:
        number, begin = self.seen, self.size_bytes
        self.seen, self.size_bytes = number + 1, begin + len(event)
        self._lacks_done = self._lacks_done and event != DONE
        if self._rule.mode == PATTERN and self._lacks:  # it must match somewhere in the response
            self._lacks = self._rule.problem(event, b"")
        if self._problem or event == DONE:
            return
        if not self._may_report_errors and reports_error(event):
            self._problem = f"an error as event {number + 1}: {quoted_error(event)}"
        if self._problem or self._rule.mode in (ANY, PATTERN):
            return
        if self._rule.mode == FIELDS:
            if problem := self._rule.problem(event, b""):
                self._problem = f"event {number + 1}: {problem}"
        elif self._kind == CHUNKS:  # where a chunk ends is not part of the content
            if event != self._whole[begin : self.size_bytes]:
                self._problem = f"chunk {number + 1} has different bytes"
        elif number < len(self._right) and (problem := self._rule.problem(event, self._right[number])):
            self._problem = f"event {number + 1}: {problem}"

    def problem_so_far(self) -> str:
        """Describe how the events so far differ from the expected ones; return an empty string if they are correct."""
        return self._problem

    def problem(self) -> str:
        """Describe how the whole stream differs from the expected one; return an empty string if it is correct."""
        if self._problem:
            return self._problem
        if not self.seen:
            return "no event"
        if self._lacks:
            return self._lacks
        if self._lacks_done:
            return f"the stream ended without {DONE.decode()}"
        if self._stream.text and not self.counted:
            return "no event with text"
        if self._kind == CHUNKS and self._rule.mode == SAME and self._count is not None:
            right = self.size_bytes == len(self._whole)
            return "" if right else f"{self.size_bytes:,} bytes instead of {len(self._whole):,}"
        if self._count is not None and self.seen != self._count and self._kind != CHUNKS:
            return f"{self.seen:,} events instead of {self._count:,}"
        return ""


def quoted_error(event: bytes) -> str:
    text = masked(legible(event.decode(errors="replace")))
    return text[:LONGEST_ERROR] or "without data"


@dataclass(frozen=True, slots=True)
class StreamResponse(HttpResponse):
    """A response whose events were read one by one."""

    events: tuple[bytes, ...] = ()
    at_s: tuple[float, ...] = field(default=(), compare=False)  # arrival of each event, since the request was sent

    def counted_at_s(self, stream: Stream) -> list[float]:
        """Return the arrival of each event that counts."""
        return [at_s for event, at_s in zip(self.events, self.at_s, strict=True) if counts(event, stream)]

    def described(self) -> str:
        first = HttpResponse(self.status, self.events[0] if self.events else self.body, self.headers).described()
        return f"a stream of {len(self.events):,} events, the first: {first}" if self.events else first


def expander() -> Callable[[bytes], bytes]:
    """Return a function that uncompresses pieces of a body, which may have several members (RFC 1952, 2.2)."""
    member = zlib.decompressobj(ZLIB_OR_GZIP)

    def expand(data: bytes) -> bytes:
        nonlocal member
        parts = [member.decompress(data)]
        while rest := member.unused_data:
            member = zlib.decompressobj(ZLIB_OR_GZIP)
            parts.append(member.decompress(rest))
        return b"".join(parts)

    return expand


async def pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the pieces of a body as they arrive, uncompressed; of a chunked body, the chunks."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *STREAM_ENCODINGS.split(", ")):
        raise CaseFailedError("wrong_answer", f"the stream is compressed with {encoding}; expected gzip, or nothing")
    expand = bytes if encoding in ("", "identity") else expander()
    is_chunked, parts = "chunked" in response.headers.get("Transfer-Encoding", "").lower(), list[bytes]()
    size_bytes = 0  # of the chunk that has begun
    async for data, is_end in response.content.iter_chunks():
        parts.append(data)
        size_bytes += len(data)
        if size_bytes > MOST_EVENT_BYTES:
            raise _too_long()
        if is_end or not is_chunked:
            size_bytes = 0
            try:
                yield expand(b"".join(parts))
            except zlib.error as error:
                raise CaseFailedError("wrong_answer", f"the stream can't be uncompressed: {error}") from None
            parts.clear()


async def read_events(response: aiohttp.ClientResponse, stream: Stream, take: Callable[[bytes], None]) -> None:
    """Pass each event to `take` as it arrives, until the stream ends or its limit is reached.

    Raises:
        CaseFailedError: the response is no such stream, or it breaks off.
        aiohttp.ClientError: the connection fails in another way.
    """
    if stream.kind == SSE and response.content_type != EVENT_STREAM:
        raise CaseFailedError("no_stream", _no_stream(response))
    parser, numbers = EventParser(stream.kind), itertools.count(1)
    try:
        async with asyncio.timeout(stream.time_s) as limit:
            async for data in pieces(response):
                for event in parser.feed(data):
                    take(event)
                    if next(numbers) == stream.most_events:
                        response.close()
                        return
    except TimeoutError:
        if not limit.expired():
            raise
        response.close()
    except aiohttp.ClientPayloadError:
        raise CaseFailedError(BROKEN, f"the stream broke off after {next(numbers) - 1:,} events") from None
    else:
        for event in parser.end():
            take(event)


def _no_stream(response: aiohttp.ClientResponse) -> str:
    kind = response.headers.get("Content-Type", "").partition(";")[0] or "missing"
    return (
        f"{response.url.path} is no stream of server-sent events, because its content type is {kind}: expected "
        f"{EVENT_STREAM}; use lines or chunks (--stream, or stream under [load]), or measure whole responses"
    )


async def read_stream(response: aiohttp.ClientResponse, stream: Stream, sent_s: float) -> StreamResponse:
    """Read the events of a response to a request that was sent at this time; raise the same errors as `read_events`."""
    events, at_s = list[bytes](), list[float]()

    def take(event: bytes) -> None:
        events.append(event)
        at_s.append(time.monotonic() - sent_s)

    headers = {name.lower(): value for name, value in response.headers.items()}
    if response.status >= 300:
        return StreamResponse(response.status, await response.content.read(MOST_SHOWN), headers)
    await read_events(response, stream, take)
    return StreamResponse(response.status, b"\n".join(events), headers, events=tuple(events), at_s=tuple(at_s))


async def fetch_stream(
    session: aiohttp.ClientSession, url: str, limit_s: float, stream: Stream, request: Request = GET
) -> StreamResponse:
    """Send one request and read the events of its response.

    Raises:
        aiohttp.ClientConnectorError: no connection could be established.
        CaseFailedError: no event came within `limit_s`, the stream broke off, or it is no such stream.
    """
    sent_s, name = time.monotonic(), f"{request.method} {url}"
    with case_fails(name, f"{name} sent no event", limit_s):
        async with open_request(session, url, request, wait_s=limit_s) as response:
            return await read_stream(response, stream, sent_s)
