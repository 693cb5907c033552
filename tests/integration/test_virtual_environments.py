"""Virtual environments for other Pythons: each is created only once, and missing packages are reported."""

import asyncio
import dataclasses
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from plans import plan_of

from common.errors import BadInputError
from under_siege.host import environments, managed_process
from under_siege.host.interpreter import Interpreter, interpreter, with_unique_versions
from under_siege.host.managed_process import until
from under_siege.host.services import Services
from under_siege.measure.plan import new_record
from under_siege.measure.server import running
from under_siege.record.record import CaseFailedError
from under_siege.trace.trace_run import trace_servers


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


def test_the_python_of_the_bench_needs_no_virtual_environment() -> None:
    assert prepared(Path(sys.executable)) == (interpreter(), [])


def test_an_environment_is_created_once_with_the_packages_of_the_user(user_python: Path) -> None:
    python, messages = prepared(user_python)
    assert python.path != str(user_python)
    assert len(messages) == 1
    assert "this is done once" in messages[0]
    script = "import their_package; print(their_package.ANSWER)"
    assert subprocess.run([python.path, "-c", script], capture_output=True, text=True, check=True).stdout == "42\n"
    assert prepared(user_python) == (python, [])


def test_an_environment_is_recreated_after_a_source_file_has_changed(tmp_path: Path, monkeypatch) -> None:
    made = []

    async def make(folder: Path, *_: object) -> tuple[dict[str, str], bool]:
        await asyncio.to_thread(folder.mkdir, exist_ok=True)
        made.append(folder)
        return {}, True

    monkeypatch.setattr(environments, "DIRECTORY", tmp_path / "made")
    monkeypatch.setattr(environments, "_make", make)
    (source := tmp_path / "mine" / "shop.py").parent.mkdir()
    source.write_text("answer = 1")

    def environment(*names: str) -> Path | str:
        return asyncio.run(environments.environment_with(names, interpreter(), tmp_path, lambda _told: None))

    first = environment("flask", "./mine")
    (tmp_path / "mine" / "result.json").write_text("{}")
    assert (environment("./mine", "flask"), len(made)) == (first, 1)
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))
    assert (environment("flask", "./mine"), len(made)) == (first, 2)
    assert (environment("flask", "./mine"), len(made)) == (first, 2)


def test_concurrent_runs_create_a_shared_environment_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs share a process, but each of them opens the lock file, as two processes would."""
    messages: list[str] = []

    async def make(folder: Path, *_: object) -> tuple[dict[str, str], bool]:
        await asyncio.to_thread(folder.mkdir)  # fails if the directory exists
        assert await until(lambda: any("waiting for another run" in one for one in messages), 20)
        return {}, True

    async def both(*wanting) -> list[object]:
        return list(await asyncio.gather(*wanting))

    other = dataclasses.replace(interpreter(), prefix="/elsewhere")
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path / "made")
    monkeypatch.setattr(environments, "_make", make)
    first, second = asyncio.run(both(*(environments.with_packages(other, messages.append) for _ in range(2))))
    assert first == second
    assert len(messages) == 2
    messages.clear()
    wanted = (("flask",), interpreter(), tmp_path, messages.append)
    first, second = asyncio.run(both(*(environments.environment_with(*wanted) for _ in range(2))))
    assert first == second
    assert len(messages) == 2


def test_different_requirements_use_different_environments(user_python: Path, tmp_path: Path) -> None:
    theirs, directory = interpreter(str(user_python)), environments.environment_directory
    assert directory(theirs, "flask") != directory(theirs)
    assert Path(prepared(user_python)[0].path).parents[1] == directory(theirs, *theirs.packages)


class FakeIndex(BaseHTTPRequestHandler):
    """A package index that gives the same response for every package."""

    status = 404

    def do_GET(self) -> None:
        self.send_error(self.status)

    def log_message(self, *_) -> None:
        """Print nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeIndex]]:
    """Start the only package index that uv uses, and yield its handler class."""
    monkeypatch.setattr(FakeIndex, "status", FakeIndex.status)
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeIndex) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/")
        Thread(target=server.serve_forever).start()
        yield FakeIndex
        server.shutdown()


def test_a_missing_package_is_named_and_the_others_are_installed(user_python: Path, tmp_path: Path, index) -> None:
    (tmp_path / "dependencies.txt").write_text("no-such-package-of-under-siege>=1\n# nothing\n")
    python, messages = prepared(user_python)
    assert "no-such-package-of-under-siege" in messages[-1]
    assert "no-such-package-of-under-siege" in python.why_missing("no-such-package-of-under-siege")
    assert python.why_missing("tornado") == ""
    again, messages = prepared(user_python)
    assert again == python
    assert len(messages) == 1  # the environment was not recreated


def test_unneeded_packages_are_neither_installed_nor_reported_as_missing(
    user_python, tmp_path, monkeypatch, index
) -> None:
    (tmp_path / "dependencies.txt").write_text("at_hand[extra]==1\nfar_away\n")
    write_wheel(tmp_path, "at_hand")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    lean, messages = prepared(user_python, needed={"at_hand"})
    assert (len(messages), lean.missing) == (1, ())
    everything, messages = prepared(user_python)
    assert (len(messages), [name for name, _ in everything.missing]) == (3, ["far_away"])
    assert lean.path != everything.path
    again, messages = prepared(user_python, needed={"at_hand"})
    assert (again.path, messages) == (everything.path, [])  # reuses the larger environment


