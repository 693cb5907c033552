"""The short diff that moves the function of a route to a process pool, and the reasons why there is none."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from under_siege.record.result import MovedRoute, made_legible
from under_siege.suite.application import RouteFunction
from under_siege.suite.route_change import MOST_LINES, RouteChange, change_of, plain_def_of

LONG = '''\
from somewhere import app, slow


@app.get("/report")
def report(
    customer: str,
    year: int = 2026,
    unused: str = "",
) -> dict:
    """Return the report."""
    # the sum of everything
    return {"customer": customer, "year": year, "sum": slow()}
'''


def change(source: str, folder: Path, framework: str = "fastapi", **values: object) -> RouteChange:
    (folder / "shop.py").write_text(source)
    line = 1 + source[: source.index("@app")].count("\n")
    return change_of(RouteFunction(**{"name": "report", "file": "shop.py", "line": line, "is_async": False, **values}),
                     framework, folder)  # fmt: skip


def added(change: RouteChange) -> list[str]:
    return [line[1:] for line in change.diff if line.startswith("+") and not line.startswith("+++")]


@pytest.mark.parametrize("framework", ["fastapi", "litestar", "flask", "django"])
def test_the_body_moves_with_the_parameters_that_it_uses_below_the_docstring(framework: str, tmp_path: Path) -> None:
    source = LONG.replace("report(\n", "report(\n    request,\n") if framework == "django" else LONG
    found = change(source, tmp_path, framework)
    assert found.unmovable == ""
    assert len([line for line in found.diff[2:] if line[0] in "+-" and line[1:]]) <= MOST_LINES
    assert [line for line in added(found) if line][-2:] == [
        "    return pool().submit(compute_report, customer, year).result()",
        "def compute_report(customer, year):",
    ]
    assert any(line.startswith(("@functools.cache", "pool = functools.cache(lambda")) for line in added(found))
    assert ("django.setup" in "".join(found.diff)) == (framework == "django")
    assert found.line == 5


@pytest.mark.parametrize(
    ("decorator", "changed"),
    [
        ('@app.get("/")', '@app.get("/", sync_to_thread=True)'),
        ("@app.get()", "@app.get(sync_to_thread=True)"),
        ('@app.get("/café", sync_to_thread=False)', '@app.get("/café", sync_to_thread=True)'),
        ('@app.get(\n    path="/",\n)', '    path="/", sync_to_thread=True,'),
    ],
)
def test_litestar_runs_the_changed_function_in_a_thread(decorator: str, changed: str, tmp_path: Path) -> None:
    found = change(f"from web import app\n{decorator}\ndef report(year):\n    return year\n", tmp_path, "litestar")
    assert changed in added(found)


def test_a_handler_of_litestar_without_arguments_can_not_be_changed(tmp_path: Path) -> None:
    found = change("from web import app\n@app.get\ndef report(year): return year\n", tmp_path, "litestar")
    assert "has no arguments" in found.unmovable


def test_names_that_the_module_uses_are_left_alone(tmp_path: Path) -> None:
    found = change("pool = compute_report = 1\n\n" + LONG, tmp_path)
    assert "def pool_():" in "".join(found.diff)
    assert "compute_report_(customer, year)" in "".join(found.diff)


def test_a_body_on_the_line_of_its_def_moves_too(tmp_path: Path) -> None:
    found = change('import os, threading\n\n\n@app.get("/")\ndef report(a: int): return {"café": a}\n', tmp_path)
    assert added(found)[-1] == 'def compute_report(a): return {"café": a}'


def changed(source: str, diff: Sequence[str]) -> str:
    """Return the source after the change."""
    lines, place, result = source.split("\n"), 0, list[str]()
    for line in diff[2:]:
        if match := re.match(r"@@ -(\d+)", line):
            result += lines[place : int(match[1]) - 1]
            place = int(match[1]) - 1
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert line[1:] == lines[place]
            result += [lines[place]] * line.startswith(" ")
            place += 1
    return "\n".join([*result, *lines[place:]])


DECORATED = "    @functools.cache\n    def fib(k):\n        return k if k < 2 else fib(k - 1) + fib(k - 2)\n\n"
HEAD = 'import os, threading, functools\n\n\n@app.get("/")\n'


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(f"{HEAD}def report(a: int):\n{DECORATED}    return fib(a)\n", id="a decorated function first"),
        pytest.param(f"{HEAD}def report(\n    a: int): return a\n", id="on the last line of the signature"),
        pytest.param(f'{HEAD}def report(a: int): "Doc."; return a\n', id="a docstring on the same line"),
        pytest.param(f'{HEAD}def report(a: int):\n    "Doc."; b = a\n    return b\n', id="beside a docstring"),
        pytest.param(f"{HEAD}def report(\n\ta: int\n):\n\treturn a\n", id="tabs"),
        pytest.param(f"{HEAD}def report(a: int, pool: int = 1):\n    return a\n", id="an unused parameter `pool`"),
        pytest.param(f"{HEAD}def report(a: int):\n    return sorted([a], key=abs)[0]\n", id="key=, no secret"),
    ],
)
def test_the_changed_function_computes_the_same_also_after_a_result_was_saved(source: str, tmp_path: Path) -> None:
    found = change(source, tmp_path)
    assert found.diff, found.unmovable
    route = made_legible(MovedRoute(path="/", server="uvicorn", diff=list(found.diff), def_diff=list(found.diff)))
    assert route.diff == route.def_diff == list(found.diff)
    results = []
    for text in (source, changed(source, found.diff)):
        names: dict[str, Any] = {"app": SimpleNamespace(get=lambda _: lambda function: function)}
        exec(text, names)  # noqa: S102
        for name in ("pool", "pool_"):
            if name in names:
                names[name] = lambda: SimpleNamespace(submit=lambda f, *a: SimpleNamespace(result=lambda: f(*a)))
        results.append(names["report"](5))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("source", "values", "why"),
    [
        ('@app.get("/")\nasync def report(): return 1\n', {"is_async": True}, "coroutine function"),
        ('@app.get("/")\ndef report(session): return session.all()\n', {"unmovable": ("session",)}, "`session`"),
        ("def made():\n    @app.get\n    def report(): return 1\n", {"name": "made.<locals>.report"}, "top level"),
        ("@app.get\ndef report():\n    yield 1\n", {}, "generator"),
        ("@app.get\ndef report(**all): return all\n", {}, "any number of parameters"),
        ("@app.get\ndef report():\n    raise HTTPException(404)\n", {}, "HTTPException"),
        ("@app.get\ndef report(): return StreamingResponse([])\n", {}, "StreamingResponse"),
        ("@app.get\ndef report():\n    global count\n    count += 1\n    return count\n", {}, "changes `count`"),
        ("@app.get\ndef report(a):\n    cache[a] = 1\n    return cache\n", {}, "changes `cache`"),
        ("@app.get\ndef report(a):\n    app.state.seen = a\n    return a\n", {}, "changes `app`"),
        ("@app.get\ndef report(a):\n    seen.append(a)\n    return len(seen)\n", {}, "changes `seen`"),
        ("@app.get\ndef report():\n    return next(numbers)\n", {}, "changes `numbers`"),
        (
            "items = []\n@app.get\ndef report():\n    return sum(items)\n\ndef add(a):\n    items.append(a)\n",
            {},
            "uses `items`, which `add` changes",
        ),
        ("app = FastAPI()\n@app.get\ndef report():\n    return app.state.a\n", {}, "uses `app`"),
        (
            "def find():\n    raise HTTPException(404)\n@app.get\ndef report(): return find()\n",
            {},
            "calls `find`: it raises",
        ),
        ("@app.get\ndef report(n):\n    return n and report(n - 1)\n", {}, "calls itself (shop.py:3)"),
        ("@app.get\ndef report(): return 1\n\ndef both(): return [report()]\n", {}, "called elsewhere (shop.py:4)"),
        ("@app.get\ndef report(): return 1\nother = partial(report, 1)\n", {}, "used elsewhere (shop.py:3)"),
        (
            "@app.get\n@functools.lru_cache\ndef report(): return 1\n",
            {},
            "it has another decorator (lru_cache)",
        ),
        ("@app.get\n@limit('1/s')\ndef report(): return 1\n", {}, "it has another decorator (limit)"),
        ("@app.get\ndef report():\r\n    return 1\r\n", {}, "ends of lines"),
        ("@app.get\ndef report():\n    return 1  \n", {}, "end with spaces"),
        ("@app.get\ndef report():\n    return '\x1b[31m'\n", {}, "invisible characters"),
        ("password = 'hunter2abc'\n@app.get\ndef report():\n    return 1\n", {}, "a secret"),
        ("@app.get\nclass Report: pass\n", {}, "defines no function"),
        ("@app.get\ndef report(:\n", {}, "can't be read"),
    ],
)
def test_a_function_that_can_not_simply_move_has_a_reason(source: str, values, why: str, tmp_path: Path) -> None:
    found = change(source, tmp_path, **values)
    assert (found.diff, why in found.unmovable) == ((), True), found.unmovable


@pytest.mark.parametrize(
    ("caller", "why"),
    [
        ("from shop import report\n\nx = report()\n", "called elsewhere (web/all.py:3)"),
        ("from shop import report as r\nx = [r]\n", "used elsewhere (web/all.py:2)"),
        ("from shop import *\nx = report()\n", "called elsewhere (web/all.py:2)"),
        ("import shop\nx = shop.report()\n", "called elsewhere (web/all.py:2)"),
        ("from .. import shop as s\n\ndef f():\n    return s.report()\n", "called elsewhere (web/all.py:4)"),
        ("from shop import report\nurls = [path('report', report)]\n", ""),
        ("import shop\napp = Litestar(route_handlers=[shop.report])\n", ""),
        ("from other import report\nreport()\n", ""),
        ("from shop import report\n\ndef f(report):\n    return report()\n", ""),
        ("report = 1\nx = report\n", ""),
    ],
)
def test_all_files_of_the_application_may_call_the_function(caller: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "all.py").write_text(caller)
    found = change(
        "@app.get\ndef report():\n    return 1\n\ndef make():\n    report = 1\n    return report\n", tmp_path
    )
    assert (why in found.unmovable, bool(found.diff)) == (True, not why), found.unmovable


def test_functions_of_other_files_may_prevent_that_a_function_moves(tmp_path: Path) -> None:
    (tmp_path / "db.py").write_text("from flask import g\ndef get_db(): return g.db\n")
    (tmp_path / "reports.py").write_text("import db\ndef all(): return db.get_db().all()\n")
    found = change("from reports import all as a\n@app.get\ndef report(): return a()\n", tmp_path, "flask")
    assert "it calls `get_db`: it uses `g`, which exists only during a request" in found.unmovable


@pytest.mark.parametrize(
    ("framework", "source", "why"),
    [
        ("starlette", "@app.route\ndef report(r): return r.url\n", "`r` can't be pickled"),
        (
            "django",
            "from django.x import app\n@app\ndef report(request): return render(request, 'a.html')\n",
            "`request` can't be pickled",
        ),
        (
            "flask",
            "from flask import request\n@app.get\ndef report(): return request.args\n",
            "`request`, which exists",
        ),
        ("flask", "import flask\n@app.get\ndef report(): return flask.session['a']\n", "`flask`, which exists"),
        ("flask", "from flask import jsonify as j\n@app.get\ndef report(): return j(1)\n", "`j`, which exists"),
        ("pyramid", "@app.get\ndef report(): return 1\n", "no recipe for pyramid"),
    ],
)
def test_what_a_framework_binds_to_the_request_stays(framework: str, source: str, why: str, tmp_path: Path) -> None:
    found = change(source, tmp_path, framework)
    assert (found.diff, why in found.unmovable) == ((), True), found.unmovable


def test_a_request_that_the_body_ignores_does_not_move(tmp_path: Path) -> None:
    found = change(
        "@app.route\ndef report(request, year):\n    return PlainTextResponse(str(year))\n", tmp_path, "starlette"
    )
    assert added(found)[-1] == "def compute_report(year):"


SLOW = '@app.get("/slow")\nasync def slow():\n    time.sleep(0.2)\n    return 1\n'


def plain_def(source: str, folder: Path, framework: str = "fastapi") -> RouteChange:
    (folder / "shop.py").write_text(source)
    line = 1 + source[: source.index("@app")].count("\n")
    return plain_def_of(RouteFunction(name="slow", file="shop.py", line=line, is_async=True), framework, folder)


def test_a_coroutine_function_that_awaits_nothing_becomes_a_plain_def(tmp_path: Path) -> None:
    found = plain_def(SLOW, tmp_path)
    assert [line for line in found.diff[2:] if line[0] in "+-"] == ["-async def slow():", "+def slow():"]


@pytest.mark.parametrize(
    ("source", "framework", "why"),
    [
        (SLOW.replace("time.sleep", "await sleep"), "fastapi", "`slow` awaits"),
        (SLOW.replace("return 1", "return [a async for a in b]"), "fastapi", "`slow` awaits"),
        ("import asyncio\n" + SLOW.replace("time.sleep", "asyncio.create_task"), "fastapi", "uses `asyncio`"),
        (SLOW + "\nasync def other(): return await slow()\n", "fastapi", "called elsewhere (shop.py:6)"),
        (SLOW.replace("async def", "@cached\nasync def"), "fastapi", "another decorator (cached)"),
        (SLOW.replace("time.sleep(0.2)", "seen.append(1)"), "fastapi", "changes `seen`"),
        (
            f"import asyncio\ndef note(): asyncio.current_task()\n{SLOW.replace('time.sleep(0.2)', 'note()')}",
            "fastapi",
            "it calls `note`: it uses `asyncio`",
        ),
        (
            f"def note(): seen.append(1)\n{SLOW.replace('time.sleep(0.2)', 'note()')}",
            "fastapi",
            "it calls `note`: it changes `seen`",
        ),
        (SLOW.replace("async ", ""), "fastapi", "plain def already"),
        (SLOW, "sanic", "sanic doesn't run a plain def in a thread"),
    ],
)
def test_other_coroutine_functions_have_a_reason(source: str, framework: str, why: str, tmp_path: Path) -> None:
    found = plain_def(source, tmp_path, framework)
    assert (found.diff, why in found.unmovable) == ((), True), found.unmovable


def test_a_class_that_inherits_its_method_can_not_move(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from views import ListView\nclass Reports(ListView): ...\n")
    found = change_of(RouteFunction("Reports", "shop.py", 2, is_async=False, is_method=True), "django", tmp_path)
    assert found.unmovable == "`Reports` inherits the method that answers it from a library"
