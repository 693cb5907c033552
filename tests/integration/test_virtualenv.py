"""The virtual environments for other Pythons: made once, with the user's packages, and honest about what is missing."""

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
from planned import plan_of

from common.errors import BadInputError
from under_siege.environments import venvs
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.processes.managed_process import until
from under_siege.run.plan import new_record
from under_siege.run.server import running
from under_siege.targets.interpreter import Interpreter, interpreter, with_unique_versions
from under_siege.trace.request_trace import trace_servers


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment of the user's, with a package of their own; ours need no package at all."""
    venv.create(tmp_path / "theirs", symlinks=True)
    (packages,) = (tmp_path / "theirs" / "lib").glob("python3*/site-packages")
    (packages / "their_package.py").write_text("ANSWER = 42\n")
    (tmp_path / "dependencies.txt").write_text("# nothing\n")
    monkeypatch.setattr(venvs, "DIRECTORY", tmp_path / "pythons")
    monkeypatch.setattr(venvs, "REQUIREMENTS", tmp_path / "dependencies.txt")
    return tmp_path / "theirs" / "bin" / "python"


def prepared(path: Path, needed: set[str] | None = None) -> tuple[Interpreter, list[str]]:
    said: list[str] = []
    return asyncio.run(venvs.with_packages(interpreter(str(path)), said.append, needed)), said


def test_the_python_of_the_bench_needs_none() -> None:
    assert prepared(Path(sys.executable)) == (interpreter(), [])


def test_it_has_the_users_packages_and_is_made_once(users: Path) -> None:
    python, said = prepared(users)
    assert python.path != str(users)
    assert len(said) == 1
    assert "this is done once" in said[0]
    script = "import their_package; print(their_package.ANSWER)"
    assert subprocess.run([python.path, "-c", script], capture_output=True, text=True, check=True).stdout == "42\n"
    assert prepared(users) == (python, [])


def test_what_is_installed_from_a_folder_is_made_again_when_that_was_changed(tmp_path: Path, monkeypatch) -> None:
    made = []

    async def make(folder: Path, *_: object) -> tuple[dict[str, str], bool]:
        await asyncio.to_thread(folder.mkdir, exist_ok=True)
        made.append(folder)
        return {}, True

    monkeypatch.setattr(venvs, "DIRECTORY", tmp_path / "made")
    monkeypatch.setattr(venvs, "_make", make)
    (source := tmp_path / "mine" / "shop.py").parent.mkdir()
    source.write_text("answer = 1")

    def environment(*names: str) -> Path | str:
        return asyncio.run(venvs.environment_with(names, interpreter(), tmp_path, lambda _told: None))

    first = environment("flask", "./mine")
    (tmp_path / "mine" / "result.json").write_text("{}")
    assert (environment("./mine", "flask"), len(made)) == (first, 1)
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 1))
    assert (environment("flask", "./mine"), len(made)) == (first, 2)
    assert (environment("flask", "./mine"), len(made)) == (first, 2)


