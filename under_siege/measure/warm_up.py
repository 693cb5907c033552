"""Before the load, wait until the server is ready, verify its response, and warm up all of its processes.

Requests of a load tool can be replayed byte for byte, because some tools only count responses. A server that recognizes
requests of these tools could send wrong responses unnoticed.
"""

import asyncio
import contextlib
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import aiohttp
import h11

from common.options import MOST_WORKERS
from under_siege.host.cpu_division import server_cpus
from under_siege.host.managed_process import ManagedProcess, Tail
from under_siege.host.programs import Tool
from under_siege.load.content_encoding import BROWSERS
from under_siege.load.http_client import HttpResponse, fetch, open_request, read_raw_response, read_response
from under_siege.load.jobs import fetch_job
from under_siege.load.request import ACCEPT_ENCODING, MixedRequest, Stream
from under_siege.load.streams import STREAM_ENCODINGS, StreamResponse, fetch_stream, reports_error
from under_siege.load.tool import LoadSpec
from under_siege.measure.server import Server
from under_siege.measure.server_readiness import remedy_for, until_ready
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError, FailureCode, Record, tool_failure
from under_siege.secrets import masked
from under_siege.suite.expected_response import LEAST_TIMEOUT_S, Expectation

MOST_BATCHES = 10
MOST_COUNTING_BATCHES = 5
SLOWEST_STREAM_S = 10.0  # the same limit for streams
SLOWEST_ASKED_AGAIN_S = 1.0  # if a response takes longer, don't ask which encoding browsers get
NEW_WORKER_LIMIT_S = 1.0
MOST_IDLE_EVENTS = 1000  # number of events of the idle server whose times are recorded
MOST_VERIFIED = 20  # maximum number of requests of a mix to verify before the load; checks verify the others
FIRST_LIMIT_S = 10.0  # timeout for capturing the requests of a tool, which usually takes 0.02 s
REQUESTS_ON_A_CONNECTION = 3  # number of requests on one connection, if the tool uses keep-alive
UNKNOWN_USER = (401, 403)  # statuses for a user who has not logged in
_LOST_SESSION = (
    ", although the setup succeeded: perhaps a later setup of the same user ended the session, or another process "
    "answered it, and they don't share sessions"
)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_LAST_ANSWER = _ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """The bytes of a tool's requests, and the host and port to which the tool sent them."""

    tool: str
    requests: tuple[bytes, ...]  # one request, or the requests of a mix
    address: str
    in_a_row: int = 1  # number of requests on one connection

    async def ask(self, url: str, limit_s: float, number: int = 0) -> HttpResponse:
        """Send request `number` repeatedly (`in_a_row` times) on one connection, and return the last response.

        Raises:
            CaseFailedError: nothing listens, there is no response in time, the response is malformed, or the tool would
                wait for the end of a connection that stays open.
        """
        sent, parts = self.requests[number], urlsplit(url)
        what = f"{sent.partition(b' ')[0].decode(errors='replace')} {url}, sent as {self.tool} sends it"
        target, tls = (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), parts.scheme == "https"
        request = sent.replace(self.address.encode(), parts.netloc.encode())
        request = re.sub(rb"\A(\S+) \S+", lambda match: match[1] + b" " + target.encode(), request, count=1)
        try:
            async with asyncio.timeout(limit_s):
                port = parts.port or (443 if tls else 80)
                reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
                with contextlib.closing(writer):
                    return await self._last_answer(reader, writer, request, what)
        except ConnectionRefusedError as error:
            raise CaseFailedError("refused", f"{what}, was refused: {error.strerror}") from None
        except TimeoutError:
            raise CaseFailedError("no_answer", f"{what}, was not answered within {limit_s:.1f} s") from None
        except OSError as error:
            raise CaseFailedError("no_answer", f"{what}, was not answered: {error.strerror or error}") from None
        except (EOFError, h11.RemoteProtocolError):
            raise CaseFailedError("no_answer", f"{what}: the response is incomplete or not HTTP") from None

    async def _last_answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, what: str
    ) -> HttpResponse:
        method = request.partition(b" ")[0].decode("latin-1")
        writer.write(request)
        answer = await read_raw_response(reader, method, what)
        with contextlib.suppress(ConnectionError, EOFError):  # the server may close the connection
            for _ in range(self.in_a_row - 1):
                writer.write(request)
                answer = await read_raw_response(reader, method, what)
                if b" HTTP/1.0\r\n" in request and "keep-alive" not in answer.headers.get("connection", "").lower():
                    raise CaseFailedError(
                        "keep_alive",
                        "the server keeps connections open without announcing it to clients that send HTTP/1.0, such "
                        f'as {self.tool}, so these wait for their end; set keep_alive = false, or tool = "wrk"',
                    )
        return answer


