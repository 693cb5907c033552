"""The wrapper that answers a route in threads or in processes, and the changes that the bench proposes instead."""

import contextlib
import functools
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from command import invoke
from conftest import Answer, receive, wait_until
from sample_applications import DJANGO_APPS, write

from under_siege.record.record import Record
from under_siege.record.requests import CORRECT, LOAD
from under_siege.record.result import MovedRoute, load
from under_siege.suite.application import RouteFunction
from under_siege.suite.route_change import change_of
from under_siege.suite.selection import suite_of
from under_siege.suite.suite import Suite
from under_siege.suite.suite_from_application import TargetOptions
from under_siege.suite.what_if import is_what_if

LIMIT_S = 120.0
SHORT = ("--users", "2", "--time", "1s", "--rounds", "1", "--ready-within", "60s", "--out", "r.json")
GATE = """\
import ctypes, os
def wait_with_the_gil():
    \"\"\"Read a byte from a pipe without releasing the GIL, as code that computes forever would.\"\"\"
    pipe = os.open("gate", os.O_RDWR)
    ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)
    os.close(pipe)
"""


class Gate:
    """A pipe on which a route waits until the test writes to it."""

    def __init__(self, folder: Path) -> None:
        write(folder, {"gate.py": GATE})
        os.mkfifo(folder / "gate")
        self._pipe = os.open(folder / "gate", os.O_RDWR)

    def let_through(self, requests: int = 1) -> None:
        os.write(self._pipe, b"." * requests)

    def close(self) -> None:
        self.let_through(100)
        os.close(self._pipe)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has a link to the environment of the tests."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gate(shop: Path) -> Iterator[Gate]:
    opened = Gate(shop)
    yield opened
    opened.close()


@functools.cache
def suite_for(app: str, path: str, folder: Path, strategies: tuple[str, ...] = ("as-is", "processes")) -> Suite:
    """Return the suite of an application in the current folder, which is inspected only once."""
    assert folder == Path.cwd()
    return suite_of([app], TargetOptions(path=path, strategies=strategies))


def route_of(app: str, path: str) -> MovedRoute:
    route = suite_for(app, path, Path.cwd()).route
    assert route is not None
    return route


@contextlib.contextmanager
def served(app: str, path: str, strategy: str) -> Iterator[int]:
    """Start the server that the bench starts for this strategy in the current folder, and yield its port."""
    with serving(app, path, strategy) as (_, port):
        yield port


