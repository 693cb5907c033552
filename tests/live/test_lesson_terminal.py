"""The lesson on a terminal of 80 columns and 24 lines: it pauses before text scrolls away."""

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

from conftest import ROOT

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
    question, table, *rest = seen
    assert "591.66" in question
    assert status == 0
    assert "responses/s" in table
    assert not any("You said" in one for one in (question, table)), "the answer appears too early"
    assert "You said C, and that is right." in rest[0]
    assert "To continue, run: " in rest[-1]
    assert rest[-1].endswith("bench.py lesson 12\n")
    for one in seen[:-1]:
        assert max(map(len, one.splitlines())) <= COLUMNS
        assert len(one.splitlines()) <= LINES
