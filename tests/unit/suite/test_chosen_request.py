"""The request to an application: nothing but GET is sent unless its owner chooses it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from command import invoke

from common.errors import BadInputError
from under_siege.run.command import run
from under_siege.suite import suite_from_application
from under_siege.suite.application import Application
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_file import read_suite
from under_siege.suite.suite_from_application import TargetOptions

UNSAFE = [("GET", "/health"), ("DELETE", "/orders"), ("POST", "/orders"), ("GET", "/orders/{id}"), ("PUT", "/stock")]
SAFE = [
    *UNSAFE,
    ("PUT", "/orders/{number}"),
    ("DELETE", "/stock"),
    ("GET", "/report"),
    ("POST", "/search?customer={customer}"),
]
COMMANDS = ("run", "capacity", "drill", "trace", "profile", "init")

MakeApp = Callable[[list[tuple[str, str]]], None]


@pytest.fixture
def app_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeApp:
    """Let shop:app be an application with these routes, without importing anything."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)

    def make(routes: list[tuple[str, str]]) -> None:
        app = Application(
            *("shop:app", "asgi", False, False, "fastapi", "1", routes, "", "", "", 0.1, (3, 12, 0)),
            servers={"uvicorn": "1", "granian": "2", "gunicorn": "26"},
        )
        monkeypatch.setattr(suite_from_application, "inspected", lambda *_: app)

    return make


def refusal(options: TargetOptions, style: str = "") -> str:
    with pytest.raises(BadInputError) as error:
        suite_of(["shop:app"], options, style=style)
    return str(error.value)


@pytest.mark.parametrize("words", [(), ("--path", "/orders"), ("--path", "/stock"), ("--path", "/orders?all=1")])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_to_choose_a_request_that_changes_data(
    command: str, words: tuple[str, ...], app_with: MakeApp, tmp_path: Path
) -> None:
    app_with(UNSAFE)
    ran = invoke(command, "shop:app", *words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "--method" in ran.stderr
    assert "its routes: /health, DELETE /orders, POST /orders, /orders/{id} and PUT /stock" in ran.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_that_choose_a_request(command: str, app_with: MakeApp) -> None:
    app_with(UNSAFE)
    ran = invoke(command, "shop:app", "--method", "GET", "--body", "x", "--path", "/stock")
    assert ran.stderr.startswith("bench.py: --body with --method GET: a GET has no body")
    assert (
        "'TRACE' is not one of 'GET', 'POST', 'PUT', 'PATCH', 'DELETE'"
        in invoke(command, "shop:app", "--method", "TRACE").stderr
    )


CHOSEN = {  # options → method, path and body
    "nothing": (TargetOptions(), "GET", "/report", b""),
    "a path": (TargetOptions(path="/orders/7"), "GET", "/orders/7", b""),
    "a body": (TargetOptions(body='{"id": 7}'), "POST", "/orders", b'{"id": 7}'),
    "a body and a path": (TargetOptions(path="/report", body="x"), "POST", "/report", b"x"),  # as a Django view accepts
    "POST": (TargetOptions(method="POST"), "POST", "/orders", b"{}"),
    "PUT": (TargetOptions(method="PUT"), "PUT", "/stock", b"{}"),
    "DELETE and a path": (TargetOptions(method="DELETE", path="/orders"), "DELETE", "/orders", b""),
    "DELETE with a body": (TargetOptions(method="DELETE", path="/orders", body="[1]"), "DELETE", "/orders", b"[1]"),
    "a method that the routes don't name": (TargetOptions(method="PATCH", path="/gone"), "PATCH", "/gone", b"{}"),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_options_choose_the_request_and_init_writes_the_same(name: str, app_with: MakeApp, tmp_path: Path) -> None:
    app_with(SAFE)
    options, method, path, body = CHOSEN[name]
    given = {"--path": options.path, "--method": options.method, "--body": options.body}
    words = [word for option, value in given.items() if value is not None for word in (option, value)]
    assert invoke("init", "shop:app", *words).returncode == 0
    for suite in (suite_of(["shop:app"], options), read_suite(tmp_path / "suite.toml")):
        request = suite.load.request
        assert (request.method, suite.axes["path"], request.body) == (method, (path,), body)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (TargetOptions(path="/stock"), "/stock accepts PUT and DELETE, but not GET; choose one with --method"),
        (TargetOptions(path="/stock", body="{}"), "/stock accepts PUT and DELETE, but not POST"),
        (TargetOptions(path="/search?customer=acme"), "accepts POST, but not GET; choose it with --method"),
        (
            TargetOptions(path="/orders/7", body="{}"),
            "/orders/7 accepts GET and PUT, but not POST; choose one with --method",
        ),
        (TargetOptions(path="/orders/{n}", body="{}"), "/orders/{n} accepts GET and PUT, but not POST"),
        (TargetOptions(path="/orders/{id}"), "{id} stands for a value; put one in, such as /orders/20"),
        (TargetOptions(method="DELETE"), "2 routes accept DELETE without parameters; use --path"),
        (TargetOptions(method="PATCH"), "no routes accept PATCH without parameters; use --path"),
    ],
)
def test_a_request_that_the_options_leave_open_is_refused(options: TargetOptions, why: str, app_with: MakeApp) -> None:
    app_with(SAFE)
    assert why in refusal(options)


