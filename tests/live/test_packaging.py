"""The package that `pip install .` installs, its command in an empty home and folder, and the workflow of a release."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
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
    (home := directory / "home").mkdir()
    path = f"{directory / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "HOME": str(home), "COLUMNS": "140"}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME"):
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


def test_the_installed_command_measures_strategies_and_an_application_in_an_empty_home(installed: Command) -> None:
    write(installed.directory, {"till.py": TORNADO})  # type: ignore[attr-defined]
    short = ("--time", "0.3s", "--rounds", "1", "--users", "2", "--workers", "1", "--out", "short.json")
    for words in (["2", "3", "--task", "sign_up"], ["till:app", "--path", "/v1/report", "--strategy", "none"]):
        ran = installed("run", *words, *short)
        assert ran.returncode in (0, 1, 3), ran.stderr
        records = load(installed.directory / "short.json").records  # type: ignore[attr-defined]
        failures = {record.failure for record in records if not record.is_ceiling}
        assert (failures, len({record.server for record in records}) >= 2) == ({None}, True)


def test_the_installed_command_traces_a_bundled_server_and_names_itself_in_errors(installed: Command) -> None:
    assert __version__ in installed("--version").stdout
    traced = installed("trace", "2", "--task", "sign_up", "--requests", "2")
    assert traced.returncode == 0, traced.stderr
    failed = installed("run", "no_such_server")
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert failed.stderr.startswith("under-siege: ")


RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]


def run_release(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the release in a copy of the files that it reads."""
    for file in ("CHANGELOG.md", "README.md", "pyproject.toml", "under_siege/__init__.py"):
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    text = re.sub(
        rf"^## {re.escape(__version__)}, .*",
        f"## {__version__}, 2027-01-02",
        (folder / "CHANGELOG.md").read_text(),
        flags=re.M,
    )
    (folder / "CHANGELOG.md").write_text(text)
    (script,) = [step["run"] for job in RELEASE.values() for step in job["steps"] if step.get("name") == name]
    command = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)


def test_a_release_needs_a_tag_with_its_version(tmp_path: Path) -> None:
    assert run_release("Check the version", tmp_path, TAG=f"v{__version__}").stdout == ""
    refused = run_release("Check the version", tmp_path, TAG="v0.9.9")
    assert (refused.returncode, refused.stdout.partition(" ")[0]) == (1, "::error::the")


def test_a_release_has_links_that_work_outside_the_repository(tmp_path: Path) -> None:
    name = next(step["name"] for step in RELEASE["build"]["steps"] if "links" in step.get("name", ""))
    ran = run_release(name, tmp_path, GITHUB_REPOSITORY="ann/siege", GITHUB_REF_NAME="v1.2.3")
    assert ran.returncode == 0, ran.stderr
    assert "OWNER/" not in (tmp_path / "pyproject.toml").read_text() + (tmp_path / "README.md").read_text()
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert len(links) > 5
    assert [link for _, link in links if not link.startswith("https://")] == []
    assert all("/raw/v1.2.3/docs/" in link for is_image, link in links if is_image)


def test_only_the_job_that_publishes_may_ask_for_a_token_of_the_index() -> None:
    asking = [name for name, job in RELEASE.items() if "id-token" in job.get("permissions", {})]
    assert asking == ["publish"]
    assert [step["uses"] for step in RELEASE["publish"]["steps"]][-1].startswith("pypa/gh-action-pypi-publish@")
