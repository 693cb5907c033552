"""The HTTP client of the bench: it sends what it should, follows nothing, and stops reading endless responses."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from conftest import LIMIT_S, wait_until
from scripted_server import Running, running

from under_siege.load.http_client import MOST_BODY_BYTES, HttpResponse, client, fetch, open_request, read_response
from under_siege.load.jobs import fetch_job, pause_s
from under_siege.load.request import Request, Stream
from under_siege.load.streams import StreamResponse, fetch_stream
from under_siege.record.record import CaseFailedError

OK = b"HTTP/1.1 200 OK\r\n"
SECRET = ("Authorization", "Bearer 7")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server")) as started:
        yield started


def asked(ask: Callable[[aiohttp.ClientSession], Awaitable[HttpResponse]]) -> HttpResponse:
    """Send a request with the client of the bench."""

    async def go() -> HttpResponse:
        async with client() as session:
            return await ask(session)

    return asyncio.run(go())


def streamed(url: str, stream: Stream, **headers: str) -> StreamResponse:
    request = Request(headers=tuple(headers.items()))
    return asked(lambda session: fetch_stream(session, url, LIMIT_S, stream, request))


def test_no_redirect_is_followed_and_responses_are_asked_for_uncompressed(server: Running) -> None:
    url, stream = f"{server.url}/redirect/elsewhere", Stream("sse")
    answers = [
        asked(lambda session: fetch(session, url, LIMIT_S)),
        asked(lambda session: fetch_job(session, url, LIMIT_S)),
        streamed(url, stream),
    ]
    assert [answer.status for answer in answers] == [302] * 3
    sent = server.received()[-3:]
    assert {one["path"] for one in sent} == {"/redirect/elsewhere"}
    assert {one["headers"]["accept-encoding"] for one in sent} == {"identity"}


def test_a_job_is_polled_with_its_secrets_until_its_result_arrives_even_after_a_503_response(server: Running) -> None:
    result = "/status/202/header/Retry-After/0/every/2/status/503/every/4/status/200/text/done"
    request = Request(headers=(SECRET, ("Content-Type", "application/json")), body=b"{}")
    job = asked(lambda session: fetch_job(session, f"{server.url}/job{result}", LIMIT_S, request=request))
    assert (job.status, job.body) == (200, b"done")
    posted, *polls = server.received()[-5:]
    assert (posted["method"], posted["body"]) == ("POST", "{}")
    assert [(one["method"], one["path"]) for one in polls] == [("GET", result)] * 4
    for one in polls:
        assert (one["headers"]["authorization"], one["headers"]["prefer"]) == ("Bearer 7", "wait=10")
        assert "content-type" not in one["headers"]


def test_a_job_is_polled_after_the_time_that_the_server_asks_for(server: Running) -> None:
    job = "/job/status/202/header/Retry-After/1/every/2/status/200"
    asked(lambda session: fetch_job(session, server.url + job, LIMIT_S))
    first, second = server.received()[-2:]
    assert second["at"] - first["at"] >= 1


@pytest.mark.parametrize(
    ("path", "limit_s", "code"),
    [
        ("/status/202/header/Location/http:%2F%2F127.0.0.2%2Fjobs", LIMIT_S, "wrong_answer"),
        ("/status/202", LIMIT_S, "wrong_answer"),
        ("/job/status/202", 0.3, "no_answer"),
    ],
    ids=["elsewhere", "nowhere", "never done"],
)
def test_a_job_without_a_result_fails(path: str, limit_s: float, code: str, server: Running) -> None:
    with pytest.raises(CaseFailedError) as error:
        asked(lambda session: fetch_job(session, server.url + path, limit_s))
    assert error.value.code == code


@pytest.mark.parametrize(
    ("retry_after", "expected_s"),
    [("3", 3), ("0", 0.01), ("999999999", 60), ("", 1), ("\u00b2", 1), ("-5", 1), ("Sun, 22 Nov 2026 07:28:00 GMT", 1)],
)
def test_the_pause_set_by_a_retry_after_header_has_a_minimum_a_maximum_and_a_default(
    retry_after: str, expected_s: float
) -> None:
    assert pause_s(retry_after, 1.0) == expected_s


@pytest.mark.parametrize("stream", [Stream("sse", most_events=5), Stream("sse", time_s=0.3)])
def test_a_stream_that_never_ends_is_closed_after_a_number_of_events_or_a_time(stream: Stream, server: Running) -> None:
    answer = streamed(f"{server.url}/endless/0.01", stream)
    assert len(answer.events) == (stream.most_events or len(answer.events))


def test_lines_are_events(server: Running) -> None:
    assert streamed(f"{server.url}/lines/3/0.01", Stream("lines")).events == (b'{"n": 0}', b'{"n": 1}', b'{"n": 2}')


@pytest.mark.parametrize(
    ("path", "code"), [("/text/hello", "no_stream"), ("/stream/9/0/break/3", "broken_stream")], ids=["plain", "broken"]
)
def test_a_response_that_is_no_complete_stream_fails(path: str, code: str, server: Running) -> None:
    with pytest.raises(CaseFailedError) as error:
        streamed(server.url + path, Stream("sse"))
    assert error.value.code == code


NGINX = """
pid nginx.pid; error_log stderr; events {{}}
http {{
    access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t;
    scgi_temp_path t; gzip on; gzip_types text/event-stream; gzip_min_length 0;
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_http_version 1.1; proxy_pass {behind}; }} }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_events_that_a_proxy_holds_back_arrive_at_the_end_of_the_stream(server: Running, tmp_path: Path) -> None:
    """nginx compresses the stream without flushing the compressor, or passes it on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(NGINX.format(port=port, behind=server.url))
    command = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
    with subprocess.Popen(command) as nginx:
        try:
            wait_until(lambda: _listens(port))
            url = f"http://127.0.0.1:{port}/stream/20/0.05"
            compressed = streamed(url, Stream("sse"), **{"Accept-Encoding": "gzip"})
            assert compressed.headers["content-encoding"] == "gzip"
            assert compressed.at_s[0] >= 20 * 0.05
            assert streamed(url, Stream("sse")).events == compressed.events
        finally:
            nginx.terminate()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


class EndlessServer:
    """A server that sends one client the head, and then repeats the block until the client disconnects."""

    def __init__(self, head: bytes, block: bytes = b"", pause_s: float = 0.0) -> None:
        self._head, self._block, self._pause_s = head, block, pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._talk)

    def answer(self, limit_s: float = LIMIT_S) -> HttpResponse:
        """Fetch a response as the bench does; return it once the connection is closed."""
        self._thread.start()
        try:
            with self._listener:
                return asked(lambda session: fetch(session, self.url, limit_s))
        finally:
            self._thread.join(LIMIT_S)
            assert not self._thread.is_alive(), "the connection is still open"

    def _talk(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(self._head)
            while self._block:
                connection.sendall(self._block)
                time.sleep(self._pause_s)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (b"Connection: close\r\n\r\n", b"x" * 65536),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10000),
    ],
    ids=["without a length", "chunked"],
)
def test_an_endless_body_is_read_up_to_a_limit(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError, match=r"more than 4 MB, ") as caught:
        EndlessServer(OK + head, block).answer()
    assert caught.value.code == "wrong_answer"


def read_by(right: bytes | None, body: bytes, most_kept: int = MOST_BODY_BYTES) -> HttpResponse:
    """Read this body, where another one may be expected."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async def read() -> HttpResponse:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening, client() as session:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
            async with open_request(session, url, limit_s=LIMIT_S) as response:
                return await read_response(response, right, most_kept=most_kept)

    return asyncio.run(read())


