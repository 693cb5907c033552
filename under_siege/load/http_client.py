"""Send HTTP requests, by default each on a new connection, without caching or following redirects."""

import asyncio
import contextlib
import html
import io
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import h11
from aiohttp.payload import TOO_LARGE_BYTES_BODY
from yarl import URL

from common.errors import one_line
from under_siege.formatting import legible, megabytes
from under_siege.load.content_encoding import decoded
from under_siege.load.request import GET, Request
from under_siege.record.record import CaseFailedError
from under_siege.secrets import masked, masked_difference

BINARY = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufffd]")  # characters that text doesn't contain
_MOST_MASKED_BYTES = 10_000  # number of bytes to search for secrets; more than a message shows
MOST_OF_PAGE = 120  # number of characters of an HTML page that a message shows
IDLE_LIMIT_S = 3600.0  # idle time after which the client would close a connection
MOST_PING_BYTES = 4_000_000  # maximum size of a body that should be short
MOST_BODY_BYTES = 64_000_000  # maximum size of any other body; correct bodies may have different sizes


def text_of_html(text: str, content_type: str = "") -> str | None:
    """Return the title and the text of an HTML page, such as that of an error, or None for other text."""
    if "html" not in content_type.lower() and not re.match(r"\s*<(?:!doctype html|html)\b", text, re.IGNORECASE):
        return None
    title = re.search(r"<title\b[^>]*>(.*?)</title", text, re.IGNORECASE | re.DOTALL)
    rest = re.sub(r"(?is)<(script|style|title)\b.*?(?:</\1\s*>|\Z)|<!--.*?-->", " ", text)
    parts = [title[1] if title else "", re.sub(r"<[^>]*>?", " ", rest)]
    words = (" ".join(html.unescape(part).split()) for part in parts)
    return ": ".join(filter(None, words)) or text


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response."""

    status: int
    body: bytes  # decoded, unless the reader chose otherwise
    headers: dict[str, str]  # lower-case names
    rest_bytes: int = 0  # number of bytes that follow `body`, and were not kept

    def described(self) -> str:
        """Describe the response for a message: its status and redirect, and the size and beginning of its body."""
        text = masked(self.body[:_MOST_MASKED_BYTES].decode(errors="replace"))
        if BINARY.search(text[:60]):
            kind = self.headers.get("content-type", "").partition(";")[0] or "binary data"
            return f"{self.status} with {len(self.body)} bytes of {legible(kind)[:60]}"
        kind, most = "", 60
        if text and (page := text_of_html(text, self.headers.get("content-type", ""))) is not None:
            text, kind, most = page, " of HTML", MOST_OF_PAGE
        beginning = text if len(text) <= most else f"{text[: most - 3]}..."
        location = self.headers.get("location", "") if 300 <= self.status < 400 else ""
        redirect = f" to {legible(masked(location))[:100]!r}" if location else ""
        return f"{self.status}{redirect} with {len(self.body)} bytes{kind} {' '.join(beginning.split())!r}"

    def difference(self, other: "HttpResponse") -> str:
        """Return where the bodies differ, for a message in which both look the same; otherwise, an empty string."""
        one, right = (each.body[:_MOST_MASKED_BYTES].decode(errors="replace") for each in (self, other))
        if name := masked_difference(one, right):
            return f"; they differ in {name}, which is masked"
        if self.body == other.body or self.described() != other.described():
            return ""
        pairs = zip(self.body, other.body, strict=False)
        first = next((index for index, (byte, expected) in enumerate(pairs) if byte != expected), len(self.body))
        return f"; they differ from byte {first + 1:,} on"


@contextlib.asynccontextmanager
async def client(
    *, keep_alive: bool = False, trace_configs: list[aiohttp.TraceConfig] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session without a limit on connections, so that no request waits for another one."""
    kept = {"keepalive_timeout": IDLE_LIMIT_S} if keep_alive else {"force_close": True}
    connector = aiohttp.TCPConnector(limit=0, **kept)
    as_load_tools = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(
        connector=connector,
        headers=as_load_tools,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=trace_configs,
    ) as session:
        session._retry_connection = False  # a retry would hide a lost request; aiohttp has no public option for this
        yield session


def raw_url(url: str) -> URL:
    """Return a URL that aiohttp sends unchanged, as load tools do, without encoding it again or resolving `..`."""
    return URL(url, encoded=True)


