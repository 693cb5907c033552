"""The first suite of an application, which `init` writes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from under_siege.load.request import Ping
from under_siege.suite.suite_file import read_suite

RunCli = Callable[..., subprocess.CompletedProcess[str]]

FASTAPI = (
    "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/healthz')\ndef health(): ...\n"
    "@app.get('/orders/{customer}')\ndef orders(): ...\n@app.get('/report')\ndef report(): ...\n"
)
FLASK = "import flask\ndef create_app(): return flask.Flask(__name__)\n"


@pytest.mark.parametrize(
    ("app", "servers", "ping"),
    [
        ("shop:app", ["uvicorn", "gunicorn-asgi", "granian"], Ping("/healthz")),
        ("shop:create_app", ["sync", "gthread", "waitress", "granian"], None),
    ],
    ids=["asgi", "wsgi"],
)
def test_init_writes_a_valid_suite(app: str, servers: list[str], ping, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(FASTAPI if ping else FLASK)
    assert run_cli("init", app).returncode == 0
    suite = read_suite(tmp_path / "suite.toml")
    assert [target.name for target in suite.targets] == servers
    assert all(any(app in word for word in target.command) for target in suite.targets)
    assert suite.axes["workers"][0] == 1
    assert suite.ping == ping
    assert suite.axes["path"] == (
        "/report" if ping else "/",
    )  # the first path that has no parameters and is not the health check
    assert not suite.keep_environment


@pytest.mark.parametrize(
    ("decorators", "options", "chosen"),
    [
        (["post('/orders')"], [], ""),
        (["post('/orders')"], ["--body", '{"id": 7}'], 'POST /orders {"id": 7}'),
        (["put('/orders/{id}')", "api_route('/orders', methods=['PUT'])"], ["--method", "PUT"], "PUT /orders {}"),
        (["post('/orders')", "api_route('/report', methods=['GET', 'POST'])"], [], "GET /report "),
    ],
)
def test_init_chooses_a_get_route_and_other_methods_only_if_they_are_named(
    decorators: list[str], options: list[str], chosen: str, tmp_path: Path, run_cli: RunCli
) -> None:
    routes = "".join(f"@app.{decorator}\ndef route(): ...\n" for decorator in decorators)
    (tmp_path / "shop.py").write_text(f"from fastapi import FastAPI\napp = FastAPI()\n{routes}")
    ran = run_cli("init", "shop:app", *options)
    assert ran.returncode == (0 if chosen else 2)
    if not chosen:
        assert "no route accepts GET without parameters" in ran.stderr
        assert "its routes: POST /orders" in ran.stderr
        return
    suite = read_suite(tmp_path / "suite.toml")
    request = suite.load.request
    assert f"{request.method} {suite.axes['path'][0]} {request.body.decode()}" == chosen


def test_init_writes_a_suite_in_a_subdirectory(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text(FASTAPI)
    assert run_cli("init", "shop:app", "--out", "perf/suite.toml").returncode == 0
    assert read_suite(tmp_path / "perf/suite.toml").folder == tmp_path


def test_init_uses_an_existing_requirements_file_and_adds_the_servers(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "shop.py").write_text("def app(environ, start_response): ...\n")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    assert run_cli("init", "shop:app").returncode == 0
    targets = read_suite(tmp_path / "suite.toml").targets
    assert {target.requirements for target in targets} == {("-r requirements.txt",)}
    added = {target.name: target.additions for target in targets}
    assert added == {
        "sync": ("gunicorn",),
        "gthread": ("gunicorn",),
        "waitress": ("waitress",),
        "granian": ("granian",),
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop:app", "--out", "there.toml"), "'there.toml' already exists"),
        (("shop",), "'shop' names no application"),
        (("gone:app",), "there is no gone.py"),
        (("broken:app",), "SyntaxError"),
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
