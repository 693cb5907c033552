"""The environment of a user's application, and how it is found."""

import dataclasses
import sys
from pathlib import Path

import pytest
from sample_applications import empty_venv

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
