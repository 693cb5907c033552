"""Serve an application, but answer the requests for one route in a process pool or in threads ("what if").

Servers import this module in the user's Python, which may be 3.9, and call a function for the kind of application. It
imports only the standard library and, for applications of aiohttp and Tornado, these packages. Its directory, which is
on PYTHONPATH, has no other module, so that none hides one of the user's.

All other requests stay where they are. A request for the route is read completely. A worker, which has imported the
same application and run its lifespan, gets it and returns the response as soon as the body is complete. What the
application does afterwards, such as background tasks, goes on in the worker.
"""

import asyncio
import atexit
import contextlib
import importlib
import inspect
import io
import multiprocessing
import os
import pickle
import queue
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import quote, unquote

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Message, Receive, Send], Awaitable[None]]

APPLICATION, ROUTE, POOL = "UNDER_SIEGE_APP", "UNDER_SIEGE_ROUTE", "UNDER_SIEGE_POOL"  # environment variables
IN_THREADS = "threads"  # value of POOL; otherwise, it is the number of processes
THREADS = 40  # as many as Starlette has for `def` routes
MOST_BYTES = 64_000_000  # of a response that is not sent before it is complete
STOP_LIMIT_S = 3.0  # how long a worker may take to end the lifespan of its application
LOOPBACK = "127.0.0.1"
OF_CONNECTION = ("content-length", "transfer-encoding", "connection", "date", "server")  # headers that a server adds
NO_RESPONSE = 599  # of Tornado's client: there was no connection, or no response
ENDED = "a process of the pool has ended, which breaks the pool"
# What a worker gets of an ASGI scope: everything that can be pickled, except the state, of which it has its own.
SCOPE = (
    *("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers"),
    *("client", "server"),
)


class CannotMoveError(Exception):
    """The route can't be answered elsewhere; the text says why."""


def load() -> Any:
    """Import the application, or call the function that creates it."""
    module, _, name = os.environ[APPLICATION].partition(":")
    found: Any = importlib.import_module(module)
    for part in name.replace("()", "").split("."):
        found = getattr(found, part)
    return found() if name.endswith("()") else found


def route() -> str:
    """Return the decoded path of the route, with environment variables such as `${TOKEN}`."""
    value = re.sub(r"\$\{(\w+)\}", lambda match: quote(os.environ.get(match[1], ""), safe=""), os.environ[ROUTE])
    return unquote(value.partition("?")[0])


