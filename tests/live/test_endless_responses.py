"""Endless responses and output: the bench reads them up to a limit, and reports that they are too long."""

import asyncio
import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

from conftest import TESTS, bench_command

from under_siege.host.managed_process import LONGEST_LINE_BYTES, reading_lines, until
from under_siege.record.result import load

MOST_BYTES = 300_000_000  # fewer than a server prints
COMMAND = f"{sys.executable} {TESTS / 'servers' / 'sends_endlessly.py'} {{port}}"
SUITE = f"""
[load]
users = 2
time = "2s"
[ping]
path = "/ping"
[servers.pings]
command = "{COMMAND}"
[servers.answers]
command = "{COMMAND} answer"
"""


def test_endless_responses_do_not_exhaust_memory_or_affect_other_cases(tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(SUITE)
    command = bench_command("run", "suite.toml", "--rounds", "1", "--out", "r.json", "--quiet")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as bench:
        most_bytes = 0
        while bench.poll() is None:
            most_bytes = max(most_bytes, memory_bytes(bench.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                bench.wait(0.05)
        assert b"Traceback" not in bench.stderr.read()
    assert 0 < most_bytes < MOST_BYTES
    records = {record.server: record for record in load(tmp_path / "r.json").records}
    assert records["answers"].failure.code == "wrong_answer"
    assert "correct" in records["pings"].requests.only("load").outcome
    assert any("more than 4 MB" in problem for problem in records["pings"].requests.only("ping").problem)
    assert 0 < len(records["pings"].server_said) <= 4000


def memory_bytes(pid: int) -> int:
    """Return the peak memory of the process; 0 if it has just ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return 1024 * int(found[1]) if found else 0
    return 0


def test_an_overlong_output_line_is_truncated_and_the_next_line_is_read() -> None:
    taken: list[str] = []
    script = "import sys; sys.stdout.write(1000 * 1000 * 'x' + '\\nnext\\n')"

    async def read(stream: IO[bytes]) -> None:
        with reading_lines(stream.fileno(), lambda line, _: taken.append(line)):
            await until(lambda: len(taken) == 2, 20)

    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        asyncio.run(read(process.stdout))
    assert taken == ["x" * LONGEST_LINE_BYTES, "next"]