LARGE = bytes(range(256)) * 100_000  # 26 MB, much longer than what is read at once


@pytest.mark.parametrize(
    "right", [b"", b"short", LARGE[:-1], LARGE + b"x", LARGE[:1_000_000] + b"x" + LARGE[1_000_001:]]
)
def test_a_large_body_is_read_whole_whatever_is_expected(right: bytes) -> None:
    answer = read_by(right, LARGE)
    assert answer.body == LARGE
    assert answer.rest_bytes == 0


def test_a_large_body_that_is_as_expected_takes_no_memory_of_its_own() -> None:
    assert read_by(LARGE, LARGE).body is LARGE


def test_what_is_not_kept_of_a_body_is_counted() -> None:
    answer = read_by(b"", LARGE, most_kept=1000)
    assert answer.body == LARGE[:1000]
    assert len(answer.body) + answer.rest_bytes == len(LARGE)


def test_a_body_that_should_be_short_must_be() -> None:
    with pytest.raises(CaseFailedError, match="more than 4 MB"):
        read_by(None, LARGE)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (OK, b"X-More: and more\r\n" * 1000),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: and more\r\n" * 1000),
    ],
    ids=["many headers", "many trailers"],
)
def test_endless_headers_cause_a_short_error_before_the_timeout(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError) as caught:
        EndlessServer(head, block).answer()
    assert caught.value.code == "no_answer"
    assert "within" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "block"),
    [
        (OK + b"\r\n", b"x"),
        (OK, b"X-More: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "headers", "continue"],
)
def test_an_endless_response_that_arrives_slowly_times_out(head: bytes, block: bytes) -> None:
    with pytest.raises(CaseFailedError, match=r"within 0\.3 s"):
        EndlessServer(head, block, pause_s=0.05).answer(limit_s=0.3)
