"""A strategy that cannot run with this Python says so itself, and the bench suggests another Python."""

import subprocess
import sys

import pytest
from command import invoke
from conftest import ROOT

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can run all servers")


def test_the_server_reports_its_unmet_requirement_in_one_line() -> None:
    script = str(ROOT / "servers" / "7_async_interpreters.py")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "Python 3.14" in ended.stderr


def test_a_run_of_only_servers_that_cannot_run_causes_an_error() -> None:
    ended = invoke("run", "7")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "--python" in ended.stderr
