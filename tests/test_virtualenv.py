"""The virtual environments for other Pythons: made once, with the user's packages, and honest about what is missing."""

import asyncio
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from common.errors import BadInputError
from common.harness import virtualenv
from common.harness.failures import CaseFailedError
from common.harness.interpreter import Interpreter, interpreter, told_apart
from common.harness.server import Server


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment of the user's, with a package of their own; ours need no package at all."""
    venv.create(tmp_path / "theirs", with_pip=False, symlinks=True)
    (packages,) = (tmp_path / "theirs" / "lib").glob("python3*/site-packages")
    (packages / "their_package.py").write_text("ANSWER = 42\n")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    monkeypatch.setattr(virtualenv, "FOLDER", tmp_path / "pythons")
    monkeypatch.setattr(virtualenv, "REQUIREMENTS", tmp_path / "requirements.txt")
    return tmp_path / "theirs" / "bin" / "python"


def prepared(path: Path) -> tuple[Interpreter, list[str]]:
    said: list[str] = []
    return asyncio.run(virtualenv.with_packages(interpreter(str(path)), said.append)), said


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


def test_other_requirements_make_another_one(users: Path, tmp_path: Path) -> None:
    first, _ = prepared(users)
    (tmp_path / "requirements.txt").write_text("# nothing else\n")
    second, _ = prepared(users)
    assert first.path != second.path


def test_a_package_without_a_build_is_named_and_the_others_are_there(users: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("no-such-package-of-under-siege>=1\n# nothing\n")
    python, said = prepared(users)
    assert "no-such-package-of-under-siege" in said[-1]
    assert "no-such-package-of-under-siege" in python.why_missing("no-such-package-of-under-siege")
    assert python.why_missing("tornado") == ""
    assert prepared(users)[0] == python


def test_one_that_was_not_completed_is_made_anew(users: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(virtualenv, "LIMIT_S", 0.0)
        with pytest.raises(BadInputError, match="can't make a virtual environment"):
            prepared(users)
    assert not list((tmp_path / "pythons").glob("*/pyvenv.cfg"))
    assert prepared(users)[1]


def test_two_pythons_of_the_same_version_are_told_apart(users: Path) -> None:
    both = told_apart([interpreter(), interpreter(str(users))])
    assert len({one.version for one in both}) == 2
    assert told_apart([interpreter()]) == [interpreter()]


def test_a_server_that_lacks_a_package_says_which(tmp_path: Path) -> None:
    """As the harness reports it, in place of a traceback's last line."""
    from dataclasses import replace

    from common.harness.plan import make_plan

    script = tmp_path / "9_needs_it.py"
    script.write_text('"""Needs something, on a --port."""\nimport no_such_package.at_all\n')
    python = replace(interpreter(), missing=(("no_such_package", "there is no build of it"),))
    case = replace(
        make_plan([str(script)], ["primes"], [1], [sys.executable], None, time_s=1, rounds=1).cases[0], python=python
    )

    async def start() -> None:
        server = Server(case, 0)
        try:
            await server.while_alive(asyncio.sleep(10))
        finally:
            await server.stop()

    with pytest.raises(CaseFailedError, match="lacks the package no_such_package: there is no build of it"):
        asyncio.run(start())
