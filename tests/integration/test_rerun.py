"""The rerun plugin collects failed tests of real servers, so that they can be rerun, and counts all other failures."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import SUPPORT

KINDS = """
import pytest

@pytest.fixture(scope="module")
def measurement():
    assert False, "too noisy"

@pytest.fixture
def leaves_process():
    yield
    assert False, "left behind"

@pytest.mark.parametrize("of", ["one and other"])
def test_figure(of):
    assert 1 == 2, "no such rate"

def test_measured_run(measurement): ...

def test_leftover(leaves_process): ...

def test_passing(): ..."""
UNIT = """
def test_other():
    assert False, "a mistake"
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "rerun", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SUPPORT)}
    )


def test_only_failed_tests_of_real_servers_are_rerun_and_the_failure_reasons_are_shown(tmp_path: Path) -> None:
    for name, text in ("integration/test_kinds.py", KINDS), ("unit/test_unit.py", UNIT):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = run(tmp_path, "--again=again", "--numprocesses", "1")
    assert ran.returncode == 1
    assert "1 failed, 2 passed, 1 error, 2 again" in ran.stdout
    assert "no such rate" in ran.stdout
    assert "too noisy" in ran.stdout
    tests_to_rerun = (tmp_path / "again").read_text()
    assert tests_to_rerun.splitlines() == [
        "integration/test_kinds.py::test_figure[one and other]",
        "integration/test_kinds.py::test_measured_run",
    ]
    rerun = run(tmp_path, "@again")
    assert rerun.returncode == 1
    assert "1 failed, 1 error in" in rerun.stdout
