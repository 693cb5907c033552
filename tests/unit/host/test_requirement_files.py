"""Files that list packages: what they include, which indexes they name, and which of them are refused."""

import os
from pathlib import Path

import pytest
from sample_applications import write

from common.errors import BadInputError
from under_siege.host.interpreter import user_environment
from under_siege.host.package_indexes import uv_environment
from under_siege.host.requirement_files import contents, lines_of
from under_siege.suite.suite_file import read_suite

PUBLIC, PRIVATE, EXTRA = (f"https://{name}.example/simple" for name in ("public", "private", "extra"))
PROJECT = '[project]\nname = "shop"\ndependencies = ["acme-core"]\n'
POETRY = '[tool.poetry.dependencies]\nacme-core = {version = "^1", source = "private"}\n'
SOURCE = '[[tool.%s.source]]\nname = "private"\nurl = "https://private.example/simple"\n'
REFUSED = {  # what is refused → its files, and the command that creates .venv
    "Pipfile": ({"Pipfile": '[packages]\nacme-lib = {path = "./libs/acme-lib"}\n'}, "pipenv install"),
    "Pipfile.lock": ({"Pipfile": "", "Pipfile.lock": "{}"}, "pipenv sync"),
    "pyproject.toml as poetry.lock locks them": ({"pyproject.toml": PROJECT, "poetry.lock": ""}, "poetry install"),
    "pyproject.toml as pdm.lock locks them": ({"pyproject.toml": PROJECT, "pdm.lock": ""}, "pdm install"),
    "the sources of poetry in pyproject.toml": ({"pyproject.toml": f"{POETRY}{SOURCE % 'poetry'}"}, "poetry install"),
    "the sources of pdm in pyproject.toml": ({"pyproject.toml": f"{PROJECT}{SOURCE % 'pdm'}"}, "pdm install"),
}


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the settings of this machine from the test; return the file for those of pip."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))] + ["VIRTUAL_ENV", "CONDA_PREFIX"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url =\n[install]\nextra-index-url =\n")
    return tmp_path / "pip.conf"


@pytest.mark.parametrize("what", REFUSED)
def test_packages_that_only_another_tool_can_install_are_refused(what: str, tmp_path: Path) -> None:
    files, command = REFUSED[what]
    write(tmp_path, files)
    with pytest.raises(BadInputError) as error:
        user_environment(tmp_path)
    told = str(error.value)
    assert told.startswith(f"uv can't install packages from {what}: create .venv, for example with ")
    assert told.endswith(f"{command}; or pass --python PATH")
    listing = next(name for name in ("Pipfile.lock", "Pipfile", "pyproject.toml") if name in files)
    write(tmp_path, {"suite.toml": f'requirements = ["-r {listing}"]\n[servers.one]\ncommand = "serve {{port}}"\n'})
    with pytest.raises(BadInputError, match=r"requirements = '-r .*': uv can't install packages from"):
        read_suite(tmp_path / "suite.toml")


def test_an_environment_depends_on_the_files_that_a_requirements_file_includes(tmp_path: Path) -> None:
    lines = ["-r more/base.txt  # shared", "--constraint=limits.txt", "acme-core==1 \\", "  --hash=sha256:00", "-e ."]
    write(tmp_path, {"a.txt": "\n".join(lines), "more/base.txt": "-r ../a.txt\n-c own.txt", "limits.txt": "h11<1"})
    with pytest.raises(BadInputError, match=r"more/own.txt can't be read: No such file"):
        lines_of(tmp_path / "a.txt")
    write(tmp_path, {"more/own.txt": "h11<2"})
    before = contents(tmp_path / "a.txt")
    assert "acme-core==1    --hash=sha256:00" in before
    assert str(tmp_path) in " ".join(before)  # because another revision of the project is another package
    for name in ("more/own.txt", "limits.txt"):
        write(tmp_path, {name: "h11<3"})
        assert contents(tmp_path / "a.txt") != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "libs/acme"),
        ("requirements.txt", "acme @ file:///{folder}/libs/acme ; python_version > '3'"),
        ("pyproject.toml", '[tool.uv.sources]\nacme = { path = "libs/acme" }'),
        ("pyproject.toml", '[tool.poetry.dependencies]\nacme = { path = "libs/acme" }'),
        ("uv.lock", '[[package]]\nname = "acme"\nsource = { directory = "libs/acme" }'),
    ],
)
def test_an_environment_depends_on_the_sources_of_local_packages(name: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "", name: text.replace("/{folder}", str(tmp_path)), "libs/acme/acme.py": ""})
    before = contents(tmp_path / name)
    write(tmp_path, {"libs/acme/more.py": ""})
    assert contents(tmp_path / name) != before


def indexes(folder: Path, text: str = "acme-core") -> tuple[str | None, str | None]:
    write(folder, {"requirements.txt": text})
    found = uv_environment([folder / "requirements.txt"], folder)
    return found.get("UV_DEFAULT_INDEX", found.get("UV_INDEX_URL")), found.get("UV_INDEX")


@pytest.mark.parametrize(
    "option", [f"--index-url {PRIVATE}", f"-i '{PRIVATE}'", f"--index-url=https://{'${NAME}'}.example/simple"]
)
def test_the_index_in_a_requirements_file_precedes_that_in_the_environment(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAME", "private")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, PUBLIC)
        assert indexes(tmp_path) == (PUBLIC, None)
        assert indexes(tmp_path, f"acme-core\n{option}") == (PRIVATE, None)
        write(tmp_path, {"base.txt": option})
        assert indexes(tmp_path, "-r base.txt") == (PRIVATE, None)


def test_the_certificates_of_pip_are_used_unless_uv_has_its_own(
    no_settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("PIP_CERT", "/acme.pem")
    assert uv_environment([], tmp_path)["SSL_CERT_FILE"] == "/acme.pem"
    monkeypatch.setenv("SSL_CERT_FILE", "/own.pem")
    assert uv_environment([], tmp_path)["SSL_CERT_FILE"] == "/own.pem"


def test_the_indexes_of_pip_are_used_unless_uv_has_its_own(
    no_settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop := tmp_path / "shop").mkdir()
    assert indexes(shop) == (None, None)
    no_settings.write_text(f"[global]\nindex-url = {PUBLIC}\n[install]\nextra-index-url =\n  {PRIVATE}\n  {EXTRA}\n")
    assert indexes(shop) == (PUBLIC, f"{PRIVATE} {EXTRA}")
    monkeypatch.setenv("PIP_INDEX_URL", EXTRA)
    assert indexes(shop) == (EXTRA, f"{PRIVATE} {EXTRA}")
    for place in ("pyproject.toml", "../uv.toml", "../configuration/uv/uv.toml"):
        table = "tool.uv." if place == "pyproject.toml" else ""
        write(shop, {place: f'[[{table}index]]\nurl = "{PUBLIC}"\n'})
        assert indexes(shop) == (None, None)
        (shop / place).unlink()
    monkeypatch.setenv("UV_INDEX", PRIVATE)
    assert indexes(shop) == (None, PRIVATE)


def test_packages_from_an_index_are_refused_if_pip_must_not_use_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        BadInputError, match=r"pip must use no index, but uv would: set UV_DEFAULT_INDEX, or create \.venv"
    ):
        indexes(tmp_path)
