"""run_benchmark.sh and the scripts in scripts/."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest
from conftest import ROOT, SERVERS, serving, wait_until

BENCHMARK = str(ROOT / "run_benchmark.sh")
PYTHON_SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BENCHMARK, *words], capture_output=True, text=True, env={**os.environ, **env})


def test_run_benchmark_shows_the_report_of_siege() -> None:
    with serving(SERVERS[1]) as served:
        shown = call(f"127.0.0.1:{served.port}", USERS="3", DURATION="2S")
        assert served.request("/ping").body == "pong"
    assert shown.returncode == 0
    report = shown.stdout + shown.stderr
    assert re.search(r"Transactions:\s+[1-9]\d* hits", report)
    assert re.search(r"Availability:\s+100.00 %", report)
    assert "3 concurrent users" in report
    assert not re.search(r"HTTP/1.1 200", report)


def test_run_benchmark_fails_if_many_requests_fail() -> None:
    by_name = {path.stem: path for path in SERVERS}
    with serving(by_name["4_async_processexecutor"], "--queue", "0", "--workers", "1") as served:
        shown = call(f"127.0.0.1:{served.port}", USERS="9", DURATION="2S")
    assert shown.returncode == 1
    assert re.search(r"run_benchmark.sh: \d+ of \d+ requests failed", shown.stderr)
    with serving(by_name["4_async_processexecutor"]) as served:
        served.request("/")  # starts the processes of the pool
        shown = call(f"127.0.0.1:{served.port}", USERS="9", DURATION="2S")
    assert (shown.returncode, "requests failed" in shown.stderr) == (0, False)


def test_run_benchmark_requires_only_siege(tmp_path) -> None:
    tools = ("bash", "dirname", "mktemp", "tee", "mkdir", "rm", "tr", "siege")
    with serving(SERVERS[1]) as served:
        folder = tmp_path / "only-siege"
        folder.mkdir()
        for tool in tools:
            (folder / tool).symlink_to(shutil.which(tool))
        shown = call(f"127.0.0.1:{served.port}", USERS="2", DURATION="3", PATH=str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "Transactions:" in shown.stderr


@pytest.mark.parametrize(("duration", "limit_s"), [("20", 50), ("20S", 50), ("2m", 150), ("1H", 3630)])
def test_run_benchmark_stops_siege_if_it_hangs_30_s_longer_than_its_duration(duration, limit_s, tmp_path) -> None:
    """Replace `timeout`, because siege hangs too rarely, and the real limit takes too long."""
    (tmp_path / "timeout").write_text("#!/bin/bash\necho limits: $*\nexit 124\n")
    (tmp_path / "timeout").chmod(0o755)
    with serving(SERVERS[1]) as served:
        shown = call(f"127.0.0.1:{served.port}", DURATION=duration, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert f"--kill-after=5 {limit_s} siege" in shown.stderr
    assert "siege did not end and was stopped" in shown.stderr


def test_stopping_run_benchmark_stops_siege(tmp_path) -> None:
    shown = tmp_path / "shown"
    with serving(SERVERS[1]) as served, shown.open("w") as file:
        command = [BENCHMARK, f"127.0.0.1:{served.port}"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        wait_until(lambda: "under siege" in shown.read_text())
        process.terminate()
        process.wait(timeout=60)
    # About one siege in ten hangs or crashes if it is stopped while it starts its threads.
    assert re.search("Transactions:|siege did not end|Segmentation fault", shown.read_text())


@pytest.mark.parametrize(
    ("words", "env", "error"),
    [
        (["nonsense"], {}, "'nonsense' is not an address; expected host:port"),
        (["127.0.0.1:0"], {}, "'0' is not a port"),
        (["127.0.0.1:65536"], {}, "'65536' is not a port"),
        (["127.0.0.1:http"], {}, "'http' is not a port"),
        (["127.0.0.1:"], {}, "'' is not a port"),
        ([":8000"], {}, "':8000' is not an address"),
        (["no such host:80"], {}, "is not an address"),
        (["$(touch pwned):80"], {}, "is not an address"),
        (["no.such.host.invalid:80"], {}, "nothing listens on no.such.host.invalid:80"),
        (["127.0.0.1:1", "2"], {}, "too many arguments; expected none, or one host:port"),
        (["127.0.0.1:1"], {"USERS": "0"}, "USERS='0' is not a number of users"),
        (["127.0.0.1:1"], {"DURATION": "banana"}, "DURATION='banana' is not a duration"),
    ],
)
def test_invalid_input_to_run_benchmark_causes_a_one_line_error(words, env, error) -> None:
    refused = call(*words, **env)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert error in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_run_benchmark_without_a_server_causes_a_one_line_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without listening
        refused = call(f"127.0.0.1:{unused.getsockname()[1]}")
    assert refused.returncode == 2
    assert "nothing listens on" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_repeated_setup_ends_within_two_seconds_and_prints_nothing() -> None:
    began_s = time.monotonic()
    again = subprocess.run([str(ROOT / "scripts" / "setup"), "test"], capture_output=True, text=True)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert time.monotonic() - began_s < 2  # because nothing is left to install


def test_setup_with_an_invalid_python_causes_an_error() -> None:
    for python, error in (("no-such-python", "no-such-python is not installed"), ("/bin/false", "is too old")):
        refused = subprocess.run(
            [str(ROOT / "scripts" / "setup")], capture_output=True, text=True, env={**os.environ, "PYTHON": python}
        )
        assert refused.returncode == 2
        assert error in refused.stderr


# Run each script in a child that inherits the imported packages, because importing them takes almost a second.
HELP_OF_ALL = """
import os, runpy, sys
import numpy, under_siege.report
for path in sys.argv[1:]:
    if not os.fork():
        sys.argv = [path, "--help"]
        sys.path.insert(0, os.path.dirname(path))
        runpy.run_path(path, run_name="__main__")
    if code := os.waitstatus_to_exitcode(os.wait()[1]):
        sys.exit(f"{path} ended with exit code {code}")
"""


def test_every_python_script_starts_and_prints_its_help(tmp_path) -> None:
    assert PYTHON_SCRIPTS
    ended = subprocess.run(
        [sys.executable, "-c", HELP_OF_ALL, *map(str, PYTHON_SCRIPTS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for path in PYTHON_SCRIPTS:
        assert f".venv/bin/python scripts/{path.name}" in ended.stdout


def test_every_script_is_executable_and_names_its_interpreter() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    assert {path.name for path in scripts if path.suffix != ".py"} == {"setup"}
    for path in scripts:
        assert os.access(path, os.X_OK), path.name
        first_line = "#!/usr/bin/env python3\n" if path.suffix == ".py" else "#!/usr/bin/env bash\n"
        assert path.read_text().startswith(first_line), path.name
