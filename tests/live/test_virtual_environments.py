"""Virtual environments for other Pythons: each is created only once, and missing packages are reported."""

import asyncio
import dataclasses
import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_server
from conftest import thorough
from fake_load import SilentWatcher
from minimal_wheel import write_source_distribution, write_wheel
from plans import plan_of

from common.errors import BadInputError
from under_siege.host import environments
from under_siege.host.interpreter import Interpreter, interpreter
from under_siege.host.managed_process import until
from under_siege.host.services import Services
from under_siege.measure.prepare import package_versions, with_environments
from under_siege.measure.server import running
from under_siege.record.record import CaseFailedError


@pytest.fixture
def user_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the Python of a user's environment with one package, and empty the requirements of the bench."""
    venv.create(tmp_path / "theirs", symlinks=True)
    (packages,) = (tmp_path / "theirs" / "lib").glob("python3*/site-packages")
    (packages / "their_package.py").write_text("ANSWER = 42\n")
    (tmp_path / "dependencies.txt").write_text("# nothing\n")
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path / "pythons")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path / "dependencies.txt")
    return tmp_path / "theirs" / "bin" / "python"


def prepared(path: Path, needed: set[str] | None = None) -> tuple[Interpreter, list[str]]:
    messages: list[str] = []
    return asyncio.run(environments.with_packages(interpreter(str(path)), messages.append, needed)), messages


def test_an_environment_is_created_once_and_again_if_its_python_is_removed(user_python: Path) -> None:
    assert prepared(Path(sys.executable)) == (interpreter(), [])  # the Python of the bench needs no environment
    python, messages = prepared(user_python)
    assert python.path != str(user_python)
    assert len(messages) == 1
    script = "import their_package; print(their_package.ANSWER)"
    assert subprocess.run([python.path, "-c", script], capture_output=True, text=True, check=True).stdout == "42\n"
    assert prepared(user_python) == (python, [])
    Path(python.path).unlink()
    again, messages = prepared(user_python)
    assert (again, len(messages)) == (python, 1)
    assert Path(python.path).exists()


def creating(monkeypatch: pytest.MonkeyPatch, folder: Path, at_once: int = 1) -> list[str]:
    """Let uv create only empty environments, `at_once` at the same time; return the list to which they are added."""
    created: list[str] = []

    async def run_uv(command: str, *arguments: str, **_) -> None:
        if command == "venv":
            await asyncio.to_thread(Path(arguments[-1], "bin", "python").parent.mkdir, parents=True)
            await asyncio.to_thread(Path(arguments[-1], "bin", "python").touch)
            created.append(arguments[-1])
            assert await until(lambda: len(created) >= at_once, 20)

    monkeypatch.setattr(environments, "DIRECTORY", folder / "made")
    monkeypatch.setattr(environments, "_run_uv", run_uv)
    return created


def test_an_environment_depends_on_its_requirements_and_on_local_sources(tmp_path: Path, monkeypatch) -> None:
    created = creating(monkeypatch, tmp_path)
    (source := tmp_path / "mine" / "shop.py").parent.mkdir()
    source.write_text("answer = 1")

    def environment(*names: str) -> Path | str:
        return asyncio.run(environments.environment_with(names, interpreter(), tmp_path, lambda _told: None))

    first = environment("flask", "./mine")
    assert environment("django", "./mine") != first
    (tmp_path / "mine" / "result.json").write_text("{}")
    assert (environment("./mine", "flask"), len(created)) == (first, 2)
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))
    assert environment("flask", "./mine") != first
    assert (environment("flask", "./mine") != first, len(created)) == (True, 3)


def test_concurrent_runs_can_create_the_same_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither run waits for the other, and both use the environment that is complete first."""
    created = creating(monkeypatch, tmp_path, at_once=2)

    async def both() -> list[Path | str]:
        wanted = (("flask",), interpreter(), tmp_path, lambda _told: None)
        return list(await asyncio.gather(*(environments.environment_with(*wanted) for _ in range(2))))

    first, second = asyncio.run(both())
    assert first == second
    assert len(created) == 2
    assert list((tmp_path / "made").iterdir()) == [first]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start the only package index that uv uses, which has no packages, and yield its address."""
    with scripted_server.running(tmp_path) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", server.url)
        yield server.url


