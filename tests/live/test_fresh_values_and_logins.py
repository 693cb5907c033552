"""Loads whose requests differ each time, and loads of users who log in before, with real servers."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from command import invoke

from under_siege.load.request import CLIENT
from under_siege.record.requests import CHECK, CORRECT, LOAD, OPEN
from under_siege.record.result import Result, load

SHORT = ("--users", "3", "--time", "1s", "--rounds", "1", "--out", "r.json", "--quiet")
ON_ALL = ("--workers", "1", "--strategy", "none", "--ready-within", "60s")

# Each value exists only once, also in other processes and in later runs.
NAMES = """\
import sqlite3, time
from flask import Flask, abort, jsonify, request
app = Flask(__name__)
def keep(*values):
    with sqlite3.connect("names.db", timeout=30) as db:
        db.execute("CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY)")
        try:
            db.executemany("INSERT INTO names VALUES (?)", [(value,) for value in values])
        except sqlite3.IntegrityError:
            abort(409)
@app.post("/users/<number>")
def sign_up(number):
    time.sleep(0.02)
    keep(number, request.headers.get("X-Once", f"x-{number}"), request.json["name"])
    return jsonify(number=number, name=request.json["name"], sum=7), 201
@app.get("/events")
def events():
    keep(request.args["q"])
    return app.response_class(iter(["data: 1\\n\\n", "data: 2\\n\\n"]), mimetype="text/event-stream")
@app.get("/health")
def health(): return "fine"
"""

# Tokens and cookies are those of one process, which ends with its server.
LOGINS = """\
import secrets, time
from flask import Flask, abort, jsonify, request, session
app = Flask(__name__)
app.secret_key = secrets.token_bytes(32)
tokens = {}
@app.post("/token")
def token():
    if request.form["password"] != "correct horse+": abort(401)
    tokens[value := secrets.token_urlsafe(20)] = request.form["user"]
    return jsonify(data={"access_token": value})
@app.post("/login")
def login():
    session["user"] = request.json["user"]
    return "", 303, {"Location": "/mine"}
@app.get("/mine")
def mine():
    time.sleep(0.02)
    name = session.get("user") or tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
    return jsonify(name=name, sum=7) if name else abort(401)
@app.get("/health")
def health(): return "fine"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return an empty folder with a link to the environment of the tests, which has all servers."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def measured(folder: Path, *words: str, env: dict[str, str] | None = None) -> Result:
    """Run the command, and return a result in which all responses are correct."""
    ran = invoke("run", *words, *SHORT, folder=folder, env=env)
    assert ran.returncode in (0, 1, 3), ran.stderr + ran.stdout
    result = load(folder / "r.json")
    assert {record.failure for record in result.records} == {None}, ran.stdout
    for record in result.records:
        assert record.tool == CLIENT
        assert {*record.requests.only(LOAD).outcome} <= {CORRECT, OPEN}, ran.stdout
        assert {*record.requests.only(CHECK).outcome} == {CORRECT}, ran.stdout
    return result


def refused(folder: Path, *words: str, env: dict[str, str] | None = None) -> str:
    """Run the command, which ends before the load with one line; return this line."""
    ran = invoke("run", *words, *SHORT, folder=folder, env=env)
    assert ran.returncode == 2, ran.stdout
    assert not (folder / "r.json").exists()
    return ran.stderr.splitlines()[-1]


def test_a_request_that_succeeds_only_once_is_said_to_with_the_placeholder(shop: Path) -> None:
    (shop / "app.py").write_text(NAMES)
    words = ["app:app", "--path", "/users/7", "--body", '{"name": "ann"}', "--status", "201", *ON_ALL]
    said = refused(shop, *words)
    assert "the same request succeeds only once (201, then 409" in said
    assert said.endswith('"name": "ann-{n}"')
    assert "if an earlier request has created it, put {n}" in refused(shop, *words)  # in a later run


def test_each_user_logs_in_before_the_load_and_sends_its_token(shop: Path) -> None:
    (shop / "app.py").write_text(LOGINS)
    login = "POST /token user=ann-{user}&password=${SHOP_WORD}"
    header = ["--header", "Authorization: Bearer {data.access_token}"]
    env = {"SHOP_WORD": "correct horse+"}
    result = measured(shop, "app:app", "--path", "/mine", "--setup", login, *header, *ON_ALL, env=env)
    assert result.suite is not None
    assert "ignoring name" in result.suite.checked  # another one for each user
    written = (shop / "r.json").read_text()
    assert "correct" not in written.replace('"correct', "")
    assert "correct+horse" not in written


