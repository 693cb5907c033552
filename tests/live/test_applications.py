"""Applications of users: what the bench finds out about each kind, in its own Python."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult
from other_pythons import old_pythons
from sample_applications import (
    AIOHTTP,
    BOTH,
    BOTTLE,
    DJANGO,
    FALCON,
    FASTAPI,
    FLASK,
    LITESTAR,
    MIDDLEWARE,
    STARLETTE,
    TORNADO,
    WSGI,
    write,
)

from common.errors import BadInputError
from under_siege.suite.application import Application, deployments_of, inspected, missing
from under_siege.suite.suite import READY_WITHIN_S
from under_siege.suite.suite_file import read_suite
from under_siege.suite.suite_from_application import TargetOptions, suite_of_application


def look_at(folder: Path, name: str, files: dict[str, str], python: str = sys.executable) -> Application:
    write(folder, files)
    return inspected(name, python, folder)


KINDS = {  # name: files, kind, framework, first route, health check
    "shop:app": (FASTAPI, "asgi", "fastapi", "/api/v1/report", "/api/health"),
    "starlette_shop:app": (STARLETTE, "asgi", "starlette", "/v1/report", "/ping"),
    "timed:outer": (MIDDLEWARE, "asgi", "starlette", "/v1/report", "/ping"),
    "litestar_shop:app": (LITESTAR, "asgi", "litestar", "/v1/report", None),
    "flask_shop:create_app": (FLASK, "wsgi", "flask", "/v1/report", None),
    "flask_shop:create_app()": (FLASK, "wsgi", "flask", "/v1/report", None),
    "both:app": (BOTH, "wsgi", "flask", "/v1/report", None),
    "bottle_shop:app": (BOTTLE, "wsgi", "bottle", "/report", None),
    "falcon_shop:app": (FALCON, "wsgi", "falcon", "/report", None),
    "bare:app": (WSGI, "wsgi", "", None, None),
    "my-app:app": (WSGI, "wsgi", "", None, None),
    "aiohttp_shop:make_app": (AIOHTTP, "aiohttp", "aiohttp", "/report", None),
    "tornado_shop:app": (TORNADO, "tornado", "tornado", "/report", None),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_and_the_routes_come_from_the_application_itself(name: str, tmp_path: Path) -> None:
    source, kind, framework, path, ping = KINDS[name]
    found = look_at(tmp_path, name, {f"{name.partition(':')[0]}.py": source})
    assert (found.kind, found.framework, found.ping()) == (kind, framework, ping)
    assert next(iter(found.work()), None) == (("GET", path) if path else None)
    assert found.is_factory is ("create_app" in name or "make_app" in name)


def test_a_django_project_has_the_servers_of_both_interfaces_and_names_an_allowed_host(tmp_path: Path) -> None:
    found = look_at(tmp_path, "config.wsgi:application", DJANGO)
    assert found.routes == [("GET", "/shop/items/<int:id>"), ("GET", "/shop/report"), ("GET", "/healthz")]
    assert (found.host, found.ping(), found.work()[0][1]) == ("shop.example", "/healthz", "/shop/report")
    commands = {each.name: each.command for each in deployments_of(found)}
    assert "config.wsgi:application" in commands["sync"]
    assert "config.asgi:application" in commands["uvicorn"]


def test_a_query_that_an_endpoint_requires_is_named(tmp_path: Path) -> None:
    routes = look_at(tmp_path, "shop:app", {"shop.py": FASTAPI}).work()
    assert ("GET", "/api/v1/search?customer={customer}") in routes


@pytest.mark.parametrize("folder", [".", "src"])
def test_a_package_in_src_is_found(folder: str, tmp_path: Path) -> None:
    files = {"src/shop/__init__.py": "", "src/shop/api.py": WSGI}
    write(tmp_path, files)
    assert inspected("shop.api:app", sys.executable, tmp_path / folder).import_from == ("src" if folder == "." else "")


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


REFUSED = {
    "shop:router": ("router = 3", "router is a int; expected an ASGI, WSGI, aiohttp or Tornado application"),
    "shop:app": (FLASK, "shop has no app: use shop:create_app"),
    "shop:create": ("def create(config): ...", "create needs config: write a module with app = create(...)"),
    "shop:make": ("def make(): 1 / 0", "make() fails: ZeroDivisionError: division by zero (shop.py, line 1)"),
    "shop:made": ("def made(): return 3", "made() returns a int; expected an ASGI"),
    "shop:late": ("import gone", "can't be imported: ModuleNotFoundError: No module named 'gone'"),
    "shop:bad": ("def", "can't be imported: SyntaxError"),
    "shop:exits": ("import sys\nsys.exit('SHOP_URL is not set')", "SystemExit: SHOP_URL is not set (shop.py, line 2)"),
    "gone:app": ("", "there is no gone.py here"),
    "pack.gone:app": ("", "there is no pack/gone.py here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_application_is_refused_with_one_line_that_says_what_to_do(name: str, tmp_path: Path) -> None:
    source, why = REFUSED[name]
    with pytest.raises(BadInputError) as error:
        look_at(tmp_path, name, {"shop.py": source})
    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("python", old_pythons(), ids=lambda python: python.version)
def test_the_application_may_run_on_an_older_python_than_the_bench(python, tmp_path: Path) -> None:
    found = look_at(tmp_path, "bare:app", {"bare.py": WSGI}, python.path)
    assert (found.kind, found.python[:2]) == ("wsgi", python.minor)
    assert missing(list(deployments_of(found)), found.servers) == ["gunicorn", "waitress", "granian"]


def test_a_slow_import_gives_servers_more_time_to_start(tmp_path: Path, run_cli: Callable[..., CommandResult]) -> None:
    write(tmp_path, {"shop.py": f"import time\ntime.sleep(1.1)\n{WSGI}"})
    assert run_cli("init", "shop:app").returncode == 0
    assert all(target.ready_within_s > READY_WITHIN_S + 2 for target in read_suite(tmp_path / "suite.toml").targets)
