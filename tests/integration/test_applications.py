"""Applications of users: what Under Siege finds out about each kind, in its own Python, and what it does about it."""

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult, invoke
from other_pythons import old_pythons
from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.environments import locked_requirements
from under_siege.host.interpreter import UserEnvironment, user_environment
from under_siege.measure import base_revision
from under_siege.record.result import Result, load
from under_siege.suite.application import Application, inspected
from under_siege.suite.deployments import deployments_of, missing
from under_siege.suite.suite import READY_WITHIN_S
from under_siege.suite.suite_file import read_suite

RunCli = Callable[..., CommandResult]
SHORT = ("--workers", "1", "--users", "2", "--time", "1s", "--rounds", "1", "--out", "r.json")

DJANGO_APPS = {
    f"config/{kind}.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'config.settings')\n"
    f"from django.core.{kind} import get_{kind}_application\napplication = get_{kind}_application()\n"
    for kind in ("asgi", "wsgi")
}
DJANGO = DJANGO_APPS | {
    "config/settings/base.py": "SECRET_KEY = 'x'\nROOT_URLCONF = 'config.urls'\nINSTALLED_APPS = []\n",
    "config/settings/__init__.py": "from .base import *\nALLOWED_HOSTS = ['shop.example']\n",
    "config/urls.py": """\
from django.http import HttpResponse
from django.urls import include, path, re_path
def view(request, **_): return HttpResponse("fine")
shop = [path("items/<int:id>", view), path("report", view)]
urlpatterns = [path("shop/", include(shop)), re_path("^healthz$", view)]
""",
}
FASTAPI = """\
from fastapi import APIRouter, FastAPI
app, router = FastAPI(), APIRouter(prefix="/v1")
@router.get("/items/{number}")
def item(number: int): ...
@router.get("/search")
def search(customer: str): ...
@router.get(path="/report")
def report(): return sum(range(10_000))
@app.get("/api/health", include_in_schema=False)
def health(): ...
app.include_router(router, prefix="/api")
"""
STARLETTE = """\
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
async def view(request): return PlainTextResponse("fine")
routes = [Mount("/v1", routes=[Route("/report", view)]), Route("/ping", view)]
app = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["*.shop.example"])])
"""
FLASK = """\
from flask import Blueprint, Flask
orders = Blueprint("orders", __name__, url_prefix="/v1")
@orders.post("/orders")
def create(): return "fine"
@orders.get("/report")
def report(): return "fine"
def create_app(settings=None):
    app = Flask(__name__)
    app.register_blueprint(orders)
    return app
"""
BOTTLE = 'import bottle\napp = bottle.Bottle()\n@app.route("/report")\ndef report(): return "fine"\n'
FALCON = """\
import falcon
class Report:
    def on_get(self, request, response): response.text = "fine"
app = falcon.App()
app.add_route("/report", Report())
"""
LITESTAR = """\
from litestar import Litestar, Router, get
@get("/report")
async def report() -> str: return "fine"
app = Litestar([Router("/v1", route_handlers=[report])])
"""
AIOHTTP = """\
from aiohttp import web
async def report(request): return web.Response(text="fine")
async def make_app():
    app = web.Application()
    app.add_routes([web.get("/report", report), web.get("/items/{number}", report)])
    return app
"""
TORNADO = """\
import tornado.web
class Report(tornado.web.RequestHandler):
    def get(self): self.write("fine")
app = tornado.web.Application([(r"/items/(\\d+)", Report), (r"/report", Report)])
"""
WSGI = 'def app(environ, start_response):\n    start_response("200 OK", [])\n    return [b"fine"]\n'
MIDDLEWARE = f"""{STARLETTE}
class Timed:
    def __init__(self, app): self.app = app
    async def __call__(self, scope, receive, send): await self.app(scope, receive, send)
outer = Timed(app)
"""
BOTH = f"{FLASK}\nimport fastapi\napp, other = create_app(), fastapi.FastAPI()\n"  # names alone don't tell the kind


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def look_at(folder: Path, name: str, files: dict[str, str], python: str = sys.executable) -> Application:
    write(folder, files)
    return inspected(name, python, folder)