def test_packages_are_installed_or_built_and_those_that_are_missing_are_named(
    user_python: Path, tmp_path: Path, monkeypatch, index
) -> None:
    (tmp_path / "dependencies.txt").write_text("at_hand[extra]==1\nfrom_source\nfar_away\n")
    write_wheel(tmp_path, "at_hand")
    write_source_distribution(tmp_path, "from_source")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    lean, messages = prepared(user_python, needed={"at_hand"})
    assert (len(messages), lean.missing) == (1, ())
    python, messages = prepared(user_python)
    assert [name for name, _ in python.missing] == ["far_away"]
    assert python.why_missing("far_away")
    assert not python.why_missing("tornado")
    assert ["from_source" in message for message in messages] == [True, True, False, False]
    assert "far_away" in messages[-1]
    subprocess.run([python.path, "-c", "import at_hand, from_source"], check=True)
    again, messages = prepared(user_python)
    assert (again, len(messages)) == (python, 1)  # the environment was not recreated


@pytest.mark.parametrize("trouble", thorough(["no listener", "unreachable proxy", "503"], ["no listener"]))
def test_a_run_without_a_package_index_fails_and_a_later_run_installs_the_packages(
    trouble, user_python, tmp_path, monkeypatch, index
) -> None:
    (tmp_path / "dependencies.txt").write_text("at_hand\nfar_away\n")
    (tmp_path / "wheels").mkdir()
    write_wheel(tmp_path / "wheels", "at_hand")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    with monkeypatch.context() as patched:
        without_index(trouble, patched, index)
        with pytest.raises(BadInputError, match=r"can't be installed for .*: no package index could be reached .http"):
            prepared(user_python)
    assert not list((tmp_path / "pythons").iterdir())
    write_wheel(tmp_path / "wheels", "far_away")
    python, messages = prepared(user_python)
    assert (len(messages), python.missing) == (1, ())
    subprocess.run([python.path, "-c", "import at_hand, far_away"], check=True)
    without_index(trouble, monkeypatch, index)
    assert prepared(user_python) == (python, [])


def without_index(trouble: str, monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    addresses = {"503": f"{index}/status/503/after/9999", "no listener": "http://127.0.0.1:9/"}
    monkeypatch.setenv("UV_DEFAULT_INDEX", addresses.get(trouble, "http://example.invalid/"))
    if trouble == "unreachable proxy":
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")


def test_the_packages_of_each_python_are_recorded(user_python, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("flask\n")
    write_wheel(tmp_path, "flask")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    plan = plan_of("1", pythons=[sys.executable, str(user_python)])
    versions = asyncio.run(package_versions(asyncio.run(with_environments(plan, SilentWatcher()))))
    ours, theirs = (case.python for case in plan.cases)
    assert versions[ours]["flask"] == importlib.metadata.version("flask")
    assert versions[theirs] == {"flask": "1"}


def test_the_error_of_a_server_names_its_missing_package(tmp_path: Path) -> None:
    """The bench reports the missing package instead of the last line of the traceback."""
    script = tmp_path / "9_needs_it.py"
    script.write_text('"""Needs something, on a --port."""\nimport no_such_package.at_all\n')
    python = dataclasses.replace(interpreter(), missing=(("no_such_package", "there is no build of it"),))
    plan = plan_of(script)
    plan = dataclasses.replace(plan, pythons={plan.cases[0].python: python})

    async def start() -> None:
        async with running(plan, plan.cases[0], None, Services()) as server:
            await server.while_alive(asyncio.sleep(10))

    with pytest.raises(CaseFailedError, match="lacks the package no_such_package: there is no build of it"):
        asyncio.run(start())


def test_a_relative_path_to_a_python_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / ".venv")
    monkeypatch.chdir(tmp_path)
    python = interpreter(".venv/bin/python")
    assert (python.path, python.prefix) == (str(tmp_path / ".venv/bin/python"), str(tmp_path / ".venv"))
