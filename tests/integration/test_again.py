"""What is run once more and what counts at once, of a run with tests of each kind."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import SUPPORT

KINDS = """
import pytest

@pytest.fixture(scope="module")
def measured():
    assert False, "too noisy"

@pytest.fixture
def leaves_something():
    yield
    assert False, "left behind"

@pytest.mark.figures
@pytest.mark.parametrize("of", ["one and other"])
def test_figure(of):
    assert 1 == 2, "no such rate"

@pytest.mark.measures
def test_of_a_run(measured): ...

@pytest.mark.figures
def test_leaves_something(leaves_something): ...

@pytest.mark.figures
def test_right(): ...

def test_other():
    assert False, "a mistake"
"""
MARKED = "--override-ini=markers=figures\nmeasures"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "again", "-p", "no:cacheprovider", MARKED, *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SUPPORT)}
    )


def test_only_what_judges_figures_is_run_once_more_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "test_kinds.py").write_text(KINDS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = run(tmp_path, "--again=again", "--numprocesses", "1")
    assert ran.returncode == 1
    assert "1 failed, 2 passed, 1 error, 2 again" in ran.stdout
    assert "no such rate" in ran.stdout
    assert "too noisy" in ran.stdout
    noted = (tmp_path / "again").read_text()
    assert noted.splitlines() == ["test_kinds.py::test_figure[one and other]", "test_kinds.py::test_of_a_run"]
    once_more = run(tmp_path, "@again")
    assert once_more.returncode == 1
    assert "1 failed, 1 error in" in once_more.stdout
