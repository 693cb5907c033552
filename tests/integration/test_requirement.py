"""What can't run with a Python is left out with a reason and a remedy, and is no error."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import ROOT, WAITING

from common.errors import BadInputError
from common.server_contract import unmet
from under_siege.model.record import load
from under_siege.render import dressed

Bench = Callable[..., subprocess.CompletedProcess[str]]
too_old = pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can run everything")
NEEDS = "needs Python 3.14 or later, and this is"


def test_what_is_lacking_is_said_in_words() -> None:
    assert unmet("", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 14)) == ""
    assert unmet("python >= 3.9", (3, 11)) == ""
    assert unmet("python>=3.14", (3, 9)) == f"{NEEDS} 3.9"


def test_a_line_that_is_no_requirement_is_a_mistake_of_the_server() -> None:
    with pytest.raises(BadInputError, match="expected something like"):
        unmet("a quantum computer")


def test_such_a_server_is_refused_in_one_line_that_names_it(asked: Bench, tmp_path) -> None:
    (tmp_path / "1_x.py").write_text('"""Title, on a --port."""\n\nREQUIRES = "a quantum computer"\n')
    ended = asked("run", "1_x.py")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "server '1_x.py': REQUIRES = 'a quantum computer': expected something like" in ended.stderr


@too_old
def test_the_trace_says_what_it_leaves_out(asked: Bench) -> None:
    ended = asked("trace", "2", "7", "--requests", "1", *WAITING)
    assert ended.returncode == 0, ended.stderr
    assert f"7_async_interpreters is not drawn: it {NEEDS}" in " ".join(ended.stdout.split())


@too_old
def test_the_list_says_so(asked: Bench) -> None:
    assert f"({NEEDS}" in asked("list").stdout
    (entry,) = [one for one in json.loads(asked("list", "--json").stdout) if one["number"] == 7]
    assert entry["requires"] == "python>=3.14"
    assert entry["lacking"].startswith(NEEDS)


@too_old
def test_the_server_itself_says_so_in_one_line() -> None:
    script = str(ROOT / "servers" / "7_async_interpreters.py")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert NEEDS in ended.stderr


@too_old
def test_asked_for_alone_it_is_wrong_use(asked: Bench) -> None:
    ended = asked("run", "7")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "pass --python PATH" in ended.stderr


@too_old
@pytest.mark.usefixtures("undrawn")
def test_among_others_it_is_left_out_and_the_table_says_why(asked: Bench, tmp_path) -> None:
    ended = asked("run", "2", "7", "--rounds", "1", "--time", "1s", "--users", "2", *WAITING, "--out", "r.json")
    assert ended.returncode in (0, 3), ended.stderr  # 3 only for what the machine did to the other
    assert f"7_async_interpreters: not run: it {NEEDS}" in " ".join(ended.stdout.split())
    result = load(tmp_path / "r.json")
    assert [one.server for one in result.left_out] == ["7_async_interpreters"]
    assert {record.server for record in result.records} == {"bare", "2_async"}
    for dress in ("markdown", "html"):
        assert f"not run: it {NEEDS}" in dressed(result, dress)
