"""The package that `pip install .` installs: its requirements, its contents, and its command in an empty directory."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from sample_applications import TORNADO, write

from under_siege import __version__
from under_siege.lesson.step import all_steps, committed_result
from under_siege.lesson.view import TRACES
from under_siege.record.result import load

Command = Callable[..., subprocess.CompletedProcess[str]]


def requirements_in(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.strip() and line[0] not in "#-"}


def test_the_requirements_files_list_the_dependencies_of_the_package_with_charts_and_profiles() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = [ROOT / "requirements.txt", ROOT / "servers" / "requirements.txt"]
    listed = set().union(*(requirements_in(re.sub(r" +#.*", "", file.read_text())) for file in files))
    extras = project["optional-dependencies"]
    assert {*project["dependencies"], *extras["charts"], *extras["profile"]} == listed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True, capture_output=True)
    return next(directory.glob("*.whl"))


def test_the_wheel_contains_one_package_and_only_the_files_that_it_uses(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names} == {"under_siege", f"under_siege-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]
    assert files_in("under_siege") <= names
    bundled = {name.removeprefix("under_siege/bundled/") for name in names if name.startswith("under_siege/bundled/")}
    assert {name.split("/")[0] for name in bundled} == {"common", "servers", "lesson", "results"}
    assert bundled >= {*files_in("common"), *files_in("servers"), *files_in("lesson")}
    questions = [(step, question) for step in all_steps() for question in step.questions]
    results = {committed_result(step, question).relative_to(ROOT).as_posix() for step, question in questions}
    assert {name for name in bundled if name.startswith("results/")} == {*results, TRACES.relative_to(ROOT).as_posix()}
    assert {code.file for _, question in questions for code in question.code} <= bundled | names


def files_in(folder: str) -> set[str]:
    files = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Return a function that runs the installed command in an empty directory."""
    directory = tmp_path_factory.mktemp("installed")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(directory / "env")], check=True)
    subprocess.run([*uv, "pip", "install", "--python", str(directory / "env"), str(wheel)], check=True)
    (empty := directory / "empty").mkdir()
    path = f"{directory / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(directory / "cache"), "COLUMNS": "140"}
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        variables.pop(name, None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["under-siege", *arguments], cwd=empty, env=variables, capture_output=True, text=True)

    run.directory = empty  # type: ignore[attr-defined]
    return run


def test_the_suite_that_init_writes_runs_where_its_command_is_pasted(installed: Command) -> None:
    empty: Path = installed.directory  # type: ignore[attr-defined]
    write(empty, {"src/shop.py": TORNADO})
    made = installed("init", "shop:app", "--out", "perf/suite.toml")
    words = made.stdout.partition("under-siege run ")[2].split()
    ran = installed("run", *words, "--workers", "1", "--users", "2", "--time", "0.3s", "--rounds", "1")
    assert ran.returncode in (0, 1, 3), made.stderr + ran.stderr
    (path,) = (empty / "results").glob("*.json")
    assert f"Raw values: results/{path.name}" in ran.stderr
    result = load(path)
    assert {(record.server, record.failure) for record in result.records} == {("listen", None), ("prefork", None)}
    assert result.environment.pythons.keys() == {record.values["python"] for record in result.records}


def test_the_installed_command_traces_a_bundled_server_and_names_itself_in_errors(installed: Command) -> None:
    assert __version__ in installed("--version").stdout
    traced = installed("trace", "2", "--task", "sign_up", "--requests", "2")
    assert traced.returncode == 0, traced.stderr
    failed = installed("run", "no_such_server")
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert failed.stderr.startswith("under-siege: ")
