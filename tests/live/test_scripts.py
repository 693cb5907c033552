"""run_benchmark.sh and scripts/setup. Unit tests call the Python scripts in scripts/."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import scripted_server
from conftest import ROOT, wait_until

BENCHMARK = str(ROOT / "run_benchmark.sh")
TOOLS = ("bash", "dirname", "mktemp", "tee", "mkdir", "rm", "tr", "siege")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scripted_server.running(tmp_path_factory.mktemp("server")) as server:
        yield f"127.0.0.1:{server.port}"


def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BENCHMARK, *words], capture_output=True, text=True, env={**os.environ, **env})


def with_program(folder: Path, name: str, script: str) -> str:
    """Return a PATH that begins with this program."""
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_run_benchmark_requires_only_siege_and_shows_its_report(address: str, tmp_path: Path) -> None:
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    shown = call(address, USERS="3", DURATION="1", PATH=str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    report = shown.stdout + shown.stderr
    assert re.search(r"Transactions:\s+[1-9]\d* hits", report)
    assert re.search(r"Availability:\s+100.00 %", report)
    assert "3 concurrent users" in report
    assert "HTTP/1.1 200" not in report


REPORT = "echo 'Successful transactions: {}'; echo 'Failed transactions: {}'"


@pytest.mark.parametrize(("good", "failed", "status"), [(90, 9, 0), (90, 10, 1), (0, 5, 1), (0, 0, 1)])
def test_run_benchmark_fails_if_many_requests_fail(
    address: str, tmp_path: Path, good: int, failed: int, status: int
) -> None:
    """At its end, siege drops one request of each of the nine users."""
    path = with_program(tmp_path, "siege", REPORT.format(good, failed))
    shown = call(address, USERS="9", DURATION="1S", PATH=path)
    assert (shown.returncode, "run_benchmark.sh: " in shown.stderr) == (status, bool(status))


def test_run_benchmark_stops_siege_if_it_hangs_30_s_longer_than_its_duration(address: str, tmp_path: Path) -> None:
    """Replace `timeout`, because siege hangs too rarely, and the real limit takes too long."""
    path = with_program(tmp_path, "timeout", "[[ $4 == true ]] && exit\necho limits: $*\nexit 124")
    for duration, limit_s in (("20", 50), ("20S", 50), ("2m", 150), ("1H", 3630)):
        shown = call(address, DURATION=duration, PATH=path)
        assert f"--kill-after=5 {limit_s} siege" in shown.stderr
        assert "siege did not end" in shown.stderr


def test_stopping_run_benchmark_stops_siege(address: str, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with shown.open("w") as file:
        process = subprocess.Popen([BENCHMARK, address], stdout=file, stderr=subprocess.STDOUT)
        wait_until(lambda: "under siege" in shown.read_text())
        process.terminate()
        process.wait(timeout=60)
    # About one siege in ten hangs or crashes if it is stopped while it starts its threads.
    assert re.search("Transactions:|siege did not end|Segmentation fault", shown.read_text())


WRONG_ADDRESSES = [
    *("nonsense", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:http", "127.0.0.1:", ":8000", "no such host:80"),
    *("$(touch pwned):80", "no.such.host.invalid:80", "127.0.0.1:1"),
]


def test_invalid_input_to_run_benchmark_causes_a_one_line_error(golden) -> None:
    refused = [call(address) for address in WRONG_ADDRESSES]
    refused += [call("127.0.0.1:1", "2"), call("127.0.0.1:1", USERS="0"), call("127.0.0.1:1", DURATION="banana")]
    assert {(one.returncode, one.stdout, one.stderr.count("\n")) for one in refused} == {(2, "", 1)}
    golden(*(one.stderr.strip() for one in refused))


def test_setup_with_an_invalid_python_causes_an_error() -> None:
    for python in ("no-such-python", "/bin/false"):
        refused = subprocess.run(
            [str(ROOT / "scripts" / "setup")], capture_output=True, text=True, env={**os.environ, "PYTHON": python}
        )
        assert refused.returncode == 2
        assert "setup: " in refused.stderr


STUB_PYTHON = """
case "$*" in
  *HOST_GNU_TYPE*) echo KIND ;;
  "-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) echo "$*" >>installed; echo "$PIP_SAYS" >&2; [[ -z $PIP_SAYS ]] ;;
esac
"""


@pytest.mark.parametrize(
    ("kind", "requirement", "is_complete"),
    [("x86_64-pc-linux-gnu", "-r requirements.txt", True), ("x86_64-alpine-linux-musl", "-e .", False)],
)
def test_setup_goes_on_without_the_packages_that_musl_lacks(
    kind: str, requirement: str, is_complete: bool, tmp_path: Path
) -> None:
    made = set_up(tmp_path, kind)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "installed").read_text().endswith(f" {requirement}\n")
    assert ("charts and profiles are left out" in made.stderr) is not is_complete


def test_setup_without_a_network_causes_one_line_about_it(tmp_path: Path) -> None:
    made = set_up(tmp_path, pip_says="WARNING: Retrying: Failed to establish a new connection: [Errno -3]\nERROR: none")
    assert made.returncode == 2
    lines = [line for line in made.stderr.splitlines() if "installing" not in line and "creating" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("setup: no package index can be reached")


def set_up(tmp_path: Path, kind: str = "", pip_says: str = "") -> subprocess.CompletedProcess[str]:
    """Run a copy of scripts/setup with a stand-in for Python."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "servers").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    for name in ("requirements.txt", "servers/requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("siege", "redis-server"):
        with_program(tmp_path, name, "")
    path = with_program(tmp_path, "stub-python", STUB_PYTHON.replace("KIND", kind))
    env = {**os.environ, "PATH": path, "PYTHON": "stub-python", "PIP_SAYS": pip_says}
    return subprocess.run([str(tmp_path / "scripts" / "setup")], capture_output=True, text=True, env=env)
