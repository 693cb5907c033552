"""Runs of users' applications on each of their servers."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult, invoke
from sample_applications import AIOHTTP, DJANGO, FLASK, STARLETTE, TORNADO, empty_venv, write
from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.measure import base_revision
from under_siege.record.result import Result, load
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_from_application import TargetOptions

RunCli = Callable[..., CommandResult]


SHORT = ("--workers", "1", "--users", "2", "--time", "2s", "--rounds", "1", "--out", "r.json")


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
import tornado.web
class Report(tornado.web.RequestHandler):
    def get(self):
        if self.request.headers.get("Authorization") == "Bearer sesame-sesame": self.write("fine")
        else: self.set_status(401)
app = tornado.web.Application([("/report", Report), ("/health", Report)])
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
        (("--path", "/gone"), "/gone returned 404 .*; use --path with one of its routes: POST /v1/orders, /v1/report"),
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
    assert re.search(why, ran.stderr.splitlines()[-1])


STOCK = """\
import pathlib, tornado.web
class Stock(tornado.web.RequestHandler):
    def delete(self):
        pathlib.Path("deleted").touch()
        self.write("fine")
    put = post = delete
app = tornado.web.Application([("/stock", Stock)])
"""


def test_data_is_deleted_only_if_the_user_asks_for_it(shop: Path, run_cli: RunCli) -> None:
    write(shop, {"stock.py": STOCK})
    for command in ("run", "capacity", "drill", "trace", "profile"):
        for words in ((), ("--path", "/stock")):
            ran = run_cli(command, "stock:app", *words)
            assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
            assert "its routes: POST /stock, PUT /stock and DELETE /stock" in ran.stderr
    assert not (shop / "deleted").exists()
    result, text = measured(shop, run_cli, "stock:app", "--method", "DELETE")
    assert "DELETE" in text
    assert {record.values["path"] for record in result.records} == {"/stock"}
    assert (shop / "deleted").exists()


CONFIGURED = 'import pathlib\npathlib.Path("was_read").write_text("")\nmax_requests = 1\n'


@pytest.mark.parametrize("is_kept", [False, True])
def test_settings_that_change_a_server_are_set_aside_unless_they_are_kept(
    is_kept: bool, shop: Path, run_cli: RunCli
) -> None:
    write(shop, {"shop.py": AIOHTTP, "gunicorn.conf.py": CONFIGURED.replace("= 1", "= 1_000_000")})
    words = ["shop:make_app", *(["--keep-environment"] if is_kept else [])]
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
    ran = run_cli("run", "shop:app", *SHORT, env=offline)
    assert ran.returncode in (0, 3), ran.stderr
    result = load(tmp_path / "r.json")
    assert {(record.server, record.failure) for record in result.records} == {("uvicorn", None)}
    assert {"gunicorn-asgi", "granian"} == {skipped.server for skipped in result.left_out}
    assert "granian is left out: it lacks a package: granian can't be added" in ran.stderr
    assert "no package index could be reached" in " ".join(ran.stdout.split())


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
    lines = ["import itertools, tornado.web", "ids = itertools.count(100)", "class Report(tornado.web.RequestHandler):"]
    lines += [f"    def get(self): self.write({body})", "app = tornado.web.Application([('/report', Report)])"]
    write(shop, {"shop.py": "\n".join(lines)})
    _, text = measured(shop, run_cli, "shop:app")
    assert told in text


def test_two_entry_points_of_an_application_are_compared_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, DJANGO)
    monkeypatch.chdir(tmp_path)
    suite = suite_of(["config.wsgi:application", "config.asgi:application"], TargetOptions(path="/shop/report"))
    kinds = {target.name.rpartition("-")[2] for target in suite.targets}
    assert kinds == {"wsgi", "asgi"}
    assert {"sync-wsgi", "uvicorn-asgi"} <= {target.name for target in suite.targets}
    assert suite.axes["path"] == ("/shop/report",)
    (tmp_path / "other.py").write_text(STARLETTE)
    with pytest.raises(BadInputError, match="--path"):
        suite_of(["config.asgi:application", "other:app"])
