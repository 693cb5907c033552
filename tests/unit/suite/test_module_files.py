"""Where the modules of a user's project are, as far as their files show it."""

from pathlib import Path

import pytest
from sample_applications import write

from common.errors import BadInputError
from under_siege.suite.application import refuse_absent
from under_siege.suite.module_files import (
    django_application,
    elsewhere,
    is_here,
    likely_application,
    name_in_package,
    right_place,
)
from under_siege.suite.selection import _with_colon

MANAGE = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "{}")\n'


@pytest.mark.parametrize(
    ("settings", "files", "found"),
    [
        ("shop.settings", ["shop/wsgi.py", "shop/asgi.py", "blog/wsgi.py"], "shop.wsgi:application"),
        ("shop.settings", ["shop/asgi.py"], "shop.asgi:application"),
        ("config.settings.local", ["config/wsgi.py", "config/settings/local.py"], "config.wsgi:application"),
        ("config.django.base", ["shop/wsgi.py"], "shop.wsgi:application"),
        ("shop.settings", ["shop/urls.py"], "manage:"),
    ],
)
def test_manage_py_stands_for_the_application_of_its_project(
    settings: str, files: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"manage.py": MANAGE.format(settings), **dict.fromkeys(files, "")})
    monkeypatch.chdir(tmp_path)
    assert _with_colon("manage") == found
    assert _with_colon("manage.py") == (found if found != "manage:" else "manage.py")
    assert _with_colon("manage:app") == "manage:app"


def test_a_manage_py_of_another_program_stands_for_no_application(tmp_path: Path) -> None:
    write(tmp_path, {"manage.py": "import flask\n", "shop/wsgi.py": ""})
    assert django_application(tmp_path / "manage.py") == ""
    assert django_application(tmp_path / "gone.py") == ""


@pytest.mark.parametrize(
    ("file", "module", "place"),
    [
        ("backend/app/main.py", "app.main", "backend"),
        ("backend/src/app/main.py", "app.main", "backend"),
        ("src/py/app/__init__.py", "app", "src/py"),
        ("node_modules/app/main.py", "app.main", ""),
        ("app/main.py", "app.main", ""),
    ],
)
def test_the_folder_of_a_module_that_is_elsewhere_is_named(file: str, module: str, place: str, tmp_path: Path) -> None:
    write(tmp_path, {file: ""})
    assert elsewhere(module, tmp_path) == (f"it is in {place}: run the command there" if place else "")
    assert is_here(module, tmp_path) is (file == "app/main.py")


def test_the_place_and_the_name_follow_from_what_the_application_imports(tmp_path: Path) -> None:
    write(tmp_path, {"src/py/app.py": "", "src/py/db.py": "", "src/models.py": "", "src/web/app.py": ""})
    assert right_place("src.py.app:app", "db", tmp_path) == "db is in src/py: run the command there for app:app"
    assert right_place("src.web.app:app", "models", tmp_path) == "models is in src: name it web.app:app"
    assert right_place("src.web.app:app", "flask", tmp_path) == ""
    inside = tmp_path / "src" / "web"
    assert right_place("app:app", "web", inside) == "web is in ..: run the command there for web.app:app"
    assert right_place("app:app", "src", inside) == "src is in ../..: run the command there for src.web.app:app"


def test_a_folder_that_is_a_package_is_named_with_the_packages_around_it(tmp_path: Path) -> None:
    write(tmp_path, {"src/__init__.py": "", "src/app/__init__.py": "", "src/app/web/main.py": ""})
    meant = "this folder is a package: run the command in "
    assert name_in_package("main:app", tmp_path / "src" / "app") == f"{meant}../.. for src.app.main:app"
    assert name_in_package("main:app", tmp_path / "src" / "app" / "web") == f"{meant}.. for web.main:app"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"main.py": "app = FastAPI()\n"}, "this folder has main:app"),
        ({"shop/__init__.py": "def create_app(settings=None):\n    ...\n"}, "this folder has shop:create_app"),
        ({"shop/__init__.py": "", "shop/main.py": "api: App = falcon.App()\n"}, "this folder has shop.main:api"),
        (
            {"src/shop/__init__.py": "", "src/shop/web.py": "app = make()\napp = Flask('a')"},
            "this folder has shop.web:app",
        ),
        ({"back/src/shop/__init__.py": "", "back/src/shop/run.py": "app = create_app()"}, "back has shop.run:app: run"),
        ({"back/shop/__init__.py": "", "back/shop/api.py": "app = Sanic('a')\n"}, "back has shop.api:app: run"),
        ({"one.py": "app = Flask('a')", "main.py": "app = Flask('a')"}, "this folder has main:app"),
        ({"main.py": "app = typer.Typer()\n", "tests/main.py": "app = Flask('a')"}, ""),
        ({"main.py": "def main():\n    app = Flask('a')\n", ".venv/app.py": "app = Flask('a')"}, ""),
    ],
)
def test_the_likely_application_of_a_folder_is_named(files: dict[str, str], found: str, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert likely_application(tmp_path).startswith(found)
    assert bool(found) == bool(likely_application(tmp_path))


@pytest.mark.parametrize(
    ("files", "name", "is_refused"),
    [
        ({"app/__init__.py": "", "requirements.txt": "app-utils\n"}, "app.asgi:app", True),
        ({"app/notes.txt": "", "requirements.txt": "app-utils\n"}, "app.asgi:app", False),
        ({"requirements.txt": "flask\n"}, "app.asgi:app", True),
        ({"requirements.txt": "Apache_Airflow\n"}, "airflow.www:app", False),
        ({"requirements.txt": "airflow\n", "back/airflow/www.py": ""}, "airflow.www:app", True),
        ({"requirements.txt": "-e ./back\n", "back/app/www.py": ""}, "app.www:app", False),
        ({"requirements.txt": "git+https://example.com/other\n"}, "app.www:app", False),
        ({"requirements.txt": "flask\n", "src/app/asgi.py": ""}, "app.asgi:app", False),
        ({"requirements.txt": "flask\n", "my-app.py": ""}, "my-app:app", False),
    ],
)
def test_no_environment_is_created_for_an_application_that_it_can_not_contain(
    files: dict[str, str], name: str, is_refused: bool, tmp_path: Path
) -> None:
    write(tmp_path, files)
    requirements = ["-r requirements.txt"]
    if not is_refused:
        refuse_absent(name, tmp_path, requirements)
        return
    with pytest.raises(BadInputError, match=r"^[\w.]+:app: there is no [\w/]+\.py here or in src: expected the module"):
        refuse_absent(name, tmp_path, requirements)


def test_a_missing_module_of_a_package_of_the_folder_is_refused_whatever_is_installed(tmp_path: Path) -> None:
    write(tmp_path, {"app/__init__.py": "", "notes/asgi.txt": ""})
    refuse_absent("notes.asgi:app", tmp_path)
    refuse_absent("airflow.www:app", tmp_path)
    with pytest.raises(BadInputError, match=r"^app.asgi:app: there is no app/asgi.py here or in src.*shop.main:app$"):
        refuse_absent("app.asgi:app", tmp_path)
    write(tmp_path, {"app/web.py": "app = Flask('app')\n"})
    with pytest.raises(BadInputError, match=r"; this folder has app.web:app$"):
        refuse_absent("app.asgi:app", tmp_path)