class RequestReplays:
    """Capture the requests of one tool, once with keep-alive and once without, when they are first needed."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._captured: dict[bool, ReplayedRequest] = {}

    async def of(self, spec: LoadSpec) -> ReplayedRequest | None:
        """Return the captured requests of the tool, or None if the tool or its script checks responses itself.

        Raises:
            CaseFailedError: the tool sends no request.
        """
        if not self._tool.driver.is_replayed:
            return None
        if spec.load.keep_alive not in self._captured:
            self._captured[spec.load.keep_alive] = await _capture(self._tool, spec)
        return self._captured[spec.load.keep_alive]


async def _capture(tool: Tool, spec: LoadSpec) -> ReplayedRequest:
    """Run the tool against a socket of the bench, and return its requests."""
    count, captured = len(spec.load.mix) or 1, list[bytes]()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    listeners = set[asyncio.Task[object] | None]()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listeners.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, EOFError, asyncio.LimitOverrunError):
            while len(captured) < count:
                captured.append(await _next_request(reader))
                if len(captured) == count:
                    listening.close()  # otherwise, the tool would connect again
                    if not done.done():
                        done.set_result(None)
                    break
                writer.write(_ANSWER if spec.load.keep_alive else _LAST_ANSWER)
                if not spec.load.keep_alive:
                    break
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(listen, HOST, 0) as listening:
        address = f"{HOST}:{listening.sockets[0].getsockname()[1]}"
        load = replace(spec.load, threads=1, requests=None if spec.load.requests is None else count)
        order = tuple(range(len(load.mix)))
        alone = replace(spec, load=load, users=1, url=f"http://{address}/", paths=(), order=order)
        process = ManagedProcess(tool.command(alone), environment=tool.environment(), may_hide=False, is_load=True)
        stdout, stderr = Tail(process.stdout), Tail(process.stderr)
        try:
            await asyncio.wait_for(done, FIRST_LIMIT_S)
        except TimeoutError:
            said = stderr.text() or stdout.text()
            why = f"{tool.driver.name} sent no request; its output: {masked(said)[-200:]!r}"
            raise CaseFailedError(tool_failure(tool.driver.name), why) from None
        finally:
            await process.stop(grace_s=0)
            await asyncio.gather(*filter(None, listeners))
    sent = [next((one for one in captured if _is_like(one, each)), captured[0]) for each in spec.load.mix]
    return ReplayedRequest(tool.driver.name, tuple(sent or captured[:1]), address)


async def _next_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(_END)
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def _is_like(sent: bytes, one: MixedRequest) -> bool:
    """Return whether the bytes are this request of a mix. The order may differ: wrk sends the second request first."""
    return sent.startswith(f"{one.request.method} {one.path} ".encode()) and sent.partition(_END)[2] == one.request.body


async def warm_up(server: Server, session: aiohttp.ClientSession, expected: Expectation, record: Record) -> set[str]:
    """Wait for the server, verify its response, and send requests until each of its worker processes has handled one.

    Returns:
        The ids of the processes that answered, or an empty set if the server doesn't send `X-Worker`.

    Raises:
        CaseFailedError: the server is not ready in time, its response is wrong, or its processes count separately.
    """
    pong = await server.while_alive(until_ready(server, session))
    record.ready_s = server.age_s()
    await server.while_alive(server.set_up(session))
    asked_s = server.age_s()
    count = min(MOST_VERIFIED, len(expected.mix.requests)) if expected.mix else 1
    for _ in range(count):
        answer = await server.while_alive(verify(session, server, expected, record.users))
    record.idle_answer_s = (server.age_s() - asked_s) / count
    _note_what_it_sends(answer, expected, record)
    is_short = record.idle_answer_s <= (SLOWEST_STREAM_S if expected.stream else SLOWEST_ASKED_AGAIN_S)
    if record.round == 1 and not record.has_task and is_short:
        asked = _encoding_for_browsers(session, server, expected, record)
        record.browser_encoding = await server.while_alive(asked)
    workers = _workers_told(pong)
    wanted, seen = workers or record.workers or server_cpus(), {answer.headers.get("x-worker")}
    few, bodies = min(wanted, server_cpus()), [answer.body]
    for batch in range(0 if _is_the_server(server, answer) else MOST_BATCHES):
        if len(seen) >= wanted:
            break
        # Send twice as many requests as workers, because a pool starts a worker only if none is idle. Send fewer in the
        # first batch and to threads, because a batch for all threads would hold the GIL for seconds.
        at_once = 2 * (wanted if batch and not _are_threads(seen) else few)
        before, began_s = set(seen), server.age_s()
        requests = [verify(session, server, expected, at_once) for _ in range(at_once)]
        answers = await server.while_alive(asyncio.gather(*requests))
        seen |= {answer.headers.get("x-worker") for answer in answers}
        bodies += [answer.body for answer in answers]
        if None in seen:
            break  # the server doesn't report its workers
        if _are_threads(seen) and _processes(seen) == _processes(before):
            break  # threads of one process share imported modules
        if seen == before and server.age_s() - began_s > NEW_WORKER_LIMIT_S:
            break  # no new workers answer, although more are expected
    if expected.counters and len(_processes(seen)) > 1:
        await server.while_alive(_count_together(server, session, expected, bodies, len(_processes(seen))))
    if expected.size_bytes < 0:  # the order of keys differs
        record.answer_bytes = -1
    if expected.stream:
        record.consumed_iterators = server.consumed_iterators()
    record.warm_s = server.age_s()
    record.workers = workers
    return _processes(seen)


async def _count_together(
    server: Server, session: aiohttp.ClientSession, expected: Expectation, bodies: list[bytes], processes: int
) -> None:
    """Check that processes count requests together, as the application does in one process.

    Raises:
        CaseFailedError: a number occurs twice, or a response is wrong.
    """
    for _ in range(MOST_COUNTING_BATCHES):
        at_once = 4 * processes
        requests = [verify(session, server, expected, at_once) for _ in range(at_once)]
        bodies += [answer.body for answer in await asyncio.gather(*requests)]
        if (number := expected.repeated(bodies)) is not None:
            why = f"as it is, each response has another number, but {processes} processes returned {number} twice"
            how = "what a process keeps in memory, such as a counter, a cache or sessions, is not shared"
            raise CaseFailedError("own_state", f"{why}; {how}")


def _note_what_it_sends(answer: HttpResponse, expected: Expectation, record: Record) -> None:
    """Record properties of the idle server's response."""
    record.sets_cookies = "set-cookie" in answer.headers
    record.content_encoding = answer.headers.get("content-encoding", "")
    if isinstance(answer, StreamResponse) and (stream := expected.first_stream):
        record.idle_events_s = _first_times(answer, stream)
    if "transfer-encoding" in answer.headers or record.content_encoding:
        record.answer_bytes = -1  # any size is correct, because tools count bytes as sent, and siege even framing


