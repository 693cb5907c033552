"""Load tools from PyPI: use an installed tool, or install a missing one in an environment of its own."""

import asyncio
import os
import shutil
import signal
import tomllib
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from conftest import ROOT

from under_siege.host import environments
from under_siege.host import programs as installed_programs
from under_siege.host.interpreter import interpreter
from under_siege.host.managed_process import until_signal
from under_siege.load import DRIVERS

LOCUST = DRIVERS["locust"]
SUITE = '[load]\ntool = "locust"\npath = "/"\nusers = 1\ntime = "1s"\n[servers.one]\ncommand = "false {port}"\n'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory in which the bench finds programs; no package index is reachable."""
    (programs := tmp_path / "programs").mkdir()
    for name in ("dirname", "realpath"):  # which the scripts of an environment need
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(installed_programs, "sys", SimpleNamespace(executable=str(programs / "python")))
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path / "made")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    return programs


def write_locust(folder: Path, version: str) -> str:
    """Write a program that only prints its version."""
    (program := folder / "locust").write_text(f"#!/bin/sh\necho locust {version}\n")
    program.chmod(0o755)
    return str(program)


def find_locust(home: Path) -> tuple[str, str, list[str]]:
    """Return the program that a run would start, its version, and the messages to the user."""
    messages: list[str] = []
    found, version = asyncio.run(installed_programs.tool_in(home, LOCUST, messages.append))
    return found.program, version, messages


def created(machine: Path) -> list[str]:
    return [path.name for path in (machine.parent / "made").iterdir() if path.is_dir()]


@pytest.mark.parametrize("version", ["2.47", "2.47.3", "2.48.0.dev1"])
def test_an_installed_load_tool_of_a_supported_version_is_used(version: str, machine: Path) -> None:
    installed = write_locust(machine, version)
    assert find_locust(machine) == (installed, version, [])


@pytest.mark.parametrize("version", ["2.46.9", "3.0", "; echo broken >&2"])
def test_an_installed_load_tool_of_an_unsupported_version_is_not_used(version: str, machine: Path, monkeypatch) -> None:
    (own := machine.parent / "own" / "bin").mkdir(parents=True)

    async def made(*_: object) -> Path:
        return own.parent

    monkeypatch.setattr(installed_programs, "environment_of", made)
    write_locust(machine, version)
    replacement = write_locust(own, "2.47.0")
    assert find_locust(machine)[:2] == (replacement, "2.47.0")


def test_a_missing_load_tool_is_installed_on_first_use(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(machine / "locust-2.47.9-py3-none-any.whl", "w") as wheel:
        wheel.writestr("locust.py", "def main():\n    print('locust 2.47.9')\n")
        info = "locust-2.47.9.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: locust\nVersion: 2.47.9\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\nlocust = locust:main\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("UV_FIND_LINKS", str(machine))
    monkeypatch.setenv("UV_DEFAULT_INDEX", machine.as_uri())
    program, version, messages = find_locust(machine)
    assert version == "2.47.9"
    (message,) = messages
    assert LOCUST.requirement in message
    assert find_locust(machine) == (program, version, [])


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("http://127.0.0.1:9/", "no package index could be reached"),
        ("file:///", "No solution found"),
    ],
)
def test_a_failed_tool_installation_causes_a_one_line_error(index, reason, machine, monkeypatch, run_cli) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", index)
    (machine.parent / "suite.toml").write_text(SUITE)
    refused = run_cli("run", "suite.toml", "--quiet")
    assert (refused.returncode, refused.stdout) == (2, "")
    _, error = refused.stderr.splitlines()
    assert f"{interpreter().version}: {reason}" in error
    assert LOCUST.requirement in error
    assert created(machine) == []


class SignallingIndex(BaseHTTPRequestHandler):
    """A package index that sends SIGTERM to the bench when it gets a request."""

    def do_GET(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        self.connection.recv(1)  # returns once uv has exited

    def log_message(self, *_) -> None:
        """Print nothing."""


def test_a_signal_during_the_installation_of_a_load_tool_leaves_no_environment(machine: Path, monkeypatch) -> None:
    """The fixture `no_leftovers` checks for leftover processes."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SignallingIndex) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{index.server_port}/")
        Thread(target=index.serve_forever).start()
        messages: list[str] = []
        assert until_signal(installed_programs.tool_in(machine, LOCUST, messages.append)) == signal.SIGTERM
        index.shutdown()
    assert len(messages) == 1
    assert created(machine) == []


def test_supported_load_tool_versions_equal_those_in_the_test_requirements() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {driver.requirement for driver in DRIVERS.values() if driver.requirement}
    assert required <= set(project["optional-dependencies"]["test"])
    assert len(required) == 2
