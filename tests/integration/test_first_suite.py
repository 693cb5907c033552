"""The first suite of an application, which `init` writes, and runs of applications without a suite file."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from under_siege.model.record import load
from under_siege.model.suite import Ping
from under_siege.targets.first_suite import installed
from under_siege.targets.suite_file import read_suite

RunCli = Callable[..., subprocess.CompletedProcess[str]]

FASTAPI = (
    "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/healthz')\ndef health(): ...\n"
    "@app.get('/orders/{customer}')\ndef orders(): ...\n@app.get('/report')\ndef report(): ...\n"
)
FLASK = "import flask\napp = flask.Flask(__name__)\n"


@pytest.mark.parametrize(
    ("source", "servers", "ping"),
    [
        (FASTAPI, ["uvicorn", "gunicorn-asgi", "gunicorn-uvicorn", "granian"], Ping("/healthz")),
        (FLASK, ["sync", "gthread"], None),
    ],
    ids=["asgi", "wsgi"],
)
def test_init_writes_a_valid_suite(source: str, servers: list[str], ping, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(source)
    assert run_cli("init", "shop:app").returncode == 0
    suite = read_suite(tmp_path / "suite.toml")
    assert [target.name for target in suite.targets] == servers
    assert all("shop:app" in target.command for target in suite.targets)
    assert suite.axes["workers"][0] == 1
    assert suite.ping == ping
    assert suite.axes["path"] == (
        "/report" if ping else "/",
    )  # the first path that has no parameters and is not the health check
    expected = {
        "uvicorn": ("fastapi", "uvicorn", "gunicorn", "uvicorn-worker", "granian"),
        "sync": ("flask", "gunicorn"),
    }[servers[0]]
    assert {target.requirements for target in suite.targets} == {expected}


@pytest.mark.parametrize(
    ("decorators", "method", "path"),
    [
        (["post('/orders')"], "POST", "/orders"),
        (["put('/orders/{id}')", "route('/orders', methods=['PUT'])"], "PUT", "/orders"),
        (["post('/orders')", "route('/report', methods=['GET', 'POST'])"], "GET", "/report"),
    ],
)
def test_init_finds_post_and_put_routes_but_prefers_a_get_route(
    decorators: list[str], method: str, path: str, tmp_path: Path, run_cli: RunCli
) -> None:
    routes = "".join(f"@app.{decorator}\ndef route(): ...\n" for decorator in decorators)
    (tmp_path / "shop.py").write_text(f"from fastapi import FastAPI\napp = FastAPI()\n{routes}")
    assert run_cli("init", "shop:app").returncode == 0
    suite = read_suite(tmp_path / "suite.toml")
    assert (suite.load.request.method, suite.axes["path"]) == (method, (path,))
    assert suite.load.request.body == (b"" if method == "GET" else b"{}")


def test_init_writes_a_suite_in_a_subdirectory(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(FASTAPI)
    assert run_cli("init", "shop:app", "--out", "perf/suite.toml").returncode == 0
    assert read_suite(tmp_path / "perf/suite.toml").folder == tmp_path


def test_init_uses_an_existing_requirements_file_and_virtual_environment(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(FASTAPI + "def make_app(): return app\n")
    (tmp_path / "requirements.txt").write_text("fastapi\n")
    assert run_cli("init", "shop:make_app()", "--out", "a.toml").returncode == 0
    for target in read_suite(tmp_path / "a.toml").targets:
        assert target.requirements == ("-r requirements.txt", "uvicorn", "gunicorn", "uvicorn-worker", "granian")
        call = "shop:make_app()" if "gunicorn" in target.name else "--factory"
        assert call in target.command
    (tmp_path / "venv").symlink_to(sys.prefix)
    assert "bench.py run b.toml --python venv/bin/python" in run_cli("init", "shop:app", "--out", "b.toml").stdout
    present = installed(Path(sys.executable))
    assert "uvicorn" in present
    targets = read_suite(tmp_path / "b.toml").targets
    assert not any(target.requirements for target in targets)
    assert ("granian" in [target.name for target in targets]) == ("granian" in present)


SETTINGS = "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'config.settings')\n"
DJANGO = {
    "config/wsgi.py": f"{SETTINGS}app = get_wsgi_application()",
    "config/asgi.py": f"{SETTINGS}app = get_asgi_application()",
    "config/settings.py": "DEBUG = True\nALLOWED_HOSTS = []\nROOT_URLCONF = 'config.urls'\nKEY = f()",
    "config/urls.py": "[path('admin/', admin.site.urls), path('shop/', include('shop.urls')), path('healthz/', a)]",
    "shop/urls.py": "u = [path('items/<int:id>', items), path('report', report, name='report')]",
}


@pytest.mark.parametrize("settings", [SETTINGS, "os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings'\n"])
def test_init_finds_the_urls_of_a_django_project(settings: str, tmp_path: Path, run_cli: RunCli) -> None:
    for name, text in DJANGO.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace(SETTINGS, settings))
    assert run_cli("init", "config.wsgi:app").returncode == 0
    suite = read_suite(tmp_path / "suite.toml")
    assert (suite.axes["path"], suite.ping) == (("/shop/report",), Ping("/healthz/"))
    of_servers = {target.name: target.command[1] for target in suite.targets}
    assert (of_servers["sync"], of_servers["uvicorn"]) == ("config.wsgi:app", "config.asgi:app")
    (tmp_path / "config/settings.py").write_text("DEBUG = True\nALLOWED_HOSTS = ['shop.example']\n")
    refused = run_cli("init", "config.wsgi:app", "--out", "other.toml")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "Django refuses requests to 127.0.0.1: add it to ALLOWED_HOSTS in config.settings" in refused.stderr


ASGI = """\
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})
"""


def test_run_measures_an_application_without_a_suite_file(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(ASGI)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    words = [
        "--path",
        "/report",
        "--ping",
        "/health",
        "--workers",
        "1",
        "--users",
        "2",
        "--time",
        "1s",
        "--rounds",
        "1",
        "--out",
        "r.json",
    ]
    ran = run_cli("run", "shop:app", *words)
    result = load(tmp_path / "r.json")
    assert {record.server for record in result.records} >= {"uvicorn"}, ran.stderr
    assert {record.failure for record in result.records} == {None}
    assert {record.values["path"] for record in result.records} == {"/report"}
    assert result.suite is not None
    assert (result.suite.source, result.suite.ping) == ("shop:app", "/health")
    assert [path.name for path in tmp_path.glob("*.toml")] == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop:app",), "shop:app can't be imported by .venv/bin/python: ModuleNotFoundError: No module named 'gone'"),
        (("gone:app",), "gone:app can't be imported by .venv/bin/python: ModuleNotFoundError"),
        (("fine:app", "--path", "report"), "--path = 'report': expected a path that begins with /"),
        (("fine:app", "--ping", "health"), "--ping = 'health': expected a path that begins with /"),
        (("2", "--path", "/report"), "--path needs an application, such as shop.main:app"),
    ],
    ids=" ".join,
)
def test_an_invalid_run_command_for_an_application_causes_a_one_line_error(
    words: tuple[str, ...], why: str, tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "shop.py").write_text(f"import gone\n{ASGI}")
    (tmp_path / "fine.py").write_text(ASGI)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    ran = run_cli("run", *words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert why in ran.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop:app", "--out", "there.toml"), "'there.toml' already exists"),
        (("shop",), "'shop' names no application"),
        (("gone:app",), "there is no gone.py"),
        (("broken:app",), "is not Python"),
    ],
    ids=" ".join,
)
def test_an_invalid_init_command_causes_a_one_line_error_and_overwrites_no_file(
    words: tuple[str, ...], why: str, tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "there.toml").write_text("mine")
    (tmp_path / "broken.py").write_text("def")
    ran = run_cli("init", *words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert why in ran.stderr
    assert (tmp_path / "there.toml").read_text() == "mine"
