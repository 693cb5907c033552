"""Applications of users: what the bench finds out about those of each framework, in their own Python."""

import sys
from pathlib import Path

import pytest
from other_pythons import old_pythons
from sample_applications import (
    AIOHTTP,
    BOTTLE,
    DJANGO,
    FALCON,
    FASTAPI,
    FLASK,
    LITESTAR,
    MIDDLEWARE,
    TORNADO,
    WSGI,
    write,
)

from common.errors import BadInputError
from under_siege.suite.application import Application, deployments_of, inspected, missing
from under_siege.suite.suite_from_application import TargetOptions, suite_of_application


def look_at(folder: Path, name: str, source: str, python: str = sys.executable) -> Application:
    write(folder, {f"{name.partition(':')[0]}.py": source})
    return inspected(name, python, folder)


KINDS = {  # name: source, kind, framework, routes, health check
    "shop:app": (FASTAPI, "asgi", "fastapi", ["/api/v1/report", "/api/v1/search?customer={customer}"], "/api/health"),
    "timed:outer": (MIDDLEWARE, "asgi", "starlette", ["/v1/report"], "/ping"),
    "litestar_shop:app": (LITESTAR, "asgi", "litestar", ["/v1/report"], None),
    "flask_shop:create_app": (FLASK, "wsgi", "flask", ["/v1/report", "/v1/orders"], None),
    "bottle_shop:app": (BOTTLE, "wsgi", "bottle", ["/report"], None),
    "falcon_shop:app": (FALCON, "wsgi", "falcon", ["/report"], None),
    "aiohttp_shop:make_app": (AIOHTTP, "aiohttp", "aiohttp", ["/v1/report", "/items/{number}"], None),
    "tornado_shop:app": (TORNADO, "tornado", "tornado", ["/v1/report", "/items/(\\d+)"], None),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_and_the_routes_come_from_the_application_itself(name: str, tmp_path: Path) -> None:
    source, kind, framework, routes, ping = KINDS[name]
    found = look_at(tmp_path, name, source)
    assert (found.kind, found.framework, found.ping()) == (kind, framework, ping)
    paths = [path for _, path in found.work()]
    assert (paths[0], set(routes) - set(paths)) == (routes[0], set())
    assert found.is_factory is ("create_app" in name or "make_app" in name)


def test_a_django_project_has_applications_for_both_interfaces_and_names_an_allowed_host(tmp_path: Path) -> None:
    write(tmp_path, DJANGO)
    found = inspected("config.wsgi:application", sys.executable, tmp_path)
    assert (found.kind, found.twin) == ("wsgi", "config.asgi:application")
    assert found.routes == [("GET", "/shop/items/<int:id>"), ("GET", "/shop/report"), ("GET", "/healthz")]
    assert (found.host, found.ping(), found.work()[0][1]) == ("shop.example", "/healthz", "/shop/report")


def test_what_an_application_prints_does_not_hide_that_a_package_is_missing(tmp_path: Path) -> None:
    assert look_at(tmp_path, "bare:app", f"print('starting')\n{WSGI}").kind == "wsgi"
    with pytest.raises(BadInputError, match="--python PATH"):
        look_at(tmp_path, "shop:app", "print('starting')\nimport gone")


def test_the_application_is_found_in_a_module_that_is_named_alone(tmp_path: Path) -> None:
    assert look_at(tmp_path, "flask_shop:", FLASK).name == "flask_shop:create_app"
    assert look_at(tmp_path, "shop:", FASTAPI).name == "shop:app"
    with pytest.raises(
        BadInputError, match=r"^empty: no application was found .* such as empty:app; this folder has flask_shop"
    ):
        look_at(tmp_path, "empty:", "answer = 42")
    with pytest.raises(
        BadInputError, match=r"^empty:app: empty has no app: .*; this folder has flask_shop:create_app$"
    ):
        look_at(tmp_path, "empty:app", "answer = 42")
    write(tmp_path, {"package/__init__.py": "", "package/app.py": "1 / 0", "package/wsgi.py": WSGI})
    with pytest.raises(BadInputError, match=r"^package: no application was found in this module: use package.wsgi:app"):
        inspected("package:", sys.executable, tmp_path)
    proxy = "from flask import Flask, current_app\ndef create_app():\n    return Flask(__name__)\n"
    assert look_at(tmp_path, "with_proxy:", proxy).name == "with_proxy:create_app"


def test_a_module_beside_src_imports_from_there(tmp_path: Path) -> None:
    write(tmp_path, {"src/shop/__init__.py": "", "src/shop/main.py": WSGI})
    found = look_at(tmp_path, "serve:app", "from shop.main import app")
    assert (found.kind, found.import_from) == ("wsgi", "src")


def test_a_member_of_a_workspace_is_named_if_its_module_is_not_here(tmp_path: Path) -> None:
    write(tmp_path, {"apps/api/shop/main.py": WSGI, "libs/rules/src/rules/core.py": WSGI, ".venv/lib/gone.py": WSGI})
    for name, place in (("shop.main:app", "apps/api"), ("rules.core:app", "libs/rules")):
        with pytest.raises(BadInputError, match=rf"it is in {place}: run the command there"):
            inspected(name, sys.executable, tmp_path)
    with pytest.raises(BadInputError, match=r"such as shop.main:app$"):
        inspected("gone:app", sys.executable, tmp_path)


def test_an_application_that_imports_from_another_folder_gets_the_place_from_which_it_runs(tmp_path: Path) -> None:
    write(tmp_path, {"src/py/shop.py": f"import rules\n{WSGI}", "src/py/rules.py": ""})
    with pytest.raises(BadInputError, match=r"rules is in src/py: run the command there for shop:app$"):
        inspected("src.py.shop:app", sys.executable, tmp_path)


def test_a_long_error_keeps_its_end(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^shop:app: can't be imported: ValueError: x+ … x+ \(shop.py, line 1\)$"):
        look_at(tmp_path, "shop:app", "raise ValueError('x' * 1000)")


def test_servers_keep_the_pythonpath_with_which_the_application_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"theirs/rules.py": "", "src/shop/main.py": f"import rules\n{WSGI}", "src/shop/__init__.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "theirs"))
    suite = suite_of_application("shop.main:app", tmp_path, TargetOptions(pythons=(sys.executable,)))
    paths = {dict(target.environment)["PYTHONPATH"].split(":")[-2:][0] for target in suite.targets}
    assert paths == {"src"}
    assert all(dict(target.environment)["PYTHONPATH"].endswith(f":{tmp_path / 'theirs'}") for target in suite.targets)


def test_an_import_that_needs_a_running_event_loop_gets_one(tmp_path: Path) -> None:
    needs = "import asyncio\ntask = asyncio.get_running_loop().create_task(asyncio.sleep(9))\n"
    assert look_at(tmp_path, "looping:app", needs + FASTAPI).needs_loop
    assert not look_at(tmp_path, "plain:app", FASTAPI).needs_loop


def test_patches_of_gevent_are_noticed(tmp_path: Path) -> None:
    assert (
        look_at(tmp_path, "patched:app", f"from gevent import monkey\nmonkey.patch_all()\n{WSGI}").patched_by
        == "gevent"
    )
    assert look_at(tmp_path, "unpatched:app", f"from gevent import monkey\n{WSGI}").patched_by == ""


def test_a_function_that_starts_a_server_is_no_factory(tmp_path: Path) -> None:
    main = f"{FASTAPI}\ndef main():\n    import uvicorn\n    uvicorn.run(app, port=0)\n"
    with pytest.raises(BadInputError, match=r"main\(\) starts a server itself: name the application that it serves"):
        look_at(tmp_path, "shop:main", main)
    with pytest.raises(BadInputError, match="at_once starts a server when it is imported"):
        look_at(tmp_path, "at_once:app", f"{main}main()\n")


def test_a_factory_with_parameters_is_no_wsgi_application(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"create_app needs config and debug: write a module with app = create_app"):
        look_at(tmp_path, "shop:create_app", "def create_app(config, debug): ...")


def test_sources_in_src_precede_an_installed_copy_unless_only_the_copy_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    copy = {"../site-packages/shop/__init__.py": "", "../site-packages/shop/built.py": ""}
    write(tmp_path / "shop" / "src", {"../.keep": ""})
    write(shop, copy | {"../site-packages/shop/main.py": f"from shop import built\n{WSGI}", "src/shop/__init__.py": ""})
    name = "shop.main:app"
    write(shop, {"src/shop/main.py": WSGI})
    found = inspected(name, sys.executable, shop)
    assert (found.import_from, found.file) == ("src", str(shop / "src/shop/main.py"))
    assert not found.is_copy_of_sources_in(shop)
    write(shop, {"src/shop/main.py": f"import shop.built\n{WSGI}"})
    found = inspected(name, sys.executable, shop)
    assert (found.import_from, found.file) == ("", str(tmp_path / "site-packages/shop/main.py"))
    assert found.is_copy_of_sources_in(shop)
    assert not found.is_copy_of_sources_in(tmp_path / "elsewhere")
    suite = suite_of_application(name, shop, TargetOptions(pythons=(sys.executable,)))
    assert f"{found.file} was imported: changes in this folder count only after" in " ".join(suite.application.notes)
    for wrong, why in (("def", "SyntaxError"), ("import gone", "No module named 'gone'")):
        write(shop, {"src/shop/main.py": wrong})
        with pytest.raises(BadInputError, match=why):
            inspected(name, sys.executable, shop)
    (shop / "src/shop/main.py").unlink()
    with pytest.raises(BadInputError, match=r"there is no shop/main\.py here or in src"):
        inspected(name, sys.executable, shop)
    monkeypatch.setenv("PYTHONPATH", f"{shop / 'src'}")
    write(shop, {"src/shop/main.py": WSGI})
    assert inspected(name, sys.executable, shop).import_from == ""  # an editable installation has the same effect


@pytest.mark.slow
@pytest.mark.parametrize("python", old_pythons(), ids=lambda python: python.version)
def test_the_application_may_run_on_an_older_python_than_the_bench(python, tmp_path: Path) -> None:
    found = look_at(tmp_path, "bare:app", WSGI, python.path)
    assert (found.kind, found.python[:2]) == ("wsgi", python.minor)
    assert missing(list(deployments_of(found)), found.servers) == ["gunicorn", "waitress", "granian"]
