"""The servers that show what if a route ran in threads or in a process pool, and which of them are compared."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from command import CommandResult

from common.errors import BadInputError
from under_siege.host.interpreter import interpreter
from under_siege.measure.plan import Plan, make_plan
from under_siege.suite import suite_from_application, what_if
from under_siege.suite.application import Application, RouteFunction
from under_siege.suite.expected_response import Expectation, counters_in
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_from_application import TargetOptions

PLAIN = RouteFunction("report", "shop.py", 1, is_async=False)
COROUTINE = RouteFunction("report", "shop.py", 1, is_async=True)
ROUTES = [("GET", "/health"), ("GET", "/items/{number}"), ("GET", "/report")]
Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planned:
    """Return a function that plans a run of an application of the current folder."""
    monkeypatch.setattr(suite_from_application, "installed_python", lambda *_: interpreter())
    monkeypatch.setattr(suite_from_application, "server_cpus", lambda: 4)
    monkeypatch.chdir(tmp_path)

    def plan(*strategies: str, framework: str = "fastapi", kind: str = "asgi", function=PLAIN, **options) -> Plan:
        axes, with_strategies = options.pop("axes", {}), options.pop("with_strategies", True)
        described = Application(
            name="shop:app",
            kind=kind,
            is_factory=False,
            is_async=False,
            framework=framework,
            version="",
            routes=ROUTES,
            host="",
            twin="",
            import_from="",
            import_s=0.1,
            python=sys.version_info[:3],
            servers={},
            functions=[None, None, function],
        )
        monkeypatch.setattr(suite_from_application, "inspected", lambda *_: described)
        chosen = TargetOptions(path=options.pop("path", "/report?customer=acme"), strategies=strategies, **options)
        suite = suite_of(["shop:app"], chosen, with_strategies=with_strategies)
        return make_plan(suite, axes, time_s=1, rounds=1)

    return plan


def cases(plan: Plan) -> set[tuple[str, int | None]]:
    return {(case.server, case.get("workers")) for case in plan.cases}


THREADS, PROCESSES = "what-if-threads", "what-if-processes"
AS_IS = {("uvicorn", 1), ("uvicorn", 4), ("gunicorn-asgi", 1), ("gunicorn-asgi", 4), ("granian", 1), ("granian", 4)}


def test_a_route_is_also_measured_in_a_pool_of_as_many_processes_as_cpus_and_where_it_changes_something_in_threads(
    planned: Planned,
) -> None:
    assert cases(planned()) == AS_IS | {(PROCESSES, 4)}
    assert cases(planned(function=COROUTINE)) == AS_IS | {(THREADS, 1), (PROCESSES, 4)}
    assert cases(planned(framework="litestar")) == AS_IS | {(THREADS, 1), (PROCESSES, 4)}
    for kind in ("aiohttp", "tornado"):
        servers = cases(planned(kind=kind, framework=kind, function=COROUTINE))
        assert ((PROCESSES, 4) in servers, (THREADS, 1) in servers) == (True, False)
    in_wsgi = cases(planned(kind="wsgi", framework="flask"))
    assert (PROCESSES, 4) in in_wsgi
    assert (THREADS, 1) not in in_wsgi


def test_strategies_that_the_user_chooses_are_measured_alone_with_the_workers_that_the_user_chooses(
    planned: Planned,
) -> None:
    assert cases(planned("processes")) == {(PROCESSES, 4)}
    assert cases(planned("as-is", "threads", function=COROUTINE)) == {("uvicorn", 1), (THREADS, 1)}
    chosen = planned("as-is", "processes", axes={"workers": (2, 3)})
    assert cases(chosen) == {("uvicorn", 2), ("uvicorn", 3), (PROCESSES, 2), (PROCESSES, 3)}
    assert cases(planned("none")) == AS_IS
    limited = planned("processes", axes={"cpus": (0.5,)})
    assert [case.get("cpus") for case in limited.cases] == ["0.5"]
    assert cases(planned("processes", kind="wsgi", framework="flask")) == {(PROCESSES, 4)}


def test_other_commands_and_loads_move_nothing_unless_the_user_asks(planned: Planned) -> None:
    assert cases(planned(with_strategies=False)) == AS_IS
    assert cases(planned("processes", with_strategies=False)) == {(PROCESSES, 4)}
    assert cases(planned(stream="sse")) == AS_IS


def test_the_route_that_is_measured_without_a_path_is_named(planned: Planned) -> None:
    def notes(plan: Plan) -> str:
        return " ".join(plan.suite.application.notes) if plan.suite.application else ""

    assert "/report was chosen" in notes(planned("processes", path=None))
    assert "was chosen" not in notes(planned("processes"))


@pytest.mark.parametrize("server", [THREADS, PROCESSES])
def test_the_application_as_it_is_gives_the_expected_response_even_if_it_is_not_measured(
    server: str, planned: Planned
) -> None:
    plan = planned(server.removeprefix(what_if.PREFIX), function=COROUTINE)
    (reference,) = plan.references
    assert (reference.server, reference.get("workers")) == ("uvicorn", 1)
    assert not what_if.is_what_if(reference.server)
    assert planned().references == ()


@pytest.mark.parametrize(
    ("strategies", "options", "why"),
    [
        ((), {"path": "/items/{number}"}, r"\{number\} stands for a value; put one in, such as /items/20"),
        ((), {"path": "/a/<int:number>?b={b}"}, r"<int:number> stands for .* such as /a/20\?b=20"),
        (("threads",), {}, "fastapi runs `report` in a thread already"),
        (("threads",), {"kind": "wsgi", "framework": "flask"}, "in threads already"),
        (("none", "processes"), {}, "--strategy none with --strategy processes"),
        (("processes",), {"stream": "sse"}, "a stream can't be moved"),
        (("threads",), {"kind": "tornado", "framework": "tornado"}, "handlers of tornado need the event loop"),
        (("threads",), {"kind": "aiohttp", "framework": "aiohttp"}, "handlers of aiohttp need the event loop"),
    ],
)
def test_a_strategy_that_can_not_be_measured_is_refused(strategies, options, why: str, planned: Planned) -> None:
    with pytest.raises(BadInputError, match=why):
        planned(*strategies, **options)


def test_a_strategy_needs_an_application(run_cli: Callable[..., CommandResult]) -> None:
    ran = run_cli("run", "2", "--strategy", "processes")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "--strategy needs an application" in ran.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop:app", "--strategy", "as-is", "--rate", "5/s"), "--rate compares strategies"),
        (("shop:app", "--strategy", "processes", "--rate", "5"), "expected a rate such as 5/s"),
        (("2", "--rate", "5/s"), "--rate compares strategies"),
        (("shop:app", "--strategy", "processes", "--rate", "5/s"), "as it is: add --strategy as-is"),
        (("shop:app", "--users", "5", "--users", "10", "--rate", "5/s"), "--rate with several loads"),
        (("shop:app", "--arrivals", "5/s", "--rate", "5/s"), "or with --arrivals"),
    ],
)
def test_a_rate_needs_strategies_and_a_unit(
    words: tuple[str, ...], why: str, planned: Planned, run_cli: Callable[..., CommandResult]
) -> None:
    planned()  # defines the application
    ran = run_cli("run", *words)
    assert (ran.returncode, why in ran.stderr) == (2, True), ran.stderr


def test_the_wrapper_gets_the_application_the_route_and_its_modules(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "theirs")
    (target,) = planned("processes").suite.targets
    given = dict(target.environment)
    assert given["UNDER_SIEGE_APP"] == "shop:app"
    assert given["UNDER_SIEGE_ROUTE"] == "/report"
    folder, theirs = given["PYTHONPATH"].split(os.pathsep)
    assert theirs == "theirs"
    assert [path.name for path in Path(folder).glob("*.py")] == [f"{what_if.WRAPPER}.py"]  # nothing that hides a module


def test_a_secret_in_the_path_is_given_to_the_wrapper_only_by_its_name(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sesame-sesame")
    suite = planned("processes", path="/report/${SHOP_TOKEN}?key=${SHOP_TOKEN}").suite
    assert dict(suite.targets[0].environment)["UNDER_SIEGE_ROUTE"] == "/report/${SHOP_TOKEN}"
    assert "sesame" not in f"{suite.route} {suite.targets[0].title}"


def test_braces_that_are_no_parameter_stay_in_the_path(planned: Planned) -> None:
    assert planned(path="/report?filter={1,2}").suite.axes["path"] == ("/report?filter={1,2}",)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/items/{number}", r"\{number\} stands for a value; put one in, such as /items/20"),
        ("/a/<int:number>?b={b}", r"<int:number> stands for .* such as /a/20\?b=20"),
    ],
)
def test_a_parameter_in_the_path_is_refused(path: str, why: str, planned: Planned) -> None:
    with pytest.raises(BadInputError, match=why):
        planned(path=path)


@pytest.mark.parametrize(
    "words", [("--strategy", "none"), ("--against", "HEAD"), ("--require", "rate >= 5/s"), ("--stream", "sse")]
)
def test_the_option_that_conflicts_with_a_rate_is_named(
    words: tuple[str, str], planned: Planned, run_cli: Callable[..., CommandResult]
) -> None:
    planned()  # from now on, this is the application
    ran = run_cli("run", "shop:app", "--path", "/report", "--rate", "5/s", *words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert f"--rate with {' '.join(words) if words[1] == 'none' else words[0]}, " in ran.stderr


def test_the_function_of_a_route_is_found_if_only_one_answers_the_path() -> None:
    functions = [RouteFunction(name, "shop.py", 1, is_async=False) for name in ("item", "items", "new")]
    routes = [("GET", "/items/{number}"), ("GET", "/items"), ("GET", "/items/new")]
    described = Application("shop:app", "asgi", False, False, "", "", routes, "", "", "", 0.1, (3, 11, 1), {})
    assert described.function_of("GET", "/items") is None  # no function is known
    described = msgspec.structs.replace(described, functions=functions)
    found = {path: described.function_of("GET", path) for path in ("/items/7?x=1", "/items", "/items/new", "/gone")}
    assert [each and each.name for each in found.values()] == ["item", "items", "new", None]
    assert described.function_of("POST", "/items") is None
    in_order = msgspec.structs.replace(described, framework="starlette")  # which would call `item` for /items/new
    found = {path: in_order.function_of("GET", path) for path in ("/items/7", "/items", "/items/new")}
    assert [each and each.name for each in found.values()] == ["item", "items", None]
    django = msgspec.structs.replace(described, framework="django")
    assert django.function_of("POST", "/items") == functions[1]


def test_numbers_that_count_requests_are_told_from_other_numbers() -> None:
    counting = [f'{{"number": {n}, "sum": 55, "id": {n * n}}}'.encode() for n in (4, 5, 6)]
    assert counters_in(counting) == (0,)
    assert counters_in(counting[:2]) == ()
    assert counters_in([b"7", b"7", b"7"]) == ()
    expected = Expectation(counting[0], 0.1, 0.0, counters=(0,))
    assert expected.repeated([b"4 a", b"5 b", b"6 c"]) is None
    assert expected.repeated([b"4 a", b"5 b", b"4 c"]) == 4
    assert Expectation(b"", 0.1, 0.0).repeated([b"4", b"4"]) is None


def test_only_packages_that_measured_servers_need_are_said_to_be_added(planned: Planned) -> None:
    notes = {chosen: " ".join(planned(*chosen).suite.application.notes) for chosen in ((), ("processes",))}
    assert "gunicorn" in notes[()]
    assert "uvicorn" in notes["processes",]
    assert "gunicorn" not in notes["processes",]