def write_wheel(folder: Path, name: str) -> None:
    """Write a minimal wheel."""
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        wheel.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.dist-info/RECORD", "")


BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "from_source-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("from_source.py", "")
        wheel.writestr("from_source-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: from_source\\nVersion: 1\\n")
        wheel.writestr("from_source-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("from_source-1.dist-info/RECORD", "")
    return name
"""


def write_source_distribution(folder: Path) -> None:
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND,
        "PKG-INFO": "Metadata-Version: 2.1\nName: from_source\nVersion: 1\n",
    }
    with tarfile.open(folder / "from_source-1.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            (folder / name).write_text(text)
            archive.add(folder / name, f"from_source-1/{name}")


def test_a_package_without_a_wheel_is_built_from_source(user_python, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("from_source\n")
    write_source_distribution(tmp_path)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    python, messages = prepared(user_python)
    assert python.missing == ()
    assert messages[1:] == [
        "no compatible wheel for from_source; trying to build it from source, which can take minutes"
    ]
    subprocess.run([python.path, "-c", "import from_source"], check=True)


@pytest.mark.parametrize("trouble", ["no listener", "unreachable proxy"])
def test_an_unreachable_package_index_is_reported(trouble, user_python, tmp_path, monkeypatch, index) -> None:
    without_index(trouble, monkeypatch, index)
    (tmp_path / "dependencies.txt").write_text("far_away\n")
    python, messages = prepared(user_python)
    assert "no package index could be reached (http" in messages[-1]
    assert "; the next run will retry" in messages[-1]
    assert "no package index" in python.why_missing("far_away")


def without_index(trouble: str, monkeypatch: pytest.MonkeyPatch, index: type[FakeIndex]) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    if trouble == "503":
        monkeypatch.setattr(index, "status", 503)
    if trouble == "no listener":
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/")
    if trouble == "unreachable proxy":
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://example.invalid/")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")


def test_the_next_run_installs_a_package_once_the_index_is_reachable_again(
    user_python, tmp_path, monkeypatch, index
) -> None:
    without_index("503", monkeypatch, index)
    (tmp_path / "dependencies.txt").write_text("at_hand\nfar_away\n")
    (tmp_path / "wheels").mkdir()
    write_wheel(tmp_path / "wheels", "at_hand")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    python, messages = prepared(user_python)
    assert "no package index could be reached (http" in messages[-1]
    assert "; the next run will retry" in messages[-1]
    assert "no package index" in python.why_missing("far_away")
    monkeypatch.setattr(index, "status", 404)
    write_wheel(tmp_path / "wheels", "far_away")
    python, messages = prepared(user_python)
    assert len(messages) == 1
    assert python.missing == ()
    subprocess.run([python.path, "-c", "import at_hand, far_away"], check=True)
    assert prepared(user_python) == (python, [])


def test_an_incomplete_environment_is_recreated(
    user_python: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(managed_process, "COMMAND_LIMIT_S", 0.0)
        with pytest.raises(BadInputError, match="can't create a virtual environment"):
            prepared(user_python)
    assert not list((tmp_path / "pythons").glob("*/pyvenv.cfg"))
    assert prepared(user_python)[1]


class SilentWatcher:
    """A watcher that ignores all messages."""

    def __getattr__(self, _name: str):
        return lambda *_: None


def test_the_result_records_the_packages_of_each_python(user_python, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("flask\n")
    write_wheel(tmp_path, "flask")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    pythons = [sys.executable, str(user_python)]
    plan = plan_of("1", users=1, pythons=pythons)
    result, _ = trace_servers(plan, 1, SilentWatcher(), [])
    ours, theirs = (case.python for case in plan.cases)
    assert result.environment.packages_of[ours]["flask"] == importlib.metadata.version("flask")
    assert result.environment.packages_of[theirs] == {"flask": "1"}
    assert result.environment.packages == {}


def test_pythons_of_the_same_version_get_unique_names(user_python: Path) -> None:
    both = with_unique_versions([interpreter(), interpreter(str(user_python))])
    assert len({one.version for one in both}) == 2
    assert with_unique_versions([interpreter()]) == [interpreter()]


def test_the_error_of_a_server_names_its_missing_package(tmp_path: Path) -> None:
    """The bench reports the missing package instead of the last line of the traceback."""
    script = tmp_path / "9_needs_it.py"
    script.write_text('"""Needs something, on a --port."""\nimport no_such_package.at_all\n')
    python = dataclasses.replace(interpreter(), missing=(("no_such_package", "there is no build of it"),))
    plan = plan_of(script)
    plan = dataclasses.replace(plan, pythons={plan.cases[0].python: python})

    async def start() -> None:
        async with running(plan, plan.cases[0], new_record(plan, plan.cases[0], 0.0, 1), Services()) as server:
            await server.while_alive(asyncio.sleep(10))

    with pytest.raises(CaseFailedError, match="lacks the package no_such_package: there is no build of it"):
        asyncio.run(start())


def test_a_relative_path_to_a_python_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / ".venv")
    monkeypatch.chdir(tmp_path)
    python = interpreter(".venv/bin/python")
    assert (python.path, python.prefix) == (str(tmp_path / ".venv/bin/python"), str(tmp_path / ".venv"))
