"""The environment of a user's application: how it is found, and the versions that its lock files name."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from sample_applications import empty_venv

from under_siege.host.environments import locked_requirements
from under_siege.host.interpreter import UserEnvironment, interpreter, user_environment, with_unique_versions

ENVIRONMENTS = {  # files and directories → how the environment is found, and its requirements
    "a virtual environment": ({".venv"}, ".venv", ()),
    "one above": ({"../.venv", "../pyproject.toml"}, "../.venv", ()),
    "uv.lock": ({"uv.lock", "pyproject.toml", "requirements.txt"}, "uv.lock", ("-r uv.lock",)),
    "pyproject.toml": ({"pyproject.toml", "requirements.txt"}, "pyproject.toml", ("-r pyproject.toml",)),
    "requirements.txt above": ({"../requirements.txt"}, "../requirements.txt", ("-r ../requirements.txt",)),
    "Pipfile.lock": ({"Pipfile", "Pipfile.lock"}, "Pipfile.lock", ("-r Pipfile.lock",)),
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


def test_a_pipfile_becomes_requirements(tmp_path: Path) -> None:
    lock = {"default": {"flask": {"version": "==3.1.2", "extras": ["async"], "markers": "python_version >= '3.9'"}}}
    (tmp_path / "Pipfile.lock").write_text(json.dumps(lock))
    (tmp_path / "Pipfile").write_text('[packages]\nflask = ">=3"\nh11 = "*"\n')
    assert locked_requirements(tmp_path / "Pipfile.lock") == "flask[async]==3.1.2; python_version >= '3.9'"
    assert locked_requirements(tmp_path / "Pipfile") == "flask>=3\nh11"
    assert locked_requirements(tmp_path / "requirements.txt") is None


def test_pythons_of_the_same_version_get_unique_names() -> None:
    both = with_unique_versions([interpreter(), dataclasses.replace(interpreter(), prefix="/other")])
    assert len({one.version for one in both}) == 2
    assert with_unique_versions([interpreter()]) == [interpreter()]