def test_a_setup_that_fails_is_one_line_before_the_load(shop: Path) -> None:
    (shop / "app.py").write_text(LOGINS)
    words = ["app:app", "--path", "/mine", *ON_ALL, "--setup", "POST /token user=ann&password=${SHOP_WORD}"]
    assert "setup: POST /token returned 401" in refused(shop, *words, env={"SHOP_WORD": "another horse"})
    words += ["--header", "Authorization: Bearer {token}"]
    said = refused(shop, *words, env={"SHOP_WORD": "correct horse+"})
    assert "{token} is in none of its answers: POST /token returned 200 with the fields data.access_token" in said


SUITE = """\
[load]
path = "{path}"
{load}
[ping]
path = "/health"
[axes]
workers = [{workers}]
[servers.gthread]
command = "{python} -m gunicorn -k gthread --threads 4 -w {{workers}} -b {{host}}:{{port}} app:app"
"""
COOKIE = '[[load.setup]]\nmethod = "POST"\npath = "/login"\nbody = { user = "ann-{user}" }\n'
UNIQUE = 'method = "POST"\nbody = { name = "ann-{n}" }\n'


def write_suite(folder: Path, path: str, load: str, more: str = "", workers: str = "1") -> None:
    python = shutil.which("python", path=f"{sys.prefix}/bin")
    (folder / "suite.toml").write_text(SUITE.format(path=path, load=load, python=python, workers=workers) + more)


RIGHT = '[expect]\nstatus = 201\nignore = ["name", "number"]\n'


def test_unique_names_are_created_in_this_run_and_in_later_ones(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NAMES)
    write_suite(tmp_path, "/users/{n}", UNIQUE + 'headers = { X-Once = "{random:12}" }\nwarm_up = 20\n', RIGHT)
    for _ in range(2):
        measured(tmp_path, "suite.toml")


def test_processes_that_don_t_share_sessions_are_no_success(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LOGINS)
    write_suite(tmp_path, "/mine", COOKIE, '[expect]\nignore = ["name"]\n', workers="1, 2")
    ran = invoke("run", "suite.toml", *SHORT, folder=tmp_path)
    assert ran.returncode in (1, 3)
    alone, both = sorted(load(tmp_path / "r.json").records, key=lambda record: record.values["workers"])
    assert alone.failure is None
    assert {*alone.requests.only(LOAD).outcome} <= {CORRECT, OPEN}
    is_seen = both.failure is not None or "wrong" in both.requests.only(LOAD).outcome
    assert is_seen, ran.stdout
    assert "401" in ran.stdout


MEMBERS = NAMES.replace(
    '@app.post("/users/<number>")\n',
    "app.secret_key = 'sesame'\n"
    '@app.post("/login")\n'
    "def login():\n"
    "    session['user'] = 'ann'\n"
    "    return 'welcome'\n"
    '@app.post("/users/<number>")\n',
).replace("    time.sleep(0.02)\n", "    time.sleep(0.02)\n    session.get('user') or abort(401)\n")
MEMBERS = MEMBERS.replace("request\n", "request, session\n", 1)


@pytest.mark.parametrize(
    "words",
    [("trace", "--requests", "3"), ("capacity", "--time", "1s"), ("drill", "--fault", "worker", "--rounds", "1")],
)
def test_other_commands_send_fresh_values_of_users_who_have_logged_in(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(MEMBERS)
    write_suite(tmp_path, "/users/{n}", UNIQUE + COOKIE, RIGHT)
    command, *options = words
    ran = invoke(command, "suite.toml", *options, "--out", "r.json", "--quiet", folder=tmp_path)
    assert ran.returncode in (0, 1, 3), ran.stderr
    result = load(tmp_path / "r.json")
    records = [step.record for step in result.steps]
    assert len(result.traces) + len(records) + len(result.incidents) > 0
    assert {each.failure for each in (*result.traces, *records, *result.incidents)} == {None}
    tables = [record.requests for record in records] + [incident.requests for incident in result.incidents]
    outcomes = [outcome for requests in tables for outcome in requests.only(LOAD).outcome]
    assert "wrong" not in outcomes
    assert CORRECT in outcomes or result.traces


def test_each_stream_of_several_has_a_fresh_value(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NAMES)
    rows = [{"path": "/events?q={n}"}, {"path": "/events?q=b-{uuid}"}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_suite(tmp_path, "/", 'requests_file = "prompts.jsonl"\nstream = "sse"\n')
    result = measured(tmp_path, "suite.toml")
    assert {*result.records[0].requests.only(LOAD).request} == {0, 1}
