"""Servers that cannot run with this Python are left out, and the bench reports the reason and a remedy."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import ROOT, WAITING

from common.errors import BadInputError
from under_siege.host.programs import unmet
from under_siege.record.result import load
from under_siege.report import formatted

Bench = Callable[..., subprocess.CompletedProcess[str]]
too_old = pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can run all servers")
NEEDS = "needs Python 3.14 or later, and this is"


def test_unmet_requirements_are_described_with_both_versions() -> None:
    assert unmet("", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 14)) == ""
    assert unmet("python >= 3.9", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 9)) == f"{NEEDS} 3.9"


def test_an_invalid_value_of_requires_causes_an_error() -> None:
    with pytest.raises(BadInputError, match="expected a version such as"):
        unmet("a quantum computer")


def test_the_error_for_an_invalid_value_of_requires_names_the_server(run_cli: Bench, tmp_path) -> None:
    (tmp_path / "1_x.py").write_text('"""Title, on a --port."""\n\nREQUIRES = "a quantum computer"\n')
    ended = run_cli("run", "1_x.py")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "server '1_x.py': REQUIRES = 'a quantum computer': expected a version such as" in ended.stderr


@too_old
def test_the_trace_names_servers_that_cannot_run(run_cli: Bench) -> None:
    ended = run_cli("trace", "2", "7", "--requests", "1", *WAITING)
    assert ended.returncode == 0, ended.stderr
    assert f"7_async_interpreters is not drawn: it {NEEDS}" in " ".join(ended.stdout.split())


@too_old
def test_list_shows_the_unmet_requirement_of_each_strategy(run_cli: Bench) -> None:
    assert f"({NEEDS}" in run_cli("list").stdout
    (entry,) = [one for one in json.loads(run_cli("list", "--json").stdout) if one["number"] == 7]
    assert entry["requires"] == "python>=3.14"
    assert entry["lacking"].startswith(NEEDS)


@too_old
def test_the_server_reports_its_unmet_requirement_in_one_line() -> None:
    script = str(ROOT / "servers" / "7_async_interpreters.py")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "needs Python 3.14 or later" in ended.stderr


@too_old
def test_a_run_of_only_servers_that_cannot_run_causes_an_error(run_cli: Bench) -> None:
    ended = run_cli("run", "7")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "pass --python PATH" in ended.stderr


@too_old
@pytest.mark.usefixtures("undrawn")
def test_a_run_omits_servers_that_cannot_run_and_notes_the_reason(run_cli: Bench, tmp_path) -> None:
    ended = run_cli("run", "2", "7", "--rounds", "1", "--time", "3s", "--users", "2", *WAITING, "--out", "r.json")
    assert ended.returncode in (0, 3), ended.stderr  # 3 if the machine is too noisy
    assert f"7_async_interpreters: not run: it {NEEDS}" in " ".join(ended.stdout.split())
    result = load(tmp_path / "r.json")
    assert [one.server for one in result.left_out] == ["7_async_interpreters"]
    assert {record.server for record in result.records} == {"bare", "2_async"}
    for dress in ("markdown", "html"):
        assert f"not run: it {NEEDS}" in formatted(result, dress)
