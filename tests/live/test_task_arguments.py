"""Tasks with arguments are measured and traced, and every command checks the arguments first."""

from pathlib import Path

import pytest
from command import invoke

from under_siege.record.result import load

TASK = """own:wait('a,"b"|<i>*c*</i>', "it's `d` [red] é", {'e': [1, -2.5]}, wait_s=0.03)"""
ANSWER = """('a,"b"|<i>*c*</i>', "it's `d` [red] é", {'e': [1, -2.5]})"""
OWN = """
import time

def wait(*words, wait_s=0.02):
    time.sleep(wait_s)
    return repr(words)
"""


@pytest.mark.parametrize(
    ("words", "call"),
    [(("run", "1", "--task"), "(open)"), (("trace", "1", "--task"), "(end=1)"), (("try",), ".third"), (("try",), "(")],
)
def test_every_command_rejects_invalid_tasks_with_a_one_line_error(
    words: tuple[str, ...], call: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    ended = invoke(*words, f"own:wait{call}", folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert f"own:wait{call}" in ended.stderr


def test_a_task_with_arguments_is_measured_and_traced(tmp_path: Path) -> None:
    """Run the task in a process pool, the ceiling and the reference run."""
    (tmp_path / "own.py").write_text(OWN)
    few = ("--rounds", "1", "--time", "1s", "--users", "2", "--trace", "--quiet", "--out", "r.json")
    ended = invoke("run", "4", "--task", TASK, *few, folder=tmp_path)
    measured = load(tmp_path / "r.json")
    assert {one.case.task for one in (*measured.records, *measured.traces)} == {TASK}
    assert [one.failure for one in (*measured.records, *measured.traces)] == [None] * 3, ended.stderr
    assert measured.records[0].answer_bytes == len(ANSWER.encode())
