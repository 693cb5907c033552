"""run_benchmark.sh, and everything in scripts/."""

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


def test_a_running_server_is_besieged_and_sieges_own_report_is_shown() -> None:
    with serving(SERVERS[1]) as served:
        shown = call(f"127.0.0.1:{served.port}", USERS="3", DURATION="2S")
        assert served.request("/ping").body == "pong"
    assert shown.returncode == 0
    report = shown.stdout + shown.stderr
    assert re.search(r"Transactions:\s+[1-9]\d* hits", report)
    assert re.search(r"Availability:\s+100.00 %", report)
    assert "3 concurrent users" in report
    assert not re.search(r"HTTP/1.1 200", report)


def test_it_needs_siege_alone(tmp_path) -> None:
    tools = ("bash", "dirname", "mktemp", "tee", "mkdir", "rm", "tr", "siege")
    with serving(SERVERS[1]) as served:
        folder = tmp_path / "only-siege"
        folder.mkdir()
        for tool in tools:
            (folder / tool).symlink_to(shutil.which(tool))
        shown = call(f"127.0.0.1:{served.port}", USERS="2", DURATION="1", PATH=str(folder))
    assert shown.returncode == 0, shown.stderr
    assert "Transactions:" in shown.stderr


def test_ended_it_ends_siege(tmp_path) -> None:
    shown = tmp_path / "shown"
    with serving(SERVERS[1]) as served, shown.open("w") as file:
        command = [BENCHMARK, f"127.0.0.1:{served.port}"]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        wait_until(lambda: "under siege" in shown.read_text())
        process.terminate()
        process.wait(timeout=60)
    # One siege in ten hangs, or breaks off, if it is told to end while it still starts its threads.
    assert re.search("Transactions:|siege did not end when it was told to|Segmentation fault", shown.read_text())


@pytest.mark.parametrize(
    ("words", "env", "complaint"),
    [
        (["nonsense"], {}, "'nonsense' makes no sense; expected host:port"),
        (["127.0.0.1:0"], {}, "'0' is not a port"),
        (["127.0.0.1:65536"], {}, "'65536' is not a port"),
        (["127.0.0.1:http"], {}, "'http' is not a port"),
        (["127.0.0.1:"], {}, "'' is not a port"),
        ([":8000"], {}, "':8000' makes no sense"),
        (["no such host:80"], {}, "makes no sense"),
        (["$(touch pwned):80"], {}, "makes no sense"),
        (["no.such.host.invalid:80"], {}, "nothing listens on no.such.host.invalid:80"),
        (["127.0.0.1:1", "2"], {}, "expected nothing, or one host:port"),
        (["127.0.0.1:1"], {"USERS": "0"}, "USERS='0' makes no sense"),
        (["127.0.0.1:1"], {"DURATION": "banana"}, "DURATION='banana' makes no sense"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(words, env, complaint) -> None:
    refused = call(*words, **env)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert complaint in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_server_that_is_not_there_is_one_line_and_exit_code_2() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        refused = call(f"127.0.0.1:{nobody.getsockname()[1]}")
    assert refused.returncode == 2
    assert "nothing listens on" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.measures
def test_setting_up_again_is_quick_and_silent() -> None:
    began_s = time.monotonic()
    again = subprocess.run([str(ROOT / "scripts" / "setup"), "test"], capture_output=True, text=True)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert time.monotonic() - began_s < 2  # the promise of the README


def test_setting_up_with_what_is_no_python_is_one_line() -> None:
    for python, complaint in (("no-such-python", "no no-such-python here"), ("/bin/false", "is too old")):
        refused = subprocess.run(
            [str(ROOT / "scripts" / "setup")], capture_output=True, text=True, env={**os.environ, "PYTHON": python}
        )
        assert refused.returncode == 2
        assert complaint in refused.stderr


def test_every_python_script_starts_and_prints_its_help(tmp_path) -> None:
    """Start all of them at the same time, because each takes most of a second to import what it needs."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    started = {path: subprocess.Popen([sys.executable, str(path), "--help"], **pipes) for path in PYTHON_SCRIPTS}
    ended = {path: (*process.communicate(), process.returncode) for path, process in started.items()}
    assert ended
    for path, (shown, errors, code) in ended.items():
        assert (code, errors) == (0, ""), path.name
        assert f".venv/bin/python scripts/{path.name}" in shown


def test_every_script_is_executable_and_names_its_interpreter() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    assert {path.name for path in scripts if path.suffix != ".py"} == {"setup"}
    for path in scripts:
        assert os.access(path, os.X_OK), path.name
        first_line = "#!/usr/bin/env python3\n" if path.suffix == ".py" else "#!/usr/bin/env bash\n"
        assert path.read_text().startswith(first_line), path.name
