"""Runs of users' applications on each of their servers."""

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult, invoke
from repositories import commit_all
from sample_applications import (
    AIOHTTP,
    BOTTLE,
    DJANGO,
    FALCON,
    FASTAPI,
    FLASK,
    LITESTAR,
    STARLETTE,
    TORNADO,
    empty_venv,
    write,
)
from uv import find_uv_bin

from under_siege.load.body_rule import ANY, JSON, BodyRule
from under_siege.measure import base_revision
from under_siege.record.requests import CORRECT, PING
from under_siege.record.result import Result, load

RunCli = Callable[..., CommandResult]

SHORT = (
    "--workers",
    "1",
    "--users",
    "2",
    "--time",
    "1s",
    "--rounds",
    "1",
    "--ready-within",
    "60s",
    "--out",
    "r.json",
)


def measured(folder: Path, *words: str, env: dict[str, str] | None = None) -> Result:
    ran = invoke("run", *words, *SHORT, folder=folder, env=env)
    assert ran.returncode in (0, 1, 3), ran.stderr + ran.stdout
    result = load(folder / "r.json")
    assert {record.failure for record in result.records} == {None}
    assert all(record.samples.memory_bytes for record in result.records)
    return result


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return an empty folder with a link to the environment of the tests, which has all servers."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


GUARDED = TORNADO.replace(
    'self.write("fine")',
    'is_known = self.request.headers.get("Authorization") == "Bearer sesame-sesame"\n'
    '        self.write("fine") if is_known else self.set_status(401)',
)
APPLICATIONS = {  # name: source, servers
    "starlette_shop:app": (STARLETTE, {"uvicorn", "gunicorn-asgi", "granian"}),
    "flask_shop:create_app": (FLASK, {"sync", "gthread", "waitress", "granian"}),
    "aiohttp_shop:make_app": (AIOHTTP, {"run_app", "gunicorn-aiohttp"}),
    "tornado_shop:app": (GUARDED, {"listen", "prefork"}),
}
CONFIGURED = 'import pathlib\npathlib.Path("was_read").touch()\nmax_requests = 1\n'


def test_applications_of_each_kind_run_on_all_their_servers_with_the_headers_they_need(shop: Path) -> None:
    write(shop, {f"{name.partition(':')[0]}.py": source for name, (source, _) in APPLICATIONS.items()})
    write(shop, {"gunicorn.conf.py": CONFIGURED})
    secret = ("--header", "Authorization: Bearer ${SHOP_TOKEN}")
    environment = {"SHOP_TOKEN": "sesame-sesame", "WEB_CONCURRENCY": "3"}
    paths = ("--path", "/v1/report", "--ping", "/v1/report")
    result = measured(shop, *APPLICATIONS, *paths, *secret, env=environment)
    servers = {
        f"{server}-{name.replace(':', '-')}" for name, (_, servers) in APPLICATIONS.items() for server in servers
    }
    assert {record.server for record in result.records} >= servers
    assert {record.values["path"] for record in result.records} == {"/v1/report"}
    assert {outcome for record in result.records for outcome in record.requests.only(PING).outcome} == {CORRECT}
    host, aside = result.suite.choices
    assert "Host: www.shop.example" in host  # Starlette refuses 127.0.0.1
    assert "gunicorn.conf.py and WEB_CONCURRENCY set aside" in aside
    assert not (shop / "was_read").exists()
    assert "sesame" not in (shop / "r.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "files", "path"),
    [
        ("shop:app", {"shop.py": FASTAPI}, "/api/v1/report"),
        ("shop:app", {"shop.py": LITESTAR}, "/v1/report"),
        ("shop:app", {"shop.py": BOTTLE}, "/report"),
        ("shop:app", {"shop.py": FALCON}, "/report"),
        ("config.wsgi:application", DJANGO, "/shop/report"),
    ],
    ids=["fastapi", "litestar", "bottle", "falcon", "django"],
)
def test_applications_of_other_frameworks_run_on_all_their_servers(name, files, path, shop: Path) -> None:
    write(shop, files)
    assert {record.values["path"] for record in measured(shop, name).records} == {path}


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("--path", "/gone"), ("404", "--path", "/v1/report")), (("--ping", "/v1/report"), ("401", "--header"))],
    ids=["path", "header"],
)
def test_a_request_that_the_application_refuses_ends_the_run_with_one_line_that_names_the_option(
    words: tuple[str, ...], expected: tuple[str, ...], shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"shop.py": GUARDED})
    ran = run_cli("run", "shop:app", *words, *SHORT)
    assert (ran.returncode, (shop / "r.json").exists()) == (2, False)
    assert [word for word in expected if word not in ran.stderr.splitlines()[-1]] == []


