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

from under_siege import __version__
from under_siege.lesson.step import all_steps, committed_result
from under_siege.lesson.view import TRACES

APP = """
from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello() -> str:
    return "hello"
"""
SUITE = """
title = "Does it answer?"
[load]
users = [2]
time = "1s"
[servers.flask]
command = "flask --app app run --host {host} --port {port}"
"""
Command = Callable[..., subprocess.CompletedProcess[str]]


def requirements_in(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.strip() and line[0] not in "#-"}


def test_the_requirements_files_list_the_dependencies_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    files = [ROOT / "requirements.txt", ROOT / "servers" / "requirements.txt"]
    listed = set().union(*(requirements_in(re.sub(r" +#.*", "", file.read_text())) for file in files))
    assert set(project["dependencies"]) == listed


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory))
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True, capture_output=True)
    return next(directory.glob("*.whl"))


def test_the_wheel_contains_one_package_and_only_the_files_that_it_uses(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"under_siege", f"under_siege-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]
    bundled = {name.removeprefix("under_siege/bundled/") for name in names if name.startswith("under_siege/bundled/")}
    assert {name.split("/")[0] for name in bundled} == {"common", "servers", "lesson", "results", "under_siege"}
    questions = [(step, question) for step in all_steps() for question in step.questions]
    results = {committed_result(step, question).relative_to(ROOT).as_posix() for step, question in questions}
    assert {name for name in bundled if name.startswith("results/")} == {*results, TRACES.relative_to(ROOT).as_posix()}
    assert {code.file for _, question in questions for code in question.code} <= bundled


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
    variables.pop("PYTHONPATH", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["under-siege", *arguments], cwd=empty, env=variables, capture_output=True, text=True)

    run.directory = empty  # type: ignore[attr-defined]
    return run


def test_list_lesson_run_report_and_trace_succeed_in_an_empty_directory(installed: Command) -> None:
    empty: Path = installed.directory  # type: ignore[attr-defined]
    assert __version__ in installed("--version").stdout
    assert "12_async_celery" in installed("list").stdout
    assert "One at a time" in installed("lesson", "--list").stdout
    ran = installed("run", "2", "4", "--task", "sign_up", "--users", "4", "--rounds", "1", "--time", "3s")
    assert ran.returncode in (0, 3), ran.stderr
    (result,) = (empty / "results").glob("*.json")
    assert f"Raw values: results/{result.name}" in ran.stderr
    shown = installed("report", str(result), "--html", "page.html")
    assert shown.returncode == 0, shown.stderr
    assert "4_async_processexecutor" in (empty / "page.html").read_text()
    traced = installed("trace", "2", "--task", "sign_up", "--requests", "2")
    assert traced.returncode == 0, traced.stderr


def test_init_and_run_accept_an_app_and_a_suite_of_the_user_in_an_empty_directory(installed: Command) -> None:
    empty: Path = installed.directory  # type: ignore[attr-defined]
    (empty / "app.py").write_text(APP)
    made = installed("init", "app:app")
    assert "under-siege run suite.toml" in made.stdout, made.stderr
    (empty / "own.toml").write_text(SUITE)
    ran = installed("run", "own.toml", "--rounds", "1")
    assert ran.returncode in (0, 3), ran.stderr
    assert "flask" in ran.stdout


def test_errors_of_the_installed_command_start_with_under_siege(installed: Command) -> None:
    failed = installed("run", "no_such_server")
    assert failed.returncode == 2
    assert failed.stderr.startswith("under-siege: ")
    assert failed.stderr.count("\n") == 1
