"""The suite for an application, which `init` writes and `run` uses: its servers, its requests and its options."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult

from common.errors import BadInputError
from under_siege.host.interpreter import interpreter
from under_siege.load.request import Ping
from under_siege.suite import suite_from_application
from under_siege.suite.application import Application, deployments_of, missing
from under_siege.suite.selection import suite_of
from under_siege.suite.suite import READY_WITHIN_S, Suite
from under_siege.suite.suite_file import read_suite
from under_siege.suite.suite_from_application import TargetOptions

RunCli = Callable[..., CommandResult]

ROUTES = [("GET", "/healthz"), ("GET", "/orders/{customer}"), ("POST", "/orders"), ("GET", "/report")]


def described(name: str = "shop:app", kind: str = "asgi", **values: object) -> Application:
    """Return what the user's Python would say about an application, none of whose servers is installed."""
    unknown = {"is_factory": False, "is_async": False, "framework": "", "version": "", "routes": [], "host": ""}
    known = {"twin": "", "import_from": "", "import_s": 0.1, "python": sys.version_info[:3], "servers": {}}
    return Application(name=name, kind=kind, **{**unknown, **known, **values})


Describe = Callable[..., None]


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Return a function that defines an application of the current folder."""
    found = {}

    def add(name: str = "shop:app", *words: str, **values: object) -> None:
        found[name] = described(name, *words, **values)

    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(suite_from_application, "inspected", lambda name, *_: found[name])
    monkeypatch.setattr(suite_from_application, "installed_python", lambda *_: interpreter())
    monkeypatch.chdir(tmp_path)
    return add


@pytest.fixture
def written(run_cli: RunCli, tmp_path: Path) -> Callable[..., Suite]:
    """Return a function that returns the suite that `init` writes."""

    def init(*options: str, app: str = "shop:app", out: str = "suite.toml") -> Suite:
        ran = run_cli("init", app, "--out", out, *options)
        assert ran.returncode == 0, ran.stderr
        return read_suite(tmp_path / out)

    return init


@pytest.mark.parametrize(
    ("kind", "servers"),
    [
        ("asgi", ["uvicorn", "gunicorn-asgi", "granian"]),
        ("wsgi", ["sync", "gthread", "waitress", "granian"]),
        ("aiohttp", ["run_app", "gunicorn-aiohttp"]),
        ("tornado", ["listen", "prefork"]),
    ],
)
def test_each_kind_of_application_has_its_servers(kind: str, servers: list[str], application, written) -> None:
    application("shop:app", kind)
    suite = written()
    assert [target.name for target in suite.targets] == servers
    assert all("shop" in " ".join(target.command) for target in suite.targets)
    assert (suite.axes["workers"][0], suite.axes["path"], suite.ping) == (1, ("/",), None)
    assert not suite.keep_environment


@pytest.mark.parametrize(
    ("routes", "method", "path"),
    [
        (ROUTES, "GET", "/report"),
        ([("GET", "/api/logout/"), ("GET", "/report")], "GET", "/report"),
        (ROUTES[:3], "POST", "/orders"),
        ([("PUT", "/orders/{id}"), ("PUT", "/orders")], "PUT", "/orders"),
    ],
)
def test_the_request_is_the_first_route_without_parameters_that_accepts_the_method(
    routes: list[tuple[str, str]], method: str, path: str, application, written
) -> None:
    application(routes=routes)
    suite = written(*([] if method == "GET" else ["--method", method]))
    assert (suite.load.request.method, suite.axes["path"]) == (method, (path,))
    assert suite.load.request.body == (b"" if method == "GET" else b"{}")
    assert suite.ping == (Ping("/healthz") if ("GET", "/healthz") in routes else None)


def test_a_suite_in_a_subdirectory_runs_its_commands_in_the_folder_of_the_application(
    application, written, tmp_path: Path
) -> None:
    application()
    assert written(out="perf/suite.toml").folder == tmp_path


def test_a_requirements_file_becomes_the_environment_to_which_the_servers_are_added(
    application, written, tmp_path: Path
) -> None:
    application("shop:app", "wsgi")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    (tmp_path / "shop.py").touch()
    targets = written().targets
    assert {target.requirements for target in targets} == {("-r requirements.txt",)}
    added = {target.name: target.additions for target in targets}
    assert added == {
        "sync": ("gunicorn",),
        "gthread": ("gunicorn",),
        "waitress": ("waitress",),
        "granian": ("granian",),
    }


def test_a_missing_module_is_named_before_its_packages_are_installed(application, tmp_path: Path) -> None:
    application("shop:app", "wsgi")
    (tmp_path / "requirements.txt").write_text("flask\n")
    with pytest.raises(BadInputError, match=r"^shop:app: there is no shop.py here or in src"):
        suite_of(["shop:app"])


def test_a_slow_import_gives_servers_more_time_to_start(application, written) -> None:
    application(import_s=1.1)
    assert all(target.ready_within_s > READY_WITHIN_S + 2 for target in written().targets)


def test_servers_that_need_a_later_python_are_left_out() -> None:
    servers = list(deployments_of(described(python=(3, 9, 18))))
    assert missing(servers, {}) == ["uvicorn", "granian"]
    assert missing(servers, {"granian": "2"}) == ["uvicorn"]
    outdated = described(servers={"gunicorn": "20"})  # without its workers for ASGI
    assert [each.name for each in deployments_of(outdated)] == ["uvicorn", "granian"]


def test_a_django_project_has_the_servers_of_both_interfaces(application) -> None:
    application("config.wsgi:application", "wsgi", twin="config.asgi:application")
    commands = {target.name: " ".join(target.command) for target in suite_of(["config.wsgi:application"]).targets}
    assert "config.wsgi:application" in commands["sync"]
    assert "config.asgi:application" in commands["uvicorn"]
    assert {"granian", "granian-asgi"} <= commands.keys()


def test_applications_of_different_kinds_are_compared_if_they_get_the_same_requests(application) -> None:
    application("config.wsgi:application", "wsgi", routes=[("GET", "/report")])
    application("config.asgi:application", "asgi", routes=[("GET", "/other")])
    names = ["config.wsgi:application", "config.asgi:application"]
    suite = suite_of(names, TargetOptions(path="/shop/report"))
    assert {"sync-wsgi", "uvicorn-asgi"} <= {target.name for target in suite.targets}
    assert suite.axes["path"] == ("/shop/report",)
    with pytest.raises(BadInputError, match="--path"):
        suite_of(names)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"headers": ("nothing",)}, "--header 'nothing': expected"),
        ({"ready_within": "soon"}, "--ready-within 'soon': expected"),
        ({"path": "report"}, "--path = 'report': expected"),
        ({"ping": "health"}, "--ping = 'health': expected"),
        ({"events": "3"}, "--stream"),
    ],
    ids=str,
)
def test_an_invalid_option_causes_a_one_line_error(options: dict[str, object], expected: str, application) -> None:
    application()
    with pytest.raises(BadInputError) as error:
        suite_of(["shop:app"], TargetOptions(**options))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("words", [("shop:app", "--out", "there.toml"), ("shop",), ("shop.py:app",)], ids=" ".join)
def test_an_invalid_init_command_causes_a_one_line_error_and_overwrites_no_file(
    words: tuple[str, ...], application, tmp_path: Path, run_cli: RunCli
) -> None:
    application()
    (tmp_path / "there.toml").write_text("mine")
    ran = run_cli("init", *words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"there.toml": "mine"}


def test_a_run_without_a_target_names_the_application_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = list[str]()
    suite_of([], TargetOptions(tell=told.append))
    assert told == []
    (tmp_path / "main.py").write_text("app = FastAPI()\n")
    assert suite_of([], TargetOptions(tell=told.append)).has_task
    assert told == ["strategies for long tasks are compared, because no application is named; this folder has main:app"]


def test_only_the_applications_of_sanic_are_compared_on_its_own_server() -> None:
    installed = {"sanic": "25", "uvicorn": "0.40", "granian": "2.7"}
    names = [each.name for each in deployments_of(described(framework="sanic", servers=installed))]
    assert "sanic" in names
    assert names.index("uvicorn") < names.index("sanic")
    assert "sanic" not in [each.name for each in deployments_of(described(framework="fastapi", servers=installed))]


def test_an_application_without_real_threads_is_compared_on_servers_that_need_none(application) -> None:
    application("shop:app", "wsgi", patched_by="gevent", servers={"gunicorn": "25"})
    suite = suite_of(["shop:app"])
    additions = {target.name: target.additions for target in suite.targets}
    assert additions == {"sync": (), "gevent": ("packaging",), "waitress": ("waitress",)}
    assert any("such as gthread and Granian, were left out" in note for note in suite.application.notes)
    eventlet = described("shop:app", "wsgi", patched_by="eventlet")
    assert [each.name for each in deployments_of(eventlet)] == ["sync", "waitress"]