def test_jobs_are_posted_only_to_a_route_that_accepts_post(app_with: MakeApp) -> None:
    app_with([*SAFE, ("POST", "/jobs")])
    assert "2 routes accept POST without parameters; use --path" in refusal(TargetOptions(), "jobs")
    assert "--method DELETE with --jobs" in refusal(TargetOptions(method="DELETE"), "jobs")
    assert suite_of(["shop:app"], TargetOptions(path="/jobs"), style="jobs").axes["path"] == ("/jobs",)


def test_an_application_whose_routes_are_unknown_gets_only_a_get_request(app_with: MakeApp) -> None:
    app_with([])
    suite = suite_of(["shop:app"])
    assert (suite.load.request.method, suite.axes["path"]) == ("GET", ("/",))
    assert "no routes accept POST" in refusal(TargetOptions(body="{}"))


@pytest.mark.parametrize(
    "body",
    [
        '{"a": null, "b": [1.5, true, "x\\u007fy"], "two words": {}}',
        '{"user": "Ann \\"A\\""}',
        '"\\ud800"',
        "a\nb",
        "[NaN]",
    ],
)
def test_init_writes_any_body(body: str, app_with: MakeApp, tmp_path: Path) -> None:
    app_with(SAFE)
    assert invoke("init", "shop:app", "--body", body).returncode == 0
    assert suite_of(["shop:app"], TargetOptions(body=body)).load == read_suite(tmp_path / "suite.toml").load


def test_placeholders_reach_the_load_and_a_setup_allows_other_names(app_with: MakeApp) -> None:
    app_with(SAFE)
    load = suite_of(["shop:app"], TargetOptions(path="/orders/{random:8}", body='{"id": {n}}', method="PUT")).load
    assert (load.request.body, load.request.content_type) == (b'{"id": {n}}', "application/json")
    setup = ('POST /login {"user": "ann-{user}"}', "GET /start", "POST /login user=ann&password=7")
    headers = ("Authorization: Bearer {token}", "X-Once: {n}", "X-Plain: yes")
    suite = suite_of(["shop:app"], TargetOptions(path="/orders/{id}", setup=setup, headers=headers))
    sent = [(one.request.method, one.path, one.request.body, one.request.content_type) for one in suite.load.setup]
    assert sent == [
        ("POST", "/login", b'{"user": "ann-{user}"}', "application/json"),
        ("GET", "/start", b"", ""),
        ("POST", "/login", b"user=ann&password=7", "application/x-www-form-urlencoded"),
    ]
    assert suite.ping is not None
    assert suite.ping.headers == (("X-Plain", "yes"),)  # pings are those of no user
    assert suite_of(["http://127.0.0.1:1/a"], TargetOptions(setup=setup)).load.setup == suite.load.setup


@pytest.mark.parametrize("text", ["POST", "/login", "POST login", "TRACE /login", "", "POST /../x", "POST\t/a"])
def test_an_invalid_setup_causes_a_one_line_error(text: str, app_with: MakeApp) -> None:
    app_with(SAFE)
    for target in ("shop:app", "http://127.0.0.1:1/a"):
        ran = invoke("run", target, "--setup", text)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert 'such as POST /login {"user": "ann"}' in ran.stderr
    assert "--setup needs an application" in invoke("run", "2", "--setup", "GET /").stderr


def test_every_option_that_describes_an_application_is_refused_for_a_strategy_by_its_own_name() -> None:
    options = {option.name: option for option in run.params}
    for field in dataclasses.fields(TargetOptions):
        if field.name not in ("pythons", "tell"):
            option = options[field.name]
            values = {"stream": ["sse"], "status": ["201"], "method": ["GET"], "strategies": ["none"]}
            given = values.get(field.name, [] if option.is_flag else ["x"])
            ran = invoke("run", "2", option.opts[0], *given)
            assert ran.stderr.startswith(f"bench.py: {option.opts[0]} needs an application"), field.name


def test_a_method_needs_an_application() -> None:
    for words in (["2"], ["http://127.0.0.1:8000/report"]):
        with pytest.raises(BadInputError, match="--method needs an application"):
            suite_of(words, TargetOptions(method="DELETE"))