KINDS = {  # name: files, kind, framework, first route, health check
    "shop:app": (FASTAPI, "asgi", "fastapi", "/api/v1/report", "/api/health"),
    "starlette_shop:app": (STARLETTE, "asgi", "starlette", "/v1/report", "/ping"),
    "timed:outer": (MIDDLEWARE, "asgi", "starlette", "/v1/report", "/ping"),
    "litestar_shop:app": (LITESTAR, "asgi", "litestar", "/v1/report", None),
    "flask_shop:create_app": (FLASK, "wsgi", "flask", "/v1/report", None),
    "flask_shop:create_app()": (FLASK, "wsgi", "flask", "/v1/report", None),
    "both:app": (BOTH, "wsgi", "flask", "/v1/report", None),
    "bottle_shop:app": (BOTTLE, "wsgi", "bottle", "/report", None),
    "falcon_shop:app": (FALCON, "wsgi", "falcon", "/report", None),
    "bare:app": (WSGI, "wsgi", "", None, None),
    "my-app:app": (WSGI, "wsgi", "", None, None),
    "aiohttp_shop:make_app": (AIOHTTP, "aiohttp", "aiohttp", "/report", None),
    "tornado_shop:app": (TORNADO, "tornado", "tornado", "/report", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_and_the_routes_come_from_the_application_itself(name: str, tmp_path: Path) -> None:
    source, kind, framework, path, ping = KINDS[name]
    found = look_at(tmp_path, name, {f"{name.partition(':')[0]}.py": source})
    assert (found.kind, found.framework, found.ping()) == (kind, framework, ping)
    assert next(iter(found.work()), None) == (("GET", path) if path else None)
    assert found.is_factory is ("create_app" in name or "make_app" in name)


def test_a_django_project_has_the_servers_of_both_interfaces_and_names_an_allowed_host(tmp_path: Path) -> None:
    found = look_at(tmp_path, "config.wsgi:application", DJANGO)
    assert found.routes == [("GET", "/shop/items/<int:id>"), ("GET", "/shop/report"), ("GET", "/healthz")]
    assert (found.host, found.ping(), found.work()[0][1]) == ("shop.example", "/healthz", "/shop/report")
    commands = {each.name: each.command for each in deployments_of(found)}
    assert "config.wsgi:application" in commands["sync"]
    assert "config.asgi:application" in commands["uvicorn"]


def test_starlettes_host_check_names_an_allowed_host(tmp_path: Path) -> None:
    assert look_at(tmp_path, "shop:app", {"shop.py": STARLETTE}).host == "www.shop.example"


def test_a_query_that_an_endpoint_requires_is_named(tmp_path: Path) -> None:
    routes = look_at(tmp_path, "shop:app", {"shop.py": FASTAPI}).work()
    assert ("GET", "/api/v1/search?customer={customer}") in routes


@pytest.mark.parametrize("folder", [".", "src"])
def test_a_package_in_src_is_found(folder: str, tmp_path: Path) -> None:
    files = {"src/shop/__init__.py": "", "src/shop/api.py": WSGI}
    write(tmp_path, files)
    assert inspected("shop.api:app", sys.executable, tmp_path / folder).import_from == ("src" if folder == "." else "")


REFUSED = {
    "shop:router": ("router = 3", "router is a int; expected an ASGI, WSGI, aiohttp or Tornado application"),
    "shop:app": (FLASK, "shop has no app: use shop:create_app"),
    "shop:create": ("def create(config): ...", "create needs config: write a module with app = create(...)"),
    "shop:make": ("def make(): 1 / 0", "make() fails: ZeroDivisionError: division by zero (shop.py, line 1)"),
    "shop:made": ("def made(): return 3", "made() returns a int; expected an ASGI"),
    "shop:late": ("import gone", "can't be imported: ModuleNotFoundError: No module named 'gone'"),
    "shop:bad": ("def", "can't be imported: SyntaxError"),
    "shop:exits": ("import sys\nsys.exit('SHOP_URL is not set')", "SystemExit: SHOP_URL is not set (shop.py, line 2)"),
    "gone:app": ("", "there is no gone.py here"),
    "pack.gone:app": ("", "there is no pack/gone.py here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_application_is_refused_with_one_line_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    source, why = REFUSED[name]
    with pytest.raises(BadInputError) as error:
        look_at(tmp_path, name, {"shop.py": source})
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_init_writes_no_suite_for_a_module_without_an_application(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"shop.py": "x = 1"})
    ran = run_cli("init", "shop:app")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "suite.toml").exists()


@pytest.mark.parametrize("python", old_pythons(), ids=lambda python: python.version)
def test_the_application_may_run_on_an_older_python_than_the_bench(python, tmp_path: Path) -> None:
    found = look_at(tmp_path, "bare:app", {"bare.py": WSGI}, python.path)
    assert (found.kind, found.python[:2]) == ("wsgi", python.minor)
    assert missing(list(deployments_of(found)), found.servers) == ["gunicorn", "waitress", "granian"]


def empty_venv(folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


ENVIRONMENTS = {  # files and directories → how the environment is found, and its requirements
    "a virtual environment": ({".venv"}, ".venv", ()),
    "one above": ({"../.venv", "../pyproject.toml"}, "../.venv", ()),
    "uv.lock": ({"uv.lock", "pyproject.toml", "requirements.txt"}, "uv.lock", ("-r uv.lock",)),
    "pyproject.toml": ({"pyproject.toml", "requirements.txt"}, "pyproject.toml", ("-r pyproject.toml",)),
    "requirements.txt above": ({"../requirements.txt"}, "../requirements.txt", ("-r ../requirements.txt",)),
    "Pipfile.lock": ({"Pipfile", "Pipfile.lock"}, "Pipfile.lock", ("-r Pipfile.lock",)),
    "nothing": (set(), "the Python of Under Siege", ()),
}


def choose(folder: Path, names: set[str], monkeypatch: pytest.MonkeyPatch) -> UserEnvironment:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    folder.mkdir()
    for name in names:
        if name.endswith(".venv"):
            empty_venv(folder / name)
        else:
            (folder / name).write_text('[project]\nname = "shop"\ndependencies = []\n')
    return user_environment(folder)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment_that_people_have_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, found, requirements = ENVIRONMENTS[name]
    chosen = choose(tmp_path / "shop", names, monkeypatch)
    assert (chosen.found, chosen.requirements) == (found, requirements)


def test_an_active_environment_precedes_a_virtual_environment_but_not_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tmp_path / "shop", {".venv"}, monkeypatch)
    active = empty_venv(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert user_environment(tmp_path / "shop") == UserEnvironment(str(active), "$VIRTUAL_ENV")
    assert user_environment(tmp_path / "shop", [sys.executable]).python == sys.executable
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)  # contains the bench, so it is usually not that of the application
    assert user_environment(tmp_path / "shop").found == ".venv"


def measured(folder: Path, run_cli: RunCli, *words: str, env: dict[str, str] | None = None) -> tuple[Result, str]:
    ran = run_cli("run", *words, *SHORT, env=env)
    assert ran.returncode in (0, 3), ran.stderr + ran.stdout
    result = load(folder / "r.json")
    assert {record.failure for record in result.records} == {None}
    return result, ran.stdout


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return an empty folder with a link to the environment of the tests, which has all servers."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


RUNS = {  # name: source, servers
    "starlette_shop:app": (STARLETTE, {"uvicorn", "gunicorn-asgi", "granian"}),
    "flask_shop:create_app": (FLASK, {"sync", "gthread", "waitress", "granian"}),
    "aiohttp_shop:make_app": (AIOHTTP, {"run_app", "gunicorn-aiohttp"}),
    "tornado_shop:app": (TORNADO, {"listen", "prefork"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_server_for_its_kind_runs_the_application(name: str, shop: Path, run_cli: RunCli) -> None:
    source, servers = RUNS[name]
    write(shop, {f"{name.partition(':')[0]}.py": source})
    result, text = measured(shop, run_cli, name)
    assert servers <= {record.server for record in result.records}
    path = "/v1/report" if source in (STARLETTE, FLASK) else "/report"
    assert {record.values["path"] for record in result.records} == {path}
    assert all(record.samples.memory_bytes for record in result.records)
    assert ("Host: www.shop.example" in text) == (source == STARLETTE)


def test_the_suite_that_init_writes_runs_where_its_command_is_pasted(shop: Path, run_cli: RunCli) -> None:
    write(shop, {"perf/.keep": "", "src/shop.py": TORNADO})
    told = run_cli("init", "shop:app", "--out", "perf/suite.toml").stdout
    words = told.partition(" run ")[2].split()
    result, _ = measured(shop, run_cli, *words)
    assert {record.server for record in result.records} == {"listen", "prefork"}
    assert result.environment.pythons.keys() == {record.values["python"] for record in result.records}


GUARDED = """\
from flask import Flask, request
app = Flask(__name__)
@app.before_request
def check():
    if request.headers.get("Authorization") != "Bearer sesame-sesame": return "who are you?", 401
@app.get("/report")
def report(): return "fine"
@app.get("/health")
def health(): return "fine"
"""


def test_requests_and_pings_carry_headers_and_without_them_the_message_names_the_option(
    shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"guarded.py": GUARDED})
    refused = run_cli("run", "guarded:app", *SHORT)
    assert (refused.returncode, "Raw values" in refused.stderr) == (2, False)
    assert "/health returned 401" in refused.stderr.splitlines()[-1]
    assert "use --header with the header that it requires, such as Authorization" in refused.stderr.splitlines()[-1]
    words = ("--header", "Authorization: Bearer ${SHOP_TOKEN}")
    result, _ = measured(shop, run_cli, "guarded:app", *words, env={"SHOP_TOKEN": "sesame-sesame"})
    assert "sesame" not in (shop / "r.json").read_text()
    assert all(not any(record.pings.problem) for record in result.records)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--path", "/gone"), "/gone returned 404"),
        (("--path", "/gone"), "use --path with one of its routes: POST /v1/orders, /v1/report"),
        (("--header", "nothing"), "--header 'nothing': expected a name and a value"),
        (("--ready-within", "soon"), "--ready-within 'soon': expected a time such as 60s or 2m"),
        (("--path", "report"), "--path = 'report': expected a path that begins with /"),
        (("--ping", "health"), "--ping = 'health': expected a path that begins with /"),
    ],
)
def test_a_request_that_the_application_refuses_ends_the_run_with_one_line(
    words: tuple[str, ...], why: str, shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"shop.py": FLASK})
    ran = run_cli("run", "shop:create_app", *words, *SHORT)
    assert ran.returncode == 2
    assert why in ran.stderr.splitlines()[-1]


CONFIGURED = 'import pathlib\npathlib.Path("was_read").write_text("")\nmax_requests = 1\n'


@pytest.mark.parametrize("is_kept", [False, True])
def test_settings_that_change_a_server_are_set_aside_unless_they_are_kept(
    is_kept: bool, shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"shop.py": FLASK, "gunicorn.conf.py": CONFIGURED.replace("= 1", "= 1_000_000")})
    words = ["shop:create_app", *(["--keep-environment"] if is_kept else [])]
    _, text = measured(shop, run_cli, *words, env={"WEB_CONCURRENCY": "3"})
    assert (shop / "was_read").exists() is is_kept
    assert ("gunicorn.conf.py and WEB_CONCURRENCY set aside; use --keep-environment" in text) is not is_kept


