"""The machine, the commit and the Pythons, as described in a result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from repositories import commit_all, git

from under_siege.host import interpreter, machine


def test_the_recorded_commit_of_a_modified_checkout_ends_with_a_plus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert machine._commit() == ""
    git(tmp_path, "init", "-q")
    assert machine._commit() == ""
    (tmp_path / "file").touch()
    commit_all(tmp_path)
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    (tmp_path / "another").touch()
    assert machine._commit() == head
    (tmp_path / "file").write_text("changed")
    assert machine._commit() == f"{head}+"


def test_the_description_of_a_python_is_the_same_in_this_process_and_in_a_child_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"{interpreter._DESCRIBE}\nprint(json.dumps(answer))"]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert interpreter.evaluate(sys.executable, interpreter._DESCRIBE) == json.loads(completed.stdout)