def told(error: BaseException) -> str:
    """Return the error in one line, with the last line of the user's code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename.startswith(f"{Path.cwd()}{os.sep}")]
    own = [each for each in own if "site-packages" not in each.filename]
    place = f" ({os.path.relpath(own[-1].filename)}, line {own[-1].lineno})" if own else ""
    text = str(error) if isinstance(error, CannotMoveError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split()) + place


class Timed:
    """Measure an answer, and return the headers with which `under-siege trace` draws it."""

    def __init__(self) -> None:
        self.began_s, self.began_cpu_s = time.monotonic(), time.process_time()

    def headers(self) -> "list[tuple[str, str]]":
        span_ms, cpu_ms = 1000 * (time.monotonic() - self.began_s), 1000 * (time.process_time() - self.began_cpu_s)
        worker = f"{os.getpid()}/{threading.current_thread().name}"
        return [("x-worker", worker), ("x-ran", f"{self.began_s:.6f} 0.00/{span_ms:.2f}/{cpu_ms:.2f}")]


async def complete_response(
    app: AsgiApplication, scope: Message, body: bytes, on_complete: "Callable[[list[Message]], None]"
) -> None:
    """Call the application until it returns; pass its messages on as soon as its body is complete.

    Raises:
        CannotMoveError: the response is a stream, or the application ended without a response.
    """
    messages: list[Message] = []
    is_complete, timed, size, is_read = asyncio.Event(), Timed(), 0, False

    async def receive() -> Message:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}
        await is_complete.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal size
        if is_complete.is_set():
            return
        messages.append(message)
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            raise CannotMoveError(f"its response has more than {MOST_BYTES:,} bytes, and moves only as a whole")
        if any(key.lower() == b"content-type" and is_stream(value) for key, value in message.get("headers", ())):
            raise CannotMoveError("its response is a stream of events, and only complete responses can be moved")
        if message["type"] == "http.response.body" and not message.get("more_body"):
            added = [(key.encode(), value.encode()) for key, value in timed.headers()]
            messages[0]["headers"] = [*messages[0].get("headers", ()), *added]
            is_complete.set()
            on_complete(messages)

    try:
        await app(scope, receive, send)
    except BaseException as error:
        if not is_complete.is_set():
            raise CannotMoveError(told(error)) from error
        traceback.print_exc()  # as a server does with an error after the response
    if not is_complete.is_set():
        raise CannotMoveError("the application ended without a response")


def is_stream(content_type: bytes) -> bool:
    return content_type.lower().startswith(b"text/event-stream")


def give(connection: Connection, response: Any, problem: str = "") -> None:
    """Return a response to the server, or why there is none."""
    connection.send_bytes(pickle.dumps((response, problem)))


class AsgiWorker:
    """The application in a process of the pool, whose event loop also runs between two requests."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.loop = connection, asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.app: AsgiApplication = load()
        self.state: dict[str, Any] = {}
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.outbox: asyncio.Queue[Message] = asyncio.Queue()
        self.server_ended: asyncio.Future[None] = self.loop.create_future()
        self.answers: set[asyncio.Task[None]] = set()  # otherwise, tasks might be collected as garbage
        self.loop.run_until_complete(self.start())

    async def start(self) -> None:
        self.lifespan = self.loop.create_task(self.run_lifespan())
        await self.inbox.put({"type": "lifespan.startup"})
        answer = await self.outbox.get()
        if answer["type"] == "lifespan.startup.failed":
            lines = str(answer.get("message") or "").strip().splitlines()
            raise CannotMoveError(f"the lifespan failed: {lines[-1] if lines else 'no reason given'}")

    async def run_lifespan(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        with contextlib.suppress(Exception):  # as in servers: the application may not support it
            await self.app(scope, self.inbox.get, self.outbox.put)
        await self.outbox.put({"type": "ended"})

    def run(self) -> None:
        """Answer requests until the server ends."""
        self.loop.add_reader(self.connection.fileno(), self.take)
        self.loop.run_until_complete(self.server_ended)
        if not self.lifespan.done():
            self.inbox.put_nowait({"type": "lifespan.shutdown"})
            self.loop.run_until_complete(asyncio.wait([self.lifespan], timeout=STOP_LIMIT_S))

    def take(self) -> None:
        try:
            scope, body = pickle.loads(self.connection.recv_bytes())  # noqa: S301 (from our own process)
        except (EOFError, OSError):
            self.loop.remove_reader(self.connection.fileno())
            self.server_ended.set_result(None)
            return
        task = self.loop.create_task(self.answer(scope, body))
        self.answers.add(task)
        task.add_done_callback(self.answers.discard)

    async def answer(self, scope: Message, body: bytes) -> None:
        scope["state"] = dict(self.state)
        try:
            await complete_response(self.app, scope, body, lambda messages: give(self.connection, messages))
        except CannotMoveError as error:
            give(self.connection, [], str(error))


class WsgiWorker:
    """The application in a process of the pool."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.app = connection, load()

    def run(self) -> None:
        """Answer requests until the server ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                environ, body = pickle.loads(self.connection.recv_bytes())  # noqa: S301 (from our own process)
                try:
                    give(self.connection, self.respond(environ, body))
                except CannotMoveError as error:
                    give(self.connection, None, str(error))

    def respond(self, environ: "dict[str, Any]", body: bytes) -> "tuple[str, list[tuple[str, str]], bytes]":
        timed, written = Timed(), io.BytesIO()
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: "list[tuple[str, str]]", _: Any = None) -> Callable[[bytes], object]:
            started[:] = [(status, headers)]
            return written.write

        environ |= {"wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr, "wsgi.version": (1, 0)}
        environ |= {"wsgi.multithread": False, "wsgi.multiprocess": True, "wsgi.run_once": False}
        environ["wsgi.input_terminated"] = True
        try:
            parts = self.app(environ, start_response)
            try:
                for part in parts:
                    written.write(part)
                    if written.tell() > MOST_BYTES:
                        raise CannotMoveError(f"its response has more than {MOST_BYTES:,} bytes")
                    if any(name.lower() == "content-type" and is_stream(text.encode()) for name, text in started[0][1]):
                        raise CannotMoveError("its response is a stream of events, and only complete ones can be moved")
            finally:
                getattr(parts, "close", int)()
        except BaseException as error:
            raise CannotMoveError(told(error)) from error
        status, headers = started[0]
        return status, [*headers, *timed.headers()], written.getvalue()


class PortWorker:
    """The application on a port of its own, for frameworks without an interface between servers and applications."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.loop = connection, asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.server_ended: asyncio.Future[None] = self.loop.create_future()
        self.port = self.loop.run_until_complete(self.start())

    async def start(self) -> int:
        """Start the application, and return its port."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the application."""

    def run(self) -> None:
        """Tell the server the port, and answer requests until the server ends."""
        self.connection.send(self.port)
        self.loop.add_reader(self.connection.fileno(), self.server_ended.set_result, None)
        self.loop.run_until_complete(self.server_ended)
        self.loop.remove_reader(self.connection.fileno())
        self.loop.run_until_complete(asyncio.wait_for(self.stop(), STOP_LIMIT_S))


class AiohttpWorker(PortWorker):
    async def start(self) -> int:
        from aiohttp import web

        self.runner = web.AppRunner(await loaded_aiohttp())
        await self.runner.setup()
        await web.TCPSite(self.runner, LOOPBACK, 0).start()
        return int(self.runner.addresses[0][1])

    async def stop(self) -> None:
        await self.runner.cleanup()


class TornadoWorker(PortWorker):
    async def start(self) -> int:
        from tornado import httpserver, netutil

        sockets = netutil.bind_sockets(0, LOOPBACK)
        httpserver.HTTPServer(load()).add_sockets(sockets)
        return int(sockets[0].getsockname()[1])


async def loaded_aiohttp() -> Any:
    app = load()
    return await app if inspect.isawaitable(app) else app


WORKERS = {"asgi": AsgiWorker, "wsgi": WsgiWorker, "aiohttp": AiohttpWorker, "tornado": TornadoWorker}


def work(kind: str, connection: Connection) -> None:
    """Import the application in a process of the pool, report an empty text or what failed, and answer requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the server stops its workers
    worker: Any
    try:
        worker = WORKERS[kind](connection)
    except BaseException as error:  # an application may even exit
        connection.send(told(error))
        return
    connection.send("")
    worker.run()


class Pool:
    """Processes that have all imported the application, with a connection to each.

    Like a broken `ProcessPoolExecutor`, it answers no request after one of its processes has ended.
    """

    def __init__(self, kind: str) -> None:
        """Start the processes; raise CannotMoveError if the application can't be imported there."""
        context, self.is_broken = multiprocessing.get_context("spawn"), False
        self.connections: list[Connection] = []
        self.processes: list[Any] = []
        for _ in range(int(os.environ[POOL])):
            ours, theirs = context.Pipe()
            self.processes.append(context.Process(target=work, args=(kind, theirs)))
            self.processes[-1].start()
            theirs.close()
            self.connections.append(ours)
        atexit.register(self.close)
        for connection in self.connections:
            try:
                problem = connection.recv()
            except EOFError:
                problem = f"it ended while it imported {os.environ[APPLICATION]}"
            if problem:
                self.close()
                raise CannotMoveError(f"the application can't start in another process: {problem}")

    def close(self) -> None:
        """End the processes."""
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.join(STOP_LIMIT_S)
            process.kill()

    def send(self, connection: Connection, request: Any, body: bytes) -> None:
        if self.is_broken:
            raise CannotMoveError(ENDED)
        connection.send_bytes(pickle.dumps((request, body)))

    def received(self, connection: Connection) -> Any:
        """Return the response that arrives on this connection."""
        try:
            response, problem = pickle.loads(connection.recv_bytes())  # noqa: S301 (from our own process)
        except (EOFError, OSError):
            self.is_broken, problem = True, ENDED
        if problem:
            raise CannotMoveError(problem)
        return response


class Exchange:
    """Requests of an event loop to a pool, and the responses that they wait for."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.loop = pool, asyncio.get_running_loop()
        self.idle: asyncio.Queue[Connection] = asyncio.Queue()
        self.awaited: dict[Connection, asyncio.Future[list[Message]]] = {}
        for connection in pool.connections:
            self.loop.add_reader(connection.fileno(), self.take, connection)
            self.idle.put_nowait(connection)

    async def response(self, scope: Message, body: bytes) -> "list[Message]":
        connection = await self.idle.get()
        try:
            self.pool.send(connection, {key: scope[key] for key in SCOPE if key in scope}, body)
        except (OSError, CannotMoveError):
            self.idle.put_nowait(connection)
            raise
        awaited: asyncio.Future[list[Message]] = self.loop.create_future()
        self.awaited[connection] = awaited
        return await awaited

    def take(self, connection: Connection) -> None:
        """Pass a response to the request that waits for it, unless that was cancelled."""
        awaited = self.awaited.pop(connection, None)
        try:
            messages = self.pool.received(connection)
        except CannotMoveError as error:
            if self.pool.is_broken:
                self.loop.remove_reader(connection.fileno())
            if awaited and not awaited.done():
                awaited.set_exception(error)
        else:
            if awaited and not awaited.done():
                awaited.set_result(messages)
        if awaited:
            self.idle.put_nowait(connection)


def respond_in_thread(
    app: AsgiApplication, scope: Message, body: bytes, answered: "Future[list[Message]]", loops: threading.local
) -> None:
    """Answer a request on an event loop of this thread, which is then free for the next request."""
    if not hasattr(loops, "own"):
        loops.own = asyncio.new_event_loop()
    try:
        loops.own.run_until_complete(complete_response(app, scope, body, answered.set_result))
    except BaseException as error:
        answered.set_exception(error)


class Threads:
    """Requests of an event loop to threads that have event loops of their own."""

    def __init__(self, app: AsgiApplication) -> None:
        self.app, self.pool, self.loops = app, ThreadPoolExecutor(THREADS), threading.local()

    async def response(self, scope: Message, body: bytes) -> "list[Message]":
        answered: Future[list[Message]] = Future()
        self.pool.submit(respond_in_thread, self.app, scope, body, answered, self.loops)
        return await asyncio.wrap_future(answered)


def asgi() -> AsgiApplication:
    """Return the ASGI application, in which the requests for the route are moved."""
    app, moved, pool = load(), route(), None if os.environ[POOL] == IN_THREADS else Pool("asgi")
    place: Union[Exchange, Threads, None] = None

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal place
        if scope["type"] == "lifespan":
            await serve_lifespan(app, pool.close if pool else int, scope, receive, send)
        elif scope["type"] != "http" or scope["path"] != moved:
            await app(scope, receive, send)
        else:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), bool(message.get("more_body"))
            place = place or (Exchange(pool) if pool else Threads(app))
            for message in await place.response(scope, body):
                await send(message)

    return serve


async def serve_lifespan(
    app: AsgiApplication, close: Callable[[], object], scope: Message, receive: Receive, send: Send
) -> None:
    """Pass the lifespan on to the application, even if it has none, and close the pool at the end."""
    has_begun = False

    async def send_later(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        if message["type"].startswith("lifespan.shutdown"):
            close()
        await send(message)

    try:
        await app(scope, receive, send_later)
    except Exception:
        if has_begun:
            raise
    if not has_begun:
        await send({"type": "lifespan.startup.complete"})
        while (await receive())["type"] != "lifespan.shutdown":
            pass
        await send_later({"type": "lifespan.shutdown.complete"})


def wsgi() -> "Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]":
    """Return the WSGI application, in which the requests for the route are moved to a process pool."""
    app, moved, pool = load(), route(), Pool("wsgi")
    idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
    for each in pool.connections:
        idle.put(each)

    def serve(environ: "dict[str, Any]", start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace") != moved:
            found: Iterable[bytes] = app(environ, start_response)
            return found
        plain = {key: value for key, value in environ.items() if isinstance(value, str)}
        request = plain, environ["wsgi.input"].read()
        connection = idle.get()
        try:
            pool.send(connection, *request)
            status, headers, body = pool.received(connection)
        finally:
            idle.put(connection)
        start_response(status, headers)
        return [body]

    return serve


def idle_ports(pool: Pool) -> "asyncio.Queue[tuple[int, int]]":
    """Return a queue with the ids of the processes, and the ports on which they answer."""
    idle: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    for process, connection in zip(pool.processes, pool.connections):
        idle.put_nowait((process.pid, connection.recv()))
    return idle


async def aiohttp() -> Any:
    """Return the aiohttp application, in which the requests for the route are passed to processes on other ports."""
    from aiohttp import ClientError, ClientSession, web

    app, moved, pool = await loaded_aiohttp(), route(), Pool("aiohttp")
    idle = idle_ports(pool)

    async def clients(_: Any) -> AsyncIterator[None]:
        async with ClientSession(auto_decompress=False) as session:
            sessions.append(session)
            yield
        pool.close()

    @web.middleware
    async def elsewhere(request: Any, handler: Any) -> Any:
        if request.path != moved:
            return await handler(request)
        body, (pid, port) = await request.read(), await idle.get()
        try:
            if pool.is_broken:
                raise CannotMoveError(ENDED)
            sent = {"headers": request.headers, "data": body, "allow_redirects": False}
            async with sessions[0].request(
                request.method, f"http://{LOOPBACK}:{port}{request.path_qs}", **sent
            ) as found:
                if is_stream(found.content_type.encode()):
                    raise CannotMoveError("its response is a stream of events, and only complete ones can be moved")
                headers = [(name, value) for name, value in found.headers.items() if name.lower() not in OF_CONNECTION]
                response = web.Response(status=found.status, body=await found.read(), headers=headers)
                response.headers["x-worker"] = f"{pid}/MainThread"
                return response
        except ClientError:
            pool.is_broken = True
            raise CannotMoveError(ENDED) from None
        finally:
            idle.put_nowait((pid, port))

    sessions: list[Any] = []
    app.middlewares.insert(0, elsewhere)
    app.cleanup_ctx.append(clients)
    return app


def tornado() -> Any:
    """Return the Tornado application, in which the requests for the route are passed to processes on other ports."""
    from tornado import httpclient, routing, web

    app, moved, pool = load(), route(), Pool("tornado")
    queues: list[asyncio.Queue[tuple[int, int]]] = []  # its loop must be that of the requests

    class Moved(routing.Matcher):
        def match(self, request: Any) -> "Optional[dict[str, Any]]":
            return {} if unquote(request.path) == moved else None

    class Elsewhere(web.RequestHandler):
        def check_xsrf_cookie(self) -> None:
            """Leave the check to the application."""

        def compute_etag(self) -> None:
            """Leave the header to the application."""

        async def prepare(self) -> None:
            queues[:] = queues or [idle_ports(pool)]
            pid, port = await queues[0].get()
            given, url = self.request, f"http://{LOOPBACK}:{port}{self.request.uri}"
            body = given.body or (b"" if given.method in ("POST", "PUT", "PATCH") else None)
            sent = {"method": given.method, "headers": given.headers, "body": body, "request_timeout": 0.0}
            wanted = {"follow_redirects": False, "decompress_response": False, "allow_nonstandard_methods": True}
            try:
                if pool.is_broken:
                    raise CannotMoveError(ENDED)
                found = await httpclient.AsyncHTTPClient().fetch(url, raise_error=False, **sent, **wanted)
            finally:
                queues[0].put_nowait((pid, port))
            if found.code == NO_RESPONSE:
                pool.is_broken = True
                raise CannotMoveError(ENDED)
            if is_stream(found.headers.get("Content-Type", "").encode()):
                raise CannotMoveError("its response is a stream of events, and only complete ones can be moved")
            self.clear()
            self.clear_header("Content-Type")
            self.set_status(found.code, found.reason)
            for name, value in found.headers.get_all():
                if name.lower() not in OF_CONNECTION:
                    self.add_header(name, value)
            self.set_header("x-worker", f"{pid}/MainThread")
            await self.finish(found.body)

    app.default_router.rules.insert(0, routing.Rule(Moved(), Elsewhere))
    return app
