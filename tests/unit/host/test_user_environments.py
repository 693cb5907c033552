"""The environment of a user's application, and how it is found."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample_applications import empty_venv

from common.errors import BadInputError
from under_siege.host import interpreter as interpreters
from under_siege.host.interpreter import UserEnvironment, interpreter, user_environment, with_unique_versions

ENVIRONMENTS = {  # files and directories → how the environment is found, and its requirements
    "a virtual environment": ({".venv"}, ".venv", ()),
    "one above": ({"../.venv", "../pyproject.toml"}, "../.venv", ()),
    "uv.lock": ({"uv.lock", "pyproject.toml", "requirements.txt"}, "uv.lock", ("-r uv.lock",)),
    "pyproject.toml": ({"pyproject.toml", "requirements.txt"}, "pyproject.toml", ("-r pyproject.toml",)),
    "requirements.txt above": ({"../requirements.txt"}, "../requirements.txt", ("-r ../requirements.txt",)),
    "requirements.txt beside a Pipfile": (
        {"Pipfile", "requirements.txt"},
        "requirements.txt",
        ("-r requirements.txt",),
    ),
    "pylock.toml": ({"pylock.toml", "pyproject.toml"}, "pylock.toml", ("-r pylock.toml",)),
    "nothing": (set(), "the Python of Under Siege", ()),
}


def choose(folder: Path, names: set[str], monkeypatch: pytest.MonkeyPatch) -> UserEnvironment:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    folder.mkdir()
    for name in names:
        if name.endswith(".venv"):
            empty_venv(folder / name)
        else:
            (folder / name).write_text('[project]\nname = "shop"\ndependencies = []\n')
    return user_environment(folder)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment_that_people_have_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, found, requirements = ENVIRONMENTS[name]
    chosen = choose(tmp_path / "shop", names, monkeypatch)
    assert (chosen.found, chosen.requirements) == (found, requirements)


def test_an_active_environment_precedes_a_virtual_environment_but_not_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tmp_path / "shop", {".venv"}, monkeypatch)
    active = empty_venv(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert user_environment(tmp_path / "shop") == UserEnvironment(str(active), "$VIRTUAL_ENV")
    assert user_environment(tmp_path / "shop", [sys.executable]).python == sys.executable
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)  # contains the bench, so it is usually not that of the application
    assert user_environment(tmp_path / "shop").found == ".venv"


def test_pythons_of_the_same_version_get_unique_names() -> None:
    both = with_unique_versions([interpreter(), dataclasses.replace(interpreter(), prefix="/other")])
    assert len({one.version for one in both}) == 2
    assert with_unique_versions([interpreter()]) == [interpreter()]


def test_the_python_that_the_project_pins_is_found_among_those_of_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find(command: list[str], *, env: dict[str, str], **_: object) -> SimpleNamespace:
        asked.append((command[-1], env["PATH"]))
        if command[-1] == "9.8.7":
            return SimpleNamespace(returncode=2, stderr="No interpreter found")
        return SimpleNamespace(returncode=0, stdout="/pythons/python9.8\n")

    monkeypatch.setattr(subprocess, "run", find)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:/usr/bin")
    for version in ("9.8.1", "9.10.0"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / ".python-version").write_text("9.8.7\n")
    (tmp_path / "shop" / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.9"\ndependencies = []\n')
    assert user_environment(tmp_path / "shop").python == "/pythons/python9.8"
    assert [version for version, _ in asked] == ["9.8.7", "9.8"]
    newest_first = [f"{tmp_path}/versions/{version}/bin" for version in ("9.10.0", "9.8.1")]
    assert asked[0][1].split(":") == ["/usr/bin", *newest_first]


def test_a_missing_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = SimpleNamespace(returncode=2, stderr="No interpreter found")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: missing)
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=9.8"\ndependencies = []\n')
    for path, uv in (("", f"{sys.executable} -m uv"), (str(tmp_path), "uv")):
        monkeypatch.setenv("PATH", path)
        message = f"needs Python >=9.8, and none is installed: install it, for example with {uv} python install '>=9.8'"
        with pytest.raises(BadInputError, match=re.escape(message)):
            user_environment(tmp_path)
        (tmp_path / "uv").touch(0o755)


@pytest.mark.parametrize("has_packages", [True, False])
def test_requirements_are_installed_beside_a_python_that_lacks_them(
    has_packages: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Would make no changes" if has_packages else "Would install 1 package"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stderr=said))
    monkeypatch.setattr(interpreters, "interpreter", lambda *_: dataclasses.replace(interpreter(), packages=()))
    (tmp_path / "requirements.txt").write_text("flask\n")
    chosen = user_environment(tmp_path, [sys.executable])
    assert chosen.requirements == (() if has_packages else ("-r requirements.txt",))


def test_a_workspace_does_not_use_the_requirements_of_the_folder_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "requirements.txt").write_text("flask\n")
    (tmp_path / "shop").mkdir()
    assert user_environment(tmp_path / "shop").requirements == ("-r ../requirements.txt",)
    (tmp_path / "shop" / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["apps/*"]\n')
    assert user_environment(tmp_path / "shop").requirements == ()