def test_who_wants_what_another_is_making_waits_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at the same time, as two runs are: each has a lock of its own."""
    said: list[str] = []

    async def make(folder: Path, *_: object) -> tuple[dict[str, str], bool]:
        await asyncio.to_thread(folder.mkdir)  # which fails if it is there
        assert await until(lambda: any("waiting for another run" in one for one in said), 20)
        return {}, True

    async def both(*wanting) -> list[object]:
        return list(await asyncio.gather(*wanting))

    other = dataclasses.replace(interpreter(), prefix="/elsewhere")
    monkeypatch.setattr(venvs, "DIRECTORY", tmp_path / "made")
    monkeypatch.setattr(venvs, "_make", make)
    first, second = asyncio.run(both(*(venvs.with_packages(other, said.append) for _ in range(2))))
    assert first == second
    assert len(said) == 2
    said.clear()
    wanted = (("flask",), interpreter(), tmp_path, said.append)
    first, second = asyncio.run(both(*(venvs.environment_with(*wanted) for _ in range(2))))
    assert first == second
    assert len(said) == 2


def test_other_requirements_make_another_one(users: Path, tmp_path: Path) -> None:
    theirs = interpreter(str(users))
    assert venvs._directory(theirs, "flask") != venvs._directory(theirs)
    assert Path(prepared(users)[0].path).parents[1] == venvs._directory(theirs, *theirs.packages)


class AnIndex(BaseHTTPRequestHandler):
    """Of packages: says of every one the same."""

    status = 404

    def do_GET(self) -> None:
        self.send_error(self.status)

    def log_message(self, *_) -> None:
        """Nothing."""


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[AnIndex]]:
    """The only index that uv asks."""
    monkeypatch.setattr(AnIndex, "status", AnIndex.status)
    with ThreadingHTTPServer(("127.0.0.1", 0), AnIndex) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/")
        Thread(target=server.serve_forever).start()
        yield AnIndex
        server.shutdown()


def test_a_package_without_a_build_is_named_and_the_others_are_there(users: Path, tmp_path: Path, index) -> None:
    (tmp_path / "dependencies.txt").write_text("no-such-package-of-under-siege>=1\n# nothing\n")
    python, said = prepared(users)
    assert "no-such-package-of-under-siege" in said[-1]
    assert "no-such-package-of-under-siege" in python.why_missing("no-such-package-of-under-siege")
    assert python.why_missing("tornado") == ""
    again, said = prepared(users)
    assert again == python
    assert len(said) == 1  # nothing was made


def test_what_nobody_asks_for_is_neither_installed_nor_told_to_be_missing(users, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("at_hand[extra]==1\nfar_away\n")
    a_wheel(tmp_path, "at_hand")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    lean, said = prepared(users, needed={"at_hand"})
    assert (len(said), lean.missing) == (1, ())
    everything, said = prepared(users)
    assert (len(said), [name for name, _ in everything.missing]) == (3, ["far_away"])
    assert lean.path != everything.path
    again, said = prepared(users, needed={"at_hand"})
    assert (again.path, said) == (everything.path, [])  # the one with everything serves, too


def a_wheel(folder: Path, name: str) -> None:
    """The least that uv can install."""
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


def a_source_distribution(folder: Path) -> None:
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND,
        "PKG-INFO": "Metadata-Version: 2.1\nName: from_source\nVersion: 1\n",
    }
    with tarfile.open(folder / "from_source-1.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            (folder / name).write_text(text)
            archive.add(folder / name, f"from_source-1/{name}")


def test_a_package_without_a_wheel_is_built_from_source(users, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("from_source\n")
    a_source_distribution(tmp_path)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    python, said = prepared(users)
    assert python.missing == ()
    assert said[1:] == ["no wheel of from_source fits; trying to build it from source, which can take minutes"]
    subprocess.run([python.path, "-c", "import from_source"], check=True)


@pytest.mark.parametrize("trouble", ["nobody listens", "a proxy that is gone"])
def test_where_no_index_was_asked_for_a_package_that_is_said(trouble, users, tmp_path, monkeypatch, index) -> None:
    without_index(trouble, monkeypatch, index)
    (tmp_path / "dependencies.txt").write_text("far_away\n")
    python, said = prepared(users)
    assert "no package index was reached (http" in said[-1]
    assert "; this is tried again at the next run" in said[-1]
    assert "no package index" in python.why_missing("far_away")


def without_index(trouble: str, monkeypatch: pytest.MonkeyPatch, index: type[AnIndex]) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    if trouble == "503":
        monkeypatch.setattr(index, "status", 503)
    if trouble == "nobody listens":
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/")
    if trouble == "a proxy that is gone":
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://example.invalid/")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")


def test_a_package_that_no_index_was_asked_for_is_asked_for_again(users, tmp_path, monkeypatch, index) -> None:
    without_index("503", monkeypatch, index)
    (tmp_path / "dependencies.txt").write_text("at_hand\nfar_away\n")
    (tmp_path / "wheels").mkdir()
    a_wheel(tmp_path / "wheels", "at_hand")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    python, said = prepared(users)
    assert "no package index was reached (http" in said[-1]
    assert "; this is tried again at the next run" in said[-1]
    assert "no package index" in python.why_missing("far_away")
    monkeypatch.setattr(index, "status", 404)
    a_wheel(tmp_path / "wheels", "far_away")
    python, said = prepared(users)
    assert len(said) == 1
    assert python.missing == ()
    subprocess.run([python.path, "-c", "import at_hand, far_away"], check=True)
    assert prepared(users) == (python, [])


def test_one_that_was_not_completed_is_made_anew(users: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(venvs, "LIMIT_S", 0.0)
        with pytest.raises(BadInputError, match="can't make a virtual environment"):
            prepared(users)
    assert not list((tmp_path / "pythons").glob("*/pyvenv.cfg"))
    assert prepared(users)[1]


class Unmoved:
    """A watcher that needs not be told."""

    def __getattr__(self, _name: str):
        return lambda *_: None


def test_the_packages_in_the_record_are_those_of_the_python_that_served(users, tmp_path, monkeypatch, index) -> None:
    (tmp_path / "dependencies.txt").write_text("flask\n")
    a_wheel(tmp_path, "flask")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    pythons = [sys.executable, str(users)]
    plan = plan_of("1", users=1, pythons=pythons)
    result, _ = trace_servers(plan, 1, Unmoved(), [])
    ours, theirs = (case.python for case in plan.cases)
    assert result.environment.packages_of[ours]["flask"] == importlib.metadata.version("flask")
    assert result.environment.packages_of[theirs] == {"flask": "1"}
    assert result.environment.packages == {}


def test_two_pythons_of_the_same_version_are_told_apart(users: Path) -> None:
    both = with_unique_versions([interpreter(), interpreter(str(users))])
    assert len({one.version for one in both}) == 2
    assert with_unique_versions([interpreter()]) == [interpreter()]


def test_a_server_that_lacks_a_package_says_which(tmp_path: Path) -> None:
    """As the harness reports it, in place of a traceback's last line."""
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
