"""The lesson on a terminal of 80 columns and 24 lines pauses before text scrolls away, and a step is measured."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT

from under_siege.lesson import step
from under_siege.record.result import load

LINES, COLUMNS, LONGEST_S = 24, 80, 60.0
_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
PROMPT = re.compile(r"(Your prediction \([^)]*\): |\[Enter: [^\]]+\] )$")


def screens(folder: Path, words: list[str], keys: list[str]) -> tuple[list[str], int]:
    """Return the output before each prompt, the output after the last one, and the exit code."""
    terminal, process_side = pty.openpty()
    fcntl.ioctl(process_side, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, ROOT / "bench.py", *words],
        cwd=folder,
        stdin=process_side,
        stdout=process_side,
        stderr=process_side,
        env={**os.environ, "TERM": "xterm", "PYTHONWARNINGS": "error"},
    ) as process:
        os.close(process_side)
        seen, now = [], b""
        left = iter(keys)
        while select.select([terminal], [], [], LONGEST_S)[0]:
            try:
                now += os.read(terminal, 65536)
            except OSError:  # the process has ended
                break
            text = _CODES.sub(b"", now).decode(errors="replace").replace("\r", "")
            if PROMPT.search(text):
                seen.append(text)
                now = b""
                os.write(terminal, next(left, "q").encode() + b"\n")
        os.close(terminal)
        seen.append(_CODES.sub(b"", now).decode(errors="replace").replace("\r", ""))
    return seen, process.returncode


def test_enter_continues_the_lesson_and_q_stops_it(tmp_path: Path) -> None:
    seen, status = screens(tmp_path, ["lesson", "12"], ["c", "", "", "q"])
    question, table, answer, *_, last = seen
    assert status == 0
    assert "591.66" in question
    assert "responses/s" in table
    assert not any("You said" in one for one in (question, table)), "the answer appears too early"
    assert "You said C" in answer
    assert last.endswith("bench.py lesson 12\n")
    for one in seen[:-1]:
        assert max(map(len, one.splitlines())) <= COLUMNS
        assert len(one.splitlines()) <= LINES


SMALL = """
title = "Small"
question = "How many are in hand at once?"
usual = "A"
why = "One after the other."
exercise = "Do it again."
answers = [{text = "One.", when = ["one"]}, {text = "Two.", when = []}, {text = "All.", when = []}]
claims = [{name = "one", of = "2", requires = ["at once <= 1"], claim = "one is", says = "At most {of}."}]
[run]
servers = ["2"]
tasks = ["sign_up"]
requests = 2
"""


def test_a_step_of_the_lesson_is_measured_shown_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "01_small.toml").write_text(SMALL)
    monkeypatch.setattr(step, "LESSON", tmp_path)
    said = invoke("lesson", "--answer", "B", "--html", "page.html", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "You said B; it is A: One." in said.stdout
    assert "At most 1." in said.stdout
    assert len(load(tmp_path / "lesson-progress" / "01_small.json").traces[0].requests.sent_s) == 2
    page = (tmp_path / "page.html").read_text()
    assert "At most 1." in page
    assert "<svg" in page