@contextlib.contextmanager
def serving(app: str, path: str, strategy: str) -> Iterator[tuple[psutil.Popen, int]]:
    """Yield the process and the port of the server."""
    suite = suite_for(app, path, Path.cwd(), *([("threads",)] if strategy == "threads" else []))
    (target,) = (each for each in suite.targets if is_what_if(each.name) == (strategy != "as-is"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    workers = 2 if strategy == "processes" else 1
    values = {"python": sys.executable, "host": "127.0.0.1", "port": port, "workers": workers, "threads": 8}
    environment = {name: text.format(**values) for name, text in target.environment}
    command = [word.format(**values) for word in target.command]
    process = psutil.Popen(command, env={**os.environ, **environment}, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or listens(port), limit_s=LIMIT_S)
        assert process.poll() is None
        yield process, port
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
        process.wait(LIMIT_S)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def get(port: int, path: str, body: str | None = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET" if body is None else "POST", path, body, headers)
    return receive(connection)


@contextlib.contextmanager
def asking(port: int, *paths: str) -> Iterator[list[Future[Answer]]]:
    """Send requests at the same moment, and yield their responses, which may come later."""
    with ThreadPoolExecutor(len(paths)) as clients:
        yield [clients.submit(get, port, path) for path in paths]


FULL = """\
import contextlib, os, pathlib, threading, time
from typing import Annotated
from fastapi import BackgroundTasks, Depends, FastAPI, Request
from gate import wait_with_the_gil

@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.began = os.getpid()
    yield {"greeting": "hello"}
    pathlib.Path(f"ended-{os.getpid()}").touch()

app = FastAPI(lifespan=lifespan)

@app.middleware("http")
async def passing(request, call_next):
    response = await call_next(request)
    response.headers["x-passed"] = "yes"
    return response

def began(request: Request):
    return request.app.state.began

def later():
    while not pathlib.Path("open").exists():
        time.sleep(0.01)
    pathlib.Path(f"later-{os.getpid()}").touch()

@app.post("/report")
@app.get("/report")
async def report(request: Request, where: Annotated[int, Depends(began)], tasks: BackgroundTasks, name: str = ""):
    if name == "later":
        tasks.add_task(later)
    if name == "held":
        wait_with_the_gil()
    if name == "slow":
        open("gate", "rb", buffering=0).read(1)
    if name == "fails":
        raise KeyError(name)
    body = (await request.body()).decode()
    is_main = threading.current_thread() is threading.main_thread()
    here = [os.getpid(), where, is_main]
    return {"greeting": request.state.greeting, "name": name, "body": body, "header": request.headers.get("x-own"), **(
        {"here": here} if name == "where" else {})}

@app.get("/other")
async def other():
    return os.getpid()
"""


def test_a_pool_answers_one_route_as_the_application_does_and_everything_else_stays(shop: Path, gate: Gate) -> None:
    write(shop, {"shop.py": FULL})
    with served("shop:app", "/report", "as-is") as port:
        right = [get(port, "/report?name=caf%C3%A9", "body", **{"x-own": "1"}), get(port, "/report?name=fails")]
    with served("shop:app", "/report", "processes") as port:
        moved = [get(port, "/report?name=caf%C3%A9", "body", **{"x-own": "1"}), get(port, "/report?name=fails")]
        assert [(each.status, each.body) for each in moved] == [(each.status, each.body) for each in right]
        assert moved[0].headers["x-passed"] == "yes"
        front = int(get(port, "/other").body)
        process, lifespan, _ = json.loads(get(port, "/report?name=where").body)["here"]
        assert process == lifespan != front
        with asking(port, "/report?name=held", "/report?name=held", "/report?name=later") as responses:
            assert int(get(port, "/other").body) == front  # although both processes hold their GIL
            assert not any(response.done() for response in responses[:2])
            gate.let_through(2)
            assert {response.result().status for response in responses} == {200}
        assert not list(shop.glob("later-*"))  # its response does not wait for the task behind it
        (shop / "open").touch()
        (later,) = wait_until(lambda: list(shop.glob("later-*")), LIMIT_S)
        assert later.name != f"later-{front}"
    assert len(list(shop.glob("ended-*"))) >= 3  # the lifespan also ends in each process


def test_threads_answer_one_route_while_the_event_loop_is_free(shop: Path, gate: Gate) -> None:
    write(shop, {"shop.py": FULL})
    with served("shop:app", "/report", "threads") as port:
        front = int(get(port, "/other").body)
        assert json.loads(get(port, "/report?name=where").body)["here"] == [front, front, False]
        with asking(port, "/report?name=slow", "/report?name=slow") as responses:
            assert int(get(port, "/other").body) == front
            assert not any(response.done() for response in responses)
            gate.let_through(2)
            assert {response.result().status for response in responses} == {200}


AIOHTTP = """\
import os, pathlib
from aiohttp import web
from gate import wait_with_the_gil

async def report(request):
    name = request.query.get("name", "")
    if name == "held":
        wait_with_the_gil()
    if name == "fails":
        raise web.HTTPNotFound(text="no such report", headers={"x-own": "2"})
    return web.json_response({"name": name, "body": await request.text(), "header": request.headers.get("x-own")})

async def other(request):
    return web.Response(text=str(os.getpid()))

async def began(app):
    yield
    pathlib.Path(f"ended-{os.getpid()}").touch()

async def make_app():
    app = web.Application()
    app.add_routes([web.get("/report", report), web.post("/report", report), web.get("/other", other)])
    app.cleanup_ctx.append(began)
    return app
"""


TORNADO = """\
import os
import tornado.web
from gate import wait_with_the_gil

class Report(tornado.web.RequestHandler):
    async def get(self):
        name = self.get_argument("name", "")
        if name == "held":
            wait_with_the_gil()
        if name == "fails":
            self.set_header("x-own", "2")
            raise tornado.web.HTTPError(404)
        self.write({"name": name, "body": self.request.body.decode(), "header": self.request.headers.get("x-own")})
    post = get

class Other(tornado.web.RequestHandler):
    def get(self):
        self.write(str(os.getpid()))

app = tornado.web.Application([("/report", Report), ("/other", Other)])
"""


@pytest.mark.parametrize(
    ("app", "source"), [("shop:make_app", AIOHTTP), ("shop:app", TORNADO)], ids=["aiohttp", "tornado"]
)
def test_a_route_of_a_framework_without_asgi_moves_too(app: str, source: str, shop: Path, gate: Gate) -> None:
    write(shop, {"shop.py": source})
    paths = ("/report?name=caf%C3%A9", "body"), ("/report?name=fails", None)
    with served(app, "/report", "as-is") as port:
        right = [get(port, *each, **{"x-own": "1"}) for each in paths]
    with served(app, "/report", "processes") as port:
        moved = [get(port, *each, **{"x-own": "1"}) for each in paths]
        for one, other in zip(moved, right, strict=True):
            same = ("content-type", "x-own", "etag")
            assert (one.status, one.body) == (other.status, other.body)
            assert [one.headers.get(name) for name in same] == [other.headers.get(name) for name in same]
        front = int(get(port, "/other").body)
        assert not moved[0].headers["x-worker"].startswith(f"{front}/")
        with asking(port, "/report?name=held", "/report?name=held") as responses:
            assert int(get(port, "/other").body) == front  # although both processes hold their GIL
            assert not any(response.done() for response in responses)
            gate.let_through(2)
            assert {response.result().status for response in responses} == {200}
    if source == AIOHTTP:  # its lifespan also ends in each process
        wait_until(lambda: len(list(shop.glob("ended-*"))) >= 3, LIMIT_S)


HOLD = "from gate import wait_with_the_gil\n"
BODY = '    wait_with_the_gil()\n    return {"name": name, "sum": sum(range(7))}\n'
HEALTH = 'health():\n    return "ok"\n'
FASTAPI = f"""\
from fastapi import FastAPI
{HOLD}app = FastAPI()
@app.get("/report")
def report(name: str) -> dict:
{BODY}@app.get("/health")
async def {HEALTH}"""
STARLETTE = f"""\
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
{HOLD}def report(request):
    wait_with_the_gil()
    return JSONResponse({{"sum": sum(range(7))}})
async def health(request):
    return PlainTextResponse("ok")
app = Starlette(routes=[Route("/report", report), Route("/health", health)])
"""
LITESTAR = f"""\
from litestar import Litestar, get
{HOLD}@get("/report", sync_to_thread=False)
def report(name: str) -> dict:
{BODY}@get("/health")
async def {HEALTH.replace(":", " -> str:", 1)}app = Litestar([report, health])
"""
FLASK = f"""\
from flask import Blueprint, Flask
{HOLD}reports = Blueprint("reports", __name__, url_prefix="/v1")
@reports.get("/report/<name>")
def report(name):
    \"\"\"Return the report.\"\"\"
{BODY}def create_app():
    app = Flask(__name__)
    app.register_blueprint(reports)
    app.add_url_rule("/health", view_func=lambda: "ok", endpoint="health")
    return app
"""
DJANGO = DJANGO_APPS | {
    "config/settings.py": """\
SECRET_KEY, ROOT_URLCONF, INSTALLED_APPS, ALLOWED_HOSTS = "x", "config.urls", [], ["*"]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": ["templates"]}]
""",
    "templates/report.html": "<p>{{ name }}: {{ sum }}</p>",
    "config/urls.py": f"""\
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.urls import path
{HOLD}def report(request, name):
    wait_with_the_gil()
    return HttpResponse(render_to_string("report.html", {{"name": name, "sum": sum(range(7))}}))
def health(request):
    return HttpResponse("ok")
urlpatterns = [path("report/<str:name>", report), path("health", health)]
""",
}
CHANGED = {  # name: files, the path of the route
    "shop:app": ({"shop.py": FASTAPI}, "/report?name=caf%C3%A9"),
    "star:app": ({"star.py": STARLETTE}, "/report"),
    "lite:app": ({"lite.py": LITESTAR}, "/report?name=acme"),
    "flasks:create_app": ({"flasks.py": FLASK}, "/v1/report/acme"),
    "config.wsgi:application": (DJANGO, "/report/acme"),
    "config.asgi:application": (DJANGO, "/report/acme"),
}


def apply(route: MovedRoute, folder: Path, *command: str) -> None:
    """Apply the printed change in a folder."""
    assert route.diff, route.unmovable
    text = "".join(f"{line.rstrip()}\n" for line in route.diff).encode()  # as it is printed
    applied = subprocess.run(command, input=text, cwd=folder, check=False, capture_output=True)
    assert applied.returncode == 0, applied.stderr


@pytest.mark.parametrize("app", CHANGED, ids=["fastapi", "starlette", "litestar", "flask", "django", "django-asgi"])
def test_the_printed_change_keeps_the_responses_and_health_checks_no_longer_wait(
    app: str, shop: Path, gate: Gate
) -> None:
    files, path = CHANGED[app]
    write(shop, files)
    gate.let_through()
    with served(app, path, "as-is") as port:
        right = get(port, path)
    route = route_of(app, path)
    apply(route, shop, "patch", "-p1", "--fuzz=0")
    with served(app, path, "as-is") as port, asking(port, path) as (response,):
        assert get(port, "/health").status == 200
        assert not response.done()  # its process still holds a GIL
        gate.let_through()
        assert (response.result().status, response.result().body) == (right.status, right.body)


SOURCES = {
    "plain": 'import json\n\n\n@app.get("/")\ndef report(year: int):\n    """Return it."""\n    return year\n',
    "two-spaces": 'from web import app\n@app.get("/")\ndef report(year: int):\n  """Return it."""\n  return year\n',
    "no-last-end": '"""Docstring."""\nimport os, threading\n@app.get("/")\ndef report(year): return year',
    "directly-below": "from __future__ import annotations\napp = made()\n# a\n@app.get\ndef report(a):\n    return a\n",
    "tabs": 'first = 1\n@app.get("/")\ndef report(name):\n\treturn name\n\n\nlast = "\u2028"\n',
}


@pytest.mark.parametrize("command", [("git", "apply"), ("patch", "-p1", "--fuzz=0")], ids=["git", "patch"])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_git_and_patch_apply_the_printed_change_and_the_file_is_still_valid(
    source: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "web" / "shop.py"
    file.parent.mkdir()
    file.write_text(source)
    line = 1 + source[: source.index("@app")].count("\n")
    function = RouteFunction(name="report", file="web/shop.py", line=line, is_async=False)
    change = change_of(function, "fastapi", tmp_path)
    route = MovedRoute(path="/", server="uvicorn", diff=list(change.diff), unmovable=change.unmovable)
    apply(route, tmp_path, *command)
    changed = file.read_text()
    compile(changed, "shop.py", "exec")
    assert "def compute_report(" in changed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("app", ["shop:app", "config.asgi:application"])  # with different initializers
def test_the_processes_of_a_printed_pool_end_with_their_server(
    app: str, number: signal.Signals, shop: Path, gate: Gate
) -> None:
    files, path = CHANGED[app]
    write(shop, files)
    apply(route_of(app, path), shop, "git", "apply")
    with serving(app, path, "as-is") as (server, port):
        with asking(port, *[path] * 4) as responses:
            wait_until(lambda: len(server.children(recursive=True)) >= 3, LIMIT_S)  # also the resource tracker
            gate.let_through(4)
            assert {response.result().status for response in responses} == {200}
        started = server.children(recursive=True)
        server.send_signal(number)
        assert server.wait(LIMIT_S) == -number
        wait_until(lambda: not any(each.is_running() for each in started), LIMIT_S)


# Applications without a framework, which are imported quickly. Their routes wait, so that a load sends few requests.
WSGI = """\
import time
def app(environ, start_response):
    time.sleep(0.03)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"fine"]
"""
ASGI = """\
import asyncio
async def app(scope, receive, send):
    if scope["type"] == "http":
        await asyncio.sleep(0.03)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
"""


def measured(app: str, *words: str) -> tuple[dict[str, Record], str]:
    """Measure the strategies of an application; return the records by server, and the output."""
    ran = invoke("run", app, *words, *SHORT)
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {record.server: record for record in load(Path("r.json")).records}, ran.stdout


def test_wsgi_routes_are_measured_in_a_pool_beside_the_application_as_it_is(shop: Path) -> None:
    write(shop, {"shop.py": WSGI})
    words = ("--path", "/report", "--strategy", "as-is", "--strategy", "processes", "--rate", "20/s")
    records, output = measured("shop:app", *words)
    assert {server: record.failure for server, record in records.items()} == {
        "gthread": None,
        "what-if-processes": None,
    }
    assert "under_siege_what_if" in output
    paced = load(shop / "r.json").paced
    assert {(step.record.server, step.arrivals_per_s, step.record.failure) for step in paced} == {
        ("gthread", 20.0, None),
        ("what-if-processes", 20.0, None),
    }
    assert CORRECT in paced[0].record.requests.only(LOAD).outcome


def test_a_trace_shows_which_process_of_the_pool_answers_which_request(shop: Path) -> None:
    write(shop, {"shop.py": ASGI})
    ran = invoke("trace", "shop:app", "--path", "/report", "--ping", "/health", "--strategy", "processes")
    assert ran.returncode == 0, ran.stderr
    assert "what-if-processes" in ran.stdout
    assert "process 1" in ran.stdout
    assert "doesn't report when its tasks ran" not in ran.stdout


COUNTING = """\
import asyncio, itertools
numbers = itertools.count()
async def app(scope, receive, send):
    if scope["type"] == "http":
        await asyncio.sleep(0.03)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"visits": %d}' % next(numbers)})
"""
ALONE = """\
import asyncio, os, pathlib
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        try:
            pathlib.Path("locked").mkdir()
        except FileExistsError:
            return await send({"type": "lifespan.startup.failed", "message": "another process is running"})
        await send({"type": "lifespan.startup.complete"})
        await receive()
        pathlib.Path("locked").rmdir()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await asyncio.sleep(0.03)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})
"""
EVENTS = """\
import asyncio
async def app(scope, receive, send):
    if scope["type"] == "http":
        headers = [(b"content-type", b"text/event-stream")]
        await asyncio.sleep(0.03)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: fine\\n\\n"})
"""


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (COUNTING, "each response has another number, but 2 processes returned"),
        (ALONE, "can't start in another process: the lifespan failed: another process is running"),
        (EVENTS, "its response is a stream of events"),
    ],
    ids=["counter", "lifespan", "stream"],
)
def test_a_route_that_can_not_move_says_why_and_the_other_rows_are_measured(source: str, why: str, shop: Path) -> None:
    write(shop, {"shop.py": source})
    records, _ = measured("shop:app", "--path", "/", "--strategy", "as-is", "--strategy", "processes")
    assert records["uvicorn"].failure is None
    failure = records["what-if-processes"].failure
    assert failure is not None
    assert why in failure.message


OTHER_ORDER = """\
import asyncio, multiprocessing
is_in_pool = multiprocessing.parent_process() is not None
BODY = b'{"two": 2, "one": 1}' if is_in_pool else b'{"one": 1, "two": 2}'
async def app(scope, receive, send):
    if scope["type"] == "http":
        await asyncio.sleep(0.03)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": BODY})
"""


def test_processes_that_order_the_keys_of_their_json_differently_are_measured(shop: Path) -> None:
    write(shop, {"shop.py": OTHER_ORDER})
    records, output = measured("shop:app", "--path", "/", "--strategy", "as-is", "--strategy", "processes")
    assert {server: record.failure for server, record in records.items()} == {
        "uvicorn": None,
        "what-if-processes": None,
    }
    assert "compared as JSON, not byte for byte" in output
