"""What strategies require, and how results and lists show that a strategy can't run with this Python."""

import json
import sys
from pathlib import Path

import pytest
from command import invoke
from conftest import WAITING
from formatted import formatted
from simulated_record import record_of, result_of

from common.errors import BadInputError
from under_siege.host.programs import unmet
from under_siege.record.result import SkippedServer


def test_unmet_requirements_are_described_with_both_versions() -> None:
    assert unmet("", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 14)) == ""
    assert unmet("python >= 3.9", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 9)) == "needs Python 3.14 or later, and this is 3.9"


def test_an_invalid_value_of_requires_causes_an_error_that_names_the_server(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        unmet("a quantum computer")
    (tmp_path / "1_x.py").write_text('"""Title, on a --port."""\n\nREQUIRES = "a quantum computer"\n')
    ended = invoke("run", "1_x.py", *WAITING, folder=tmp_path)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "1_x.py" in ended.stderr
    assert "REQUIRES" in ended.stderr


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can run all servers")
def test_list_shows_the_unmet_requirement_of_each_strategy() -> None:
    (entry,) = [one for one in json.loads(invoke("list", "--json").stdout) if one["number"] == 7]
    assert entry["requires"] == "python>=3.14"
    assert entry["lacking"] == unmet("python>=3.14")
    assert f"({entry['lacking']}" in invoke("list").stdout


@pytest.mark.parametrize("name", ["table", "markdown", "html"])
@pytest.mark.usefixtures("undrawn")
def test_servers_that_could_not_run_are_shown_with_the_reason(name: str) -> None:
    result = result_of([record_of("1_sync")])
    result.left_out.append(SkippedServer("7_interpreters", "In interpreters", "3.11.7", "needs Python 3.14 or later"))
    assert "7_interpreters: not run: it needs Python 3.14 or later" in " ".join(formatted(result, name).split())