def _first_times(answer: StreamResponse, stream: Stream) -> list[float]:
    return [round(at_s, 6) for at_s in answer.counted_at_s(stream)[:MOST_IDLE_EVENTS]]


async def _encoding_for_browsers(
    session: aiohttp.ClientSession, server: Server, expected: Expectation, record: Record
) -> str | None:
    """Return the encoding of a response to a browser, or None if the request must not be repeated or fails.

    If the response is a stream, record when its events arrive.
    """
    is_asked = expected.stream or expected.request.may_be_repeated  # the load opens the same stream many times
    if expected.mix or expected.files or expected.of_a_job or not is_asked:
        return None
    url, sent = server.filled(server.load_url, expected.request)
    others = [header for header in sent.headers if header[0].lower() != ACCEPT_ENCODING]
    request = replace(sent, headers=(*others, ("Accept-Encoding", BROWSERS)))
    try:
        if expected.stream:
            request = replace(request, headers=(*others, ("Accept-Encoding", STREAM_ENCODINGS)))
            answer = await fetch_stream(session, url, LEAST_TIMEOUT_S, expected.stream, request)
            record.browser_events_s = _first_times(answer, expected.stream)
            return answer.headers.get("content-encoding", "")
        async with open_request(session, url, request, LEAST_TIMEOUT_S) as response:
            await read_response(response, expected.answer, is_decoded=False)
            return response.headers.get("Content-Encoding", "")
    except (aiohttp.ClientError, CaseFailedError, TimeoutError, ValueError):
        return None