REDIRECTS = """\
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.httpsredirect import HTTPSRedirectMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
async def fine(_): return PlainTextResponse("fine")
app = Starlette(routes=[Route("/items/", fine)], middleware=[Middleware(HTTPSRedirectMiddleware)])
"""
BEHIND_TLS = ("--header", "X-Forwarded-Proto: https")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--path", "/items/"), "--header 'X-Forwarded-Proto: https'"),
        (("--path", "/items/", "--ping", "/items/"), "--header 'X-Forwarded-Proto: https'"),
        (("--path", "/items", *BEHIND_TLS), "use --path /items/"),
        (("--path", "/items/", "--ping", "/items", *BEHIND_TLS), "use --ping /items/"),
    ],
    ids=["https", "ping", "slash", "slash of the ping"],
)
def test_a_request_that_is_redirected_ends_the_run_with_one_line_that_says_what_to_do(
    words: tuple[str, ...], remedy: str, shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"shop.py": REDIRECTS})
    ran = run_cli("run", "shop:app", *words, "--strategy", "none", *SHORT)
    assert (ran.returncode, (shop / "r.json").exists()) == (2, False)
    assert remedy in ran.stderr.splitlines()[-1]


NUMBERS = "import itertools, pathlib\nnumbers = itertools.count(100)\n"  # each response has another number
COUNTED = NUMBERS + AIOHTTP.replace('text="fine"', 'text=f"<p>{next(numbers)}</p>"')
VERSIONED = NUMBERS + TORNADO.replace(
    'self.write("fine")',
    'pathlib.Path("ran_old").touch()\n'
    '        self.write({"id": next(numbers), "data": pathlib.Path("data.txt").read_text()})',
)
STOCK = """\
import pathlib, time, tornado.web
class Stock(tornado.web.RequestHandler):
    def delete(self):
        time.sleep(0.03)  # so that a load sends few requests
        pathlib.Path("deleted").touch()
        self.write("fine")
    put = post = delete
app = tornado.web.Application([("/stock", Stock)])
"""


def test_data_is_deleted_only_if_the_user_asks_for_it(shop: Path, run_cli: RunCli) -> None:
    write(shop, {"stock.py": STOCK})
    given = ("--path", "/stock")
    for words in (("run",), ("run", *given), ("capacity",), ("drill", *given), ("trace",), ("profile", *given)):
        ran = run_cli(words[0], "stock:app", *words[1:])
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert "its routes: POST /stock, PUT /stock and DELETE /stock" in ran.stderr
    assert not (shop / "deleted").exists()
    result = measured(shop, "stock:app", "--method", "DELETE")
    assert {record.values["path"] for record in result.records} == {"/stock"}
    assert (shop / "deleted").exists()


TICKET = """\
import os, time, tornado.web
class Ticket(tornado.web.RequestHandler):
    def post(self):
        self.set_status(201)
        self.write({"exp": int(time.time()) + 1800, "instance": os.getpid(), "sum": 5})
app = tornado.web.Application([("/ticket", Ticket)])
"""


def test_fields_that_contain_a_clock_or_a_process_are_ignored_and_another_status_can_be_right(
    shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"tickets.py": TICKET})
    ran = run_cli("run", "tickets:app", "--method", "POST", "--strategy", "none", *SHORT)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "--status 201" in ran.stderr
    words = ("tickets:app", "--method", "POST", "--strategy", "none", "--status", "201")
    assert measured(shop, *words).suite.checked == BodyRule(JSON, ignored=("exp", "instance")).checked()
    ran = run_cli("run", *words, "--ignore", "exp", "--any-body", *SHORT)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert measured(shop, *words, "--any-body").suite.checked == BodyRule(ANY).checked()


ECHO = """\
import json
def app(environ, start_response):
    agent = environ["HTTP_USER_AGENT"]
    is_json = environ["PATH_INFO"] == "/json"
    body = json.dumps({"agent": agent, "id": 7, "value": 42}) if is_json else agent
    start_response("200 OK", [("Content-Type", "application/json" if is_json else "text/plain")])
    return [body.encode()]
"""


