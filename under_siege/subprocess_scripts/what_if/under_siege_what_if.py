"""Serve an application, but answer the requests for one route in a process pool or in threads ("what if").

Servers import this module in the user's Python, which may be 3.9, and call `asgi` or `wsgi`, so it imports only the
standard library. It has its own directory, which is on PYTHONPATH, so that no other module hides one of the user's.

All other requests stay where they are. A request for the route is read completely. A worker, which has imported the
same application and run its lifespan, gets it and returns the response as soon as the body is complete. What the
application does afterwards, such as background tasks, goes on in the worker.
"""

import asyncio
import contextlib
import importlib
import io
import multiprocessing
import multiprocessing.util
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional
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
LOOK_S = 0.01
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


class AsgiWorker:
    """The application in a worker process. Its event loop runs in a thread, also between two requests."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.app: AsgiApplication = load()
        self.state: dict[str, Any] = {}
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.outbox: asyncio.Queue[Message] = asyncio.Queue()
        self.ran: set[asyncio.Task[None]] = set()  # otherwise, tasks might be collected as garbage
        self.loop.run_until_complete(self.start())  # in the main thread, as in a server
        threading.Thread(target=self.loop.run_forever, name="loop", daemon=True).start()

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

    def respond(self, scope: Message, body: bytes) -> "list[Message]":
        scope["state"] = dict(self.state)
        return asyncio.run_coroutine_threadsafe(self.messages(scope, body), self.loop).result()

    async def messages(self, scope: Message, body: bytes) -> "list[Message]":
        found: asyncio.Future[list[Message]] = self.loop.create_future()
        task = self.loop.create_task(complete_response(self.app, scope, body, found.set_result))
        self.ran.add(task)
        task.add_done_callback(self.ran.discard)
        either: list[asyncio.Future[Any]] = [found, task]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            task.result()  # raises the error
        return found.result()

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(STOP_LIMIT_S)

    async def end(self) -> None:
        if not self.lifespan.done():
            await self.inbox.put({"type": "lifespan.shutdown"})
            await self.lifespan


class WsgiWorker:
    """The application in a worker process."""

    def __init__(self) -> None:
        self.app = load()

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
                        raise CannotMoveError("its response is a stream of events")
            finally:
                getattr(parts, "close", int)()
        except BaseException as error:
            raise CannotMoveError(told(error)) from error
        status, headers = started[0]
        return status, [*headers, *timed.headers()], written.getvalue()

    def stop(self) -> None:
        """Do nothing: WSGI has no lifespan."""


WORKERS = {"asgi": AsgiWorker, "wsgi": WsgiWorker}
worker: Any = None  # of this process, if it is one of the pool


def start_worker(kind: str, reports: Any) -> None:
    """Prepare a process of the pool, and report an empty text or what failed."""
    global worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C, the server stops its workers
    try:
        worker = WORKERS[kind]()
        multiprocessing.util.Finalize(None, worker.stop, exitpriority=100)
    except BaseException as error:  # an application may even exit
        reports.put(told(error) or type(error).__name__)
    else:
        reports.put("")


def respond(request: "dict[str, Any]", body: bytes) -> Any:
    return worker.respond(request, body)


def process_pool(kind: str) -> Executor:
    """Return a pool whose processes have all imported the application.

    Raises:
        CannotMoveError: the application can't be imported in one of them, or its lifespan failed there.
    """
    context = multiprocessing.get_context("spawn")
    processes, reports = int(os.environ[POOL]), context.SimpleQueue()
    pool = ProcessPoolExecutor(processes, context, start_worker, (kind, reports))
    jobs = [pool.submit(int) for _ in range(processes)]  # a pool starts a process only for a job
    problem, waiting = "", processes
    while waiting and not problem:
        if not reports.empty():
            problem, waiting = reports.get(), waiting - 1
        elif any(job.done() and job.exception() for job in jobs):
            problem = f"it ended while it imported {os.environ[APPLICATION]}"
        else:
            jobs[:1] = [pool.submit(int)] if jobs[0].done() else jobs[:1]  # fails if a process has ended
            time.sleep(LOOK_S)
    if problem:
        pool.shutdown(wait=False)
        raise CannotMoveError(f"the application can't start in another process: {problem}")
    return pool


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


def asgi() -> AsgiApplication:
    """Return the ASGI application, in which the requests for the route are moved."""
    app, moved, in_threads = load(), route(), os.environ[POOL] == IN_THREADS
    pool = ThreadPoolExecutor(THREADS) if in_threads else process_pool("asgi")
    loops = threading.local()

    async def messages(scope: Message, body: bytes) -> "list[Message]":
        if not in_threads:
            plain = {key: scope[key] for key in SCOPE if key in scope}
            return await asyncio.get_running_loop().run_in_executor(pool, respond, plain, body)
        answered: Future[list[Message]] = Future()
        pool.submit(respond_in_thread, app, scope, body, answered, loops)
        return await asyncio.wrap_future(answered)

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await serve_lifespan(app, pool, scope, receive, send)
        elif scope["type"] != "http" or scope["path"] != moved:
            await app(scope, receive, send)
        else:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), bool(message.get("more_body"))
            for message in await messages(scope, body):
                await send(message)

    return serve


async def serve_lifespan(app: AsgiApplication, pool: Executor, scope: Message, receive: Receive, send: Send) -> None:
    """Pass the lifespan on to the application, even if it has none, and shut the pool down at the end."""
    has_begun = False

    async def send_later(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        if message["type"].startswith("lifespan.shutdown"):
            pool.shutdown()
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
    app, moved, pool = load(), route(), process_pool("wsgi")

    def serve(environ: "dict[str, Any]", start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: Optional[str] = environ.get("PATH_INFO")
        if (path or "").encode("latin-1").decode("utf-8", "replace") != moved:
            found: Iterable[bytes] = app(environ, start_response)
            return found
        plain = {key: value for key, value in environ.items() if isinstance(value, str)}
        status, headers, body = pool.submit(respond, plain, environ["wsgi.input"].read()).result()
        start_response(status, headers)
        return [body]

    return serve