def test_a_missing_server_is_added_beside_the_users_packages_whose_versions_win(
    tmp_path: Path, run_cli: RunCli
) -> None:
    python = empty_venv(tmp_path / ".venv")
    write(tmp_path, {"shop.py": f"import h11\nassert h11.__version__ == '0.14.0'\n{STARLETTE}"})
    packages = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python), "starlette", "h11==0.14.0"]
    subprocess.run(packages, check=True)
    before = {path.name for path in python.parent.iterdir()}
    _, text = measured(tmp_path, run_cli, "shop:app")
    assert "uvicorn, gunicorn and granian were added beside the packages of .venv" in text
    assert {path.name for path in python.parent.iterdir()} == before


RESTARTS = """\
[load]
path = "/report"
users = [4]
[axes]
workers = [2]
[servers.gunicorn]
command = "gunicorn flask_shop:create_app() -w {workers} -b {host}:{port} --max-requests 50"
"""


def test_workers_that_restart_under_load_are_counted_and_named(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"flask_shop.py": FLASK, "s.toml": RESTARTS.replace('"/report"', '"/v1/report"')})
    ran = run_cli("run", "s.toml", "--time", "2s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.workers_replaced > 1
    assert f"{record.workers_replaced} workers were replaced under load" in ran.stdout


DAEMON = """\
import os, sys, time
from wsgiref.simple_server import WSGIRequestHandler, make_server
class Silent(WSGIRequestHandler):
    def log_message(self, *_): ...
def app(environ, start_response):
    sum(range(100_000))
    start_response("200 OK", [])
    return [b"fine"]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        make_server("127.0.0.1", int(sys.argv[1]), app, handler_class=Silent).serve_forever()
    os._exit(0)
os.wait()
time.sleep(600)
"""


def test_the_cpu_time_of_a_daemon_is_measured_not_that_of_its_launcher(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"daemon.py": DAEMON, "s.toml": '[servers.daemon]\ncommand = "python daemon.py {port}"\n'})
    ran = run_cli("run", "s.toml", "--users", "2", "--time", "1s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None, ran.stdout
    used_s = record.samples.cpu_s[-1] - record.samples.cpu_s[0]
    assert used_s > 0.2 * record.load_s


VERSIONED = """\
from pathlib import Path
import tornado.web
class Report(tornado.web.RequestHandler):
    def get(self):
        Path("ran_old").touch()
        self.write(Path("data.txt").read_text())
app = tornado.web.Application([("/report", Report)])
"""


def git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_the_base_gets_ignored_files_and_imports_its_own_packages_despite_an_editable_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_revision, "DIRECTORY", tmp_path / "cache")
    shop = tmp_path / "project"
    write(shop, {"src/shop.py": VERSIONED, "data.txt": "fine", ".gitignore": "data.txt\n.venv\n"})
    git(shop, "init", "-q")
    git(shop, "add", ".")
    git(shop, "commit", "-qm", "one")
    write(shop, {"src/shop.py": VERSIONED.replace("ran_old", "ran_new")})
    empty_venv(shop / ".venv")
    (packages,) = (shop / ".venv/lib").glob("python3*/site-packages")
    (packages / "editable.pth").write_text(f"{shop / 'src'}\n{sysconfig.get_path('purelib')}\n")
    words = ("run", "shop:app", "--against", "HEAD", *SHORT)
    refused = invoke(*words, folder=shop)
    assert refused.returncode == 2
    assert "it lacks files that git ignores: if it needs them, use --copy data.txt" in refused.stderr
    ran = invoke(*words, "--copy", "data.txt", folder=shop)
    assert {record.failure for record in load(shop / "r.json").records} == {None}, ran.stdout
    (base,) = (tmp_path / "cache/revisions").iterdir()
    assert {path.name for place in (base, shop) for path in place.glob("ran_*")} == {"ran_old", "ran_new"}
    assert not (base / "ran_new").exists()