def _is_the_server(server: Server, answer: HttpResponse) -> bool:
    """Return whether the started process performed the task itself; if so, no other process needs a warm-up."""
    process, _, thread = answer.headers.get("x-worker", "").partition("/")
    return process == str(server.pid) and not thread.startswith("Interpreter")  # sub-interpreters share no modules


def _processes(workers: Collection[str | None]) -> set[str]:
    """Return the process ids of workers such as `4711/MainThread`."""
    return {worker.partition("/")[0] for worker in workers if worker}


def _are_threads(workers: Collection[str | None]) -> bool:
    """Return whether several workers are in the same process."""
    return len(workers) > len(_processes(workers))


def _workers_told(pong: HttpResponse | None) -> int | None:
    """Return the reported number of workers, or None if it is missing or invalid."""
    workers = re.fullmatch(r"[0-9]{1,4}", pong.headers.get("x-workers", "") if pong else "")
    return int(workers[0]) if workers and 1 <= int(workers[0]) <= MOST_WORKERS else None


async def verify(
    session: aiohttp.ClientSession,
    server: Server,
    expected: Expectation,
    users: int,
    replay: ReplayedRequest | None = None,
) -> HttpResponse:
    """Send the load's request and return the verified response; with `replay`, send the same bytes as the load tool.

    Raises:
        CaseFailedError: the response is wrong or missing.
    """
    url, expected = expected.for_request(server.load_url)
    limit_s = expected.timeout_s(users)
    method = "POST" if expected.of_a_job else expected.request.method
    sent_url, request = server.filled(url, expected.request)
    try:
        if replay is not None:
            answer = await replay.ask(sent_url, limit_s, expected.number)
        elif expected.stream:
            answer = await fetch_stream(session, sent_url, limit_s, expected.stream, request)
        else:
            send = fetch_job if expected.of_a_job else fetch
            answer = await send(session, sent_url, limit_s, expected.answer, request)
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"{method} {url} was refused: {error.strerror}") from None
    if problem := expected.problem(answer):
        is_error = answer.status != expected.status or any(
            map(reports_error, getattr(answer, "events", (answer.body,)))
        )
        code: FailureCode = "error_answer" if is_error else "wrong_answer"
        path = urlsplit(url)._replace(scheme="", netloc="").geturl()
        like = f", sent as {replay.tool} sends it," if replay else ""
        advice = ""
        if server.plan.load.setup and answer.status in UNKNOWN_USER:
            advice = _LOST_SESSION
        elif answer.status != expected.status:
            advice = remedy_for(server, answer, MixedRequest(path, expected.request) if server.plan.load.mix else None)
        raise CaseFailedError(code, f"{method} {path}{like} returned {problem}{advice}")
    return answer


async def last_pong(session: aiohttp.ClientSession, server: Server, timeout_s: float) -> HttpResponse | None:
    """Send a ping after the siege; return its response, or None if there is no ping or the ping gets no response."""
    if server.ping is None:
        return None
    try:
        return await fetch(session, server.url + server.ping.path, timeout_s, request=server.ping.request)
    except (aiohttp.ClientConnectorError, CaseFailedError):
        return None
