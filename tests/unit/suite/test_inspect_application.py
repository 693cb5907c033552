"""What the inspection of a user's application accepts and refuses, without a framework."""

import functools
import importlib
import sys
from pathlib import Path

import pytest
from sample_applications import WSGI, write

from under_siege.subprocess_scripts.inspect_application import NoApplicationError, described, function_of, unmovable


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Import modules from an empty folder, and forget them at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


ASGI = "async def app(scope, receive, send): ...\n"
FACTORY = f"{WSGI}def create_app(settings=None): return app\n"


@pytest.mark.parametrize(
    ("name", "source", "kind", "is_factory"),
    [
        ("bare:app", WSGI, "wsgi", False),
        ("my-app:app", WSGI, "wsgi", False),
        ("bare:app", ASGI, "asgi", False),
        ("shop:create_app", FACTORY, "wsgi", True),
        ("shop:create_app()", FACTORY, "wsgi", True),
    ],
)
def test_a_bare_application_or_its_factory_is_recognized(name, source, kind, is_factory, folder: Path) -> None:
    write(folder, {f"{name.partition(':')[0]}.py": source})
    found = described(name)
    assert (found["kind"], found["is_factory"], found["routes"]) == (kind, is_factory, [])


def test_a_package_in_src_is_found(folder: Path) -> None:
    write(folder, {"src/shop/__init__.py": "", "src/shop/api.py": WSGI})
    assert described("shop.api:app")["import_from"] == "src"


REFUSED = {
    "shop:router": ("router = 3", ["router is a int"]),
    "shop:app": ("def create_app(): ...", ["has no app", "use shop:create_app"]),
    "shop:create": ("def create(config): ...", ["config", "app = create(...)"]),
    "shop:make": ("def make(): 1 / 0", ["ZeroDivisionError", "(shop.py, line 1)"]),
    "shop:made": ("def made(): return 3", ["made() returns a int"]),
    "shop:coroutine": (f"{ASGI}async def coroutine(): return app", ["coroutine function"]),
    "shop:late": ("import gone", ["ModuleNotFoundError", "'gone'"]),
    "shop:bad": ("def", ["SyntaxError"]),
    "shop:exits": ("import sys\nsys.exit('SHOP_URL is not set')", ["SHOP_URL is not set", "(shop.py, line 2)"]),
    "gone:app": ("", ["there is no gone.py"]),
    "pack.gone:app": ("", ["there is no pack/gone.py"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_application_is_refused_with_one_line_that_says_what_to_do(name: str, folder: Path) -> None:
    source, expected = REFUSED[name]
    write(folder, {"shop.py": source})
    with pytest.raises(NoApplicationError) as error:
        described(name)
    assert [words for words in expected if words not in str(error.value)] == []
    assert "\n" not in str(error.value)


PARAMETERS = """\
import datetime, enum, typing
class Depends: ...
class Session: ...
class Colour(enum.Enum): RED = 1
class Point(typing.NamedTuple): x: int
Given = typing.Annotated[Session, Depends()]
Long = typing.Annotated[str, "at most 10"]
def report(request, a, b: int, c: typing.Optional[datetime.date], d: list[str], e: Colour, f: Point, g: Long,
           session: Session, given: Given, found: int = Depends(), anything: typing.Any = None): ...
"""


def test_parameters_that_are_not_plain_data_are_told_from_the_others(folder: Path) -> None:
    write(folder, {"shop.py": PARAMETERS})
    report = importlib.import_module("shop").report
    assert unmovable(report) == ["request", "session", "given", "found", "anything"]


def test_the_function_of_a_route_is_found_below_its_wrappers(folder: Path) -> None:
    write(folder, {"shop.py": f"{WSGI}import functools\n@functools.cache\ndef report(a): ...\n"})
    report = importlib.import_module("shop").report
    for answers in (report, functools.partial(report, 1)):
        found = function_of("GET", answers)
        assert (found["name"], found["file"], found["is_async"]) == ("report", "shop.py", False)
    assert function_of("GET", len) is None
    assert function_of("GET", None) is None


VIEWS = """\
import {library}
class Report({library}.View):
    def get(self): ...
    def list(self): ...
class Inherits({library}.View): ...
"""


def test_the_function_of_a_view_is_its_method_or_the_class_that_inherits_the_method(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, {"site-packages/views.py": "class View:\n    def get(self): ...\n"})
    monkeypatch.syspath_prepend(folder / "site-packages")
    write(folder, {"shop.py": VIEWS.format(library="views")})
    shop = importlib.import_module("shop")
    views = [shop.Report, (shop.Report, "get"), (shop.Report, "list"), shop.Inherits, (shop.Inherits, "get")]
    found = [function_of("GET", answers) for answers in views]
    assert [(each["name"], each["file"], each["line"]) for each in found] == [
        ("Report.get", "shop.py", 3),
        ("Report.get", "shop.py", 3),
        ("Report.list", "shop.py", 4),
        ("Inherits", "shop.py", 5),
        ("Inherits", "shop.py", 5),
    ]
    assert all(each["is_method"] for each in found)
    assert function_of("GET", importlib.import_module("views").View) is None