SLOW = """\
import time
def app(environ, start_response):
    time.sleep(1.5)
    start_response("200 OK", [])
    return [b"fine"]
"""
LATE = """\
[load]
users = [2]
time = "2s"
[servers.slow]
command = "python -m waitress --listen={host}:{port} slow:app"
ready_within = 1.2
"""


def test_readiness_without_a_ping_waits_for_one_task_once_the_server_listens(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"slow.py": SLOW, "s.toml": LATE})
    run_cli("run", "s.toml", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert record.failure is None


def test_a_slow_import_gives_servers_more_time_to_start(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path, {"shop.py": f"import time\ntime.sleep(1.1)\n{WSGI}"})
    assert run_cli("init", "shop:app").returncode == 0
    assert all(target.ready_within_s > READY_WITHIN_S + 2 for target in read_suite(tmp_path / "suite.toml").targets)


ELSEWHERE = """\
import socket, sys, time
listener = socket.socket(socket.AF_INET6)
listener.bind(("::1", int(sys.argv[1])))
listener.listen()
time.sleep(60)
"""


def test_a_server_that_listens_only_on_another_address_is_told_which_one_to_use(
    tmp_path: Path, run_cli: RunCli
) -> None:
    suite = '[ping]\nready_within = 1\n[servers.x]\ncommand = "python elsewhere.py {port}"\n'
    write(tmp_path, {"elsewhere.py": ELSEWHERE, "s.toml": suite})
    run_cli("run", "s.toml", "--time", "1s", "--rounds", "1", "--out", "r.json")
    (record,) = load(tmp_path / "r.json").records
    assert "at another address, such as ::1: expected 127.0.0.1" in record.failure.message


def test_a_pipfile_becomes_requirements(tmp_path: Path) -> None:
    lock = {"default": {"flask": {"version": "==3.1.2", "extras": ["async"], "markers": "python_version >= '3.9'"}}}
    (tmp_path / "Pipfile.lock").write_text(json.dumps(lock))
    (tmp_path / "Pipfile").write_text('[packages]\nflask = ">=3"\nh11 = "*"\n')
    assert locked_requirements(tmp_path / "Pipfile.lock") == "flask[async]==3.1.2; python_version >= '3.9'"
    assert locked_requirements(tmp_path / "Pipfile") == "flask>=3\nh11"
    assert locked_requirements(tmp_path / "requirements.txt") is None


def test_an_environment_from_uv_lock_has_the_locked_versions(tmp_path: Path) -> None:
    project = '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["h11"]\n'
    write(tmp_path, {"pyproject.toml": project})
    uv = find_uv_bin()
    subprocess.run([uv, "lock", "--quiet", "--upgrade-package", "h11==0.14.0"], cwd=tmp_path, check=True)
    assert locked_requirements(tmp_path / "uv.lock") == "h11==0.14.0\n"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{'id': next(ids), 'sum': 3}", "compared as JSON, not byte for byte, ignoring id"),
        ("f'<p>{next(ids)}</p>'", "only the status was checked"),
    ],
)
def test_responses_that_differ_by_design_are_compared_as_far_as_possible(
    body: str, told: str, shop: Path, run_cli: RunCli
) -> None:
    lines = ["import itertools, flask", "app, ids = flask.Flask(__name__), itertools.count(100)"]
    write(shop, {"shop.py": "\n".join([*lines, "@app.get('/report')", f"def report(): return {body}"])})
    _, text = measured(shop, run_cli, "shop:app")
    assert told in text
