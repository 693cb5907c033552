"""Output of whole processes: to a full disk, in an ASCII locale, and of a Python without packages.

tests/unit/record/test_written_files.py tests how files are written.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, TESTS, bench_command
from scripted_server import running

RESULT = str(TESTS / "data" / "result.json")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def limited(bytes_: int, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the bench with a limit on the size of files, to simulate a full disk."""
    script = (
        "import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_}, {bytes_})); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, *bench_command(*words)]
    env = {**os.environ, **ASCII, "PYTHONDONTWRITEBYTECODE": "1"}  # the limit would truncate compiled modules
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def is_one_line(ran: subprocess.CompletedProcess[str]) -> bool:
    return len(ran.stderr.splitlines()) == 1 and ran.stderr.startswith("bench.py: ")


def test_a_run_continues_if_the_raw_values_cannot_be_saved_and_an_ascii_locale_gets_replacements(
    tmp_path: Path,
) -> None:
    (tmp_path / "out").mkdir()
    with running(tmp_path) as server:
        words = ("run", f"{server.url}/slow/0.01", "--users", "2", "--time", "1s", "--rounds", "1", "--quiet")
        ran = limited(4000, *words, "--out", "r.json", cwd=tmp_path / "out")
    assert ran.returncode in (0, 3), ran.stderr
    assert ran.stdout.isascii()
    assert f"127.0.0.1:{server.port}" in ran.stdout
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count("'r.json' can't be written") == 1
    assert not list((tmp_path / "out").iterdir())


def test_out_dev_stdout_writes_to_stdout(bench, run_cli) -> None:
    expected = run_cli("report", RESULT, "--format", "csv").stdout
    assert bench("report", RESULT, "--format", "csv", "--out", "/dev/stdout").stdout == expected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_writing_stdout_to_a_full_disk_causes_a_one_line_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(bench_command("list"), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "No space left on device" in ran.stderr


@pytest.mark.parametrize("words", [["-S"], ["-I", "-S"]], ids=" ".join)
def test_the_error_for_a_python_without_packages_contains_the_setup_command(words: list[str], tmp_path: Path) -> None:
    python = shutil.which(os.path.realpath(sys.executable))
    ran = subprocess.run([python, *words, str(ROOT / "bench.py"), "list"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "./scripts/setup" in ran.stderr


def test_the_error_for_a_single_missing_package_contains_the_setup_command(bench, tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('No module named msgspec', name='msgspec')")
    ran = bench("report", RESULT, env={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "msgspec" in ran.stderr