@contextlib.contextmanager
def case_fails(request: str, timeout_message: str, limit_s: float | None) -> Iterator[None]:
    """Convert every failure, except a failed attempt to connect, to a CaseFailedError."""
    try:
        yield
    except aiohttp.ClientConnectorError:
        raise
    except TimeoutError:
        raise CaseFailedError("no_answer", f"{timeout_message} within {limit_s:.1f} s") from None
    except (aiohttp.ClientError, ValueError) as error:  # aiohttp raises ValueError if a line or header is too long
        raise CaseFailedError("no_answer", f"{request}: {one_line(error)}") from None


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None = None,
    right: bytes | None = None,
    request: Request = GET,
) -> HttpResponse:
    """Send one request and return the response.

    Args:
        right: as in `read_response`.

    Raises:
        aiohttp.ClientConnectorError: no connection could be established, for example because it was refused.
        CaseFailedError: the response did not arrive in time, is too long, or is not HTTP.
    """
    name = f"{request.method} {url}"
    with case_fails(name, f"{name} was not answered", limit_s):
        async with open_request(session, url, request, limit_s) as response:
            return await read_response(response, right)


def open_request(
    session: aiohttp.ClientSession,
    url: str,
    request: Request = GET,
    limit_s: float | None = None,
    wait_s: float | None = None,
    trace_request_ctx: dict[str, bool] | None = None,
) -> "aiohttp.client._RequestContextManager":
    """Return a context manager that sends the request and yields the response, whose body is still unread.

    Args:
        limit_s: timeout of the whole response.
        wait_s: timeout of each piece of the response.
        trace_request_ctx: passed to the session's trace configurations.
    """
    is_large = len(request.body) > TOO_LARGE_BYTES_BODY  # aiohttp sends a file in parts, but bytes at once
    return session.request(
        request.method,
        raw_url(url),
        headers=request.headers,
        data=io.BytesIO(request.body) if is_large else request.body or None,
        timeout=aiohttp.ClientTimeout(total=limit_s, sock_read=wait_s),
        allow_redirects=False,
        trace_request_ctx=trace_request_ctx,
    )


def raw_request(url: str, request: Request) -> bytes:
    """Return the bytes of a request, whose connection ends with the response."""
    parts = urlsplit(url)
    headers = {"Host": parts.netloc, "Accept-Encoding": "identity", "Connection": "close", **dict(request.headers)}
    if request.body:
        headers["Content-Length"] = str(len(request.body))
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + request.body


async def must_accept_connections(url: str) -> None:
    """Open a connection and close it; raise ConnectionError if nothing is listening."""
    parts = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    except OSError as error:  # a host with several addresses causes a plain OSError
        raise ConnectionError(str(error)) from None
    writer.close()
    await writer.wait_closed()


async def read_response(
    response: aiohttp.ClientResponse, right: bytes | None, *, is_decoded: bool = True, most_kept: int = MOST_BODY_BYTES
) -> HttpResponse:
    """Read and decode the whole response.

    Args:
        right: the expected body, or nothing if it is unknown; None: any short one. A large body that equals it needs
            no memory of its own.
        most_kept: the number of bytes to return; further ones are only counted.

    Raises:
        CaseFailedError: the body is too long, or can't be decoded.
    """
    right, most_bytes = (b"", MOST_PING_BYTES) if right is None else (right, MOST_BODY_BYTES)
    equal_bytes, size_bytes, body = 0, 0, bytearray()  # the body is empty as long as it equals the expected one
    async for chunk in response.content.iter_any():
        size_bytes += len(chunk)
        if size_bytes > most_bytes:
            response.close()
            raise _too_long(str(response.url), most_bytes)
        if not body and right.startswith(chunk, equal_bytes):
            equal_bytes += len(chunk)
        elif len(body) < most_kept:
            body += chunk if body else right[:equal_bytes] + chunk
    kept = bytes(body[:most_kept]) if body else right[:equal_bytes]
    encodings = ",".join(response.headers.getall("Content-Encoding", [])) if is_decoded else ""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpResponse(response.status, decoded(kept, encodings), headers, size_bytes - len(kept))


def _too_long(what: str, most_bytes: int) -> CaseFailedError:
    return CaseFailedError("wrong_answer", f"{what} returned more than {megabytes(most_bytes)}, the limit of the bench")


async def read_raw_response(reader: asyncio.StreamReader, method: str, what: str) -> HttpResponse:
    """Read and decode the response to a request that aiohttp did not send; `what` describes the request.

    Raises:
        CaseFailedError: the body is too long, or can't be decoded.
        EOFError: the connection was closed before the response.
        h11.RemoteProtocolError: the response is incomplete or not HTTP.
    """
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "it")]))  # determines what may follow
    parser.send(h11.EndOfMessage())
    status = 0
    headers = dict[str, str]()
    body = bytearray()
    while not isinstance(event := parser.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            data = await reader.read(65536)
            if not data and not status:
                raise EOFError
            parser.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MOST_BODY_BYTES:
                raise _too_long(what, MOST_BODY_BYTES)
    return HttpResponse(status, decoded(bytes(body), headers.get("content-encoding", "")), headers)