def test_fields_that_depend_on_the_client_are_ignored_beside_those_that_the_user_ignores(
    shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"echo.py": ECHO})
    words = ("echo:app", "--strategy", "none")
    ignored = ("id", "agent")
    checked = measured(shop, *words, "--path", "/json", "--ignore", "id").suite.checked
    assert checked == BodyRule(JSON, ignored=ignored).checked()
    ran = run_cli("run", *words, "--path", "/text", *SHORT)
    assert "use --header 'User-Agent: NAME'" in ran.stderr
    measured(shop, *words, "--path", "/text", "--header", "User-Agent: shop")


def test_a_missing_server_is_added_beside_the_users_packages_which_win(tmp_path: Path) -> None:
    python = empty_venv(tmp_path / ".venv")
    write(tmp_path, {"shop.py": f"import packaging\nassert packaging.OF_THE_USER\n{COUNTED}"})
    install = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "aiohttp", "packaging"], check=True)
    (changed,) = tmp_path.glob(".venv/lib/python3*/site-packages/packaging/__init__.py")
    changed.unlink()  # uv may share the file with its cache
    changed.write_text("OF_THE_USER = True\n")
    before = {path.name for path in python.parent.iterdir()}
    result = measured(tmp_path, "shop:make_app", "--strategy", "none")
    assert {record.server for record in result.records} == {"run_app", "gunicorn-aiohttp"}
    assert "gunicorn was installed for this benchmark only; .venv is unchanged" in result.suite.choices[0]
    assert {path.name for path in python.parent.iterdir()} == before
    assert result.suite.checked == BodyRule(ANY).checked(is_found=True)


def test_a_server_that_can_not_be_added_is_left_out_and_the_others_are_compared(
    tmp_path: Path, run_cli: RunCli
) -> None:
    python, packages = empty_venv(tmp_path / ".venv"), tmp_path / "packages"
    write(tmp_path, {"shop.py": STARLETTE, "packages/.keep": ""})
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name.startswith(("starlette", "anyio", "idna", "sniffio", "typing_", "uvicorn", "h11", "click")):
            (packages / path.name).symlink_to(path)
    (own,) = python.parents[1].glob("lib/python3*/site-packages")
    (own / "theirs.pth").write_text(f"{packages}\n")
    offline = {
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/",
        "UV_HTTP_RETRIES": "0",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    ran = run_cli("run", "shop:app", "--strategy", "none", *SHORT, env=offline)
    assert ran.returncode in (0, 3), ran.stderr
    result = load(tmp_path / "r.json")
    assert {(record.server, record.failure) for record in result.records} == {("uvicorn", None)}
    assert {"gunicorn-asgi", "granian"} == {skipped.server for skipped in result.left_out}
    assert "granian is left out: it lacks a package: granian can't be added" in ran.stderr
    assert "no package index could be reached" in " ".join(ran.stdout.split())


def test_the_base_gets_ignored_files_and_imports_its_own_packages_despite_an_editable_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_revision, "DIRECTORY", tmp_path / "cache")
    shop = tmp_path / "project"
    write(shop, {"src/shop.py": VERSIONED, "data.txt": "fine", ".gitignore": "data.txt\n.venv\n"})
    commit_all(shop)
    write(shop, {"src/shop.py": VERSIONED.replace("ran_old", "ran_new")})
    empty_venv(shop / ".venv")
    (packages,) = (shop / ".venv/lib").glob("python3*/site-packages")
    (packages / "editable.pth").write_text(f"{shop / 'src'}\n{sysconfig.get_path('purelib')}\n")
    refused = invoke("run", "shop:app", "--against", "HEAD", *SHORT, folder=shop)
    assert refused.returncode == 2
    assert "--copy data.txt" in refused.stderr.splitlines()[-1]
    result = measured(shop, "shop:app", "--against", "HEAD", "--copy", "data.txt")
    assert len(result.records) == 4  # two servers of two revisions
    (base,) = (tmp_path / "cache/revisions").iterdir()
    assert {path.name for place in (base, shop) for path in place.glob("ran_*")} == {"ran_old", "ran_new"}
    assert not (base / "ran_new").exists()
    assert result.suite.checked == BodyRule(JSON, ignored=("id",)).checked()
