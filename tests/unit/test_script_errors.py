"""Scripts that read a file report a missing or invalid file with a one-line error and exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

READERS = [["measured_table.py"], ["simulate_probes.py"], ["slides.py", "--result"]]


def run_script(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader[0])
@pytest.mark.parametrize("content", [None, b"\xff{", b'{"command": "", "conditions": "", "rows": {}}'])
def test_a_missing_or_invalid_file_causes_a_one_line_error(
    reader: list[str], content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "bad.json").write_bytes(content)
    ran = run_script(*reader, "bad.json", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    [line] = ran.stderr.splitlines()
    assert line.startswith(f"{reader[0]}: bad.json: ")
    assert "expected a file" in line or "use bench.py report" in line


def test_the_error_for_a_result_without_pings_suggests_a_ping_table(tmp_path: Path) -> None:
    result = ROOT / "results" / "questions" / "20-requests-per-second.json.gz"
    ran = run_script("simulate_probes.py", str(result), cwd=tmp_path)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "measure a suite with a [ping] table" in ran.stderr


def test_the_error_for_a_result_of_bench_py_suggests_bench_py_report(tmp_path: Path) -> None:
    ran = run_script("measured_table.py", str(ROOT / "results" / "sample.json.gz"), cwd=tmp_path)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "use bench.py report" in ran.stderr
