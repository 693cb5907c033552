"""Whether the GIL was on while a server served: asked after the siege, kept, and said where it matters."""

import subprocess
from collections.abc import Callable

import pytest
from conftest import TESTS
from simulated_record import bare_record, record_of, result_of

from common.model.record import load
from common.report.dressing import dressed
from common.report.judging.comparison import summarize

NOTE = "the GIL was on while it served, though Python 3.14.7t can do without"


def test_what_the_server_says_is_in_the_record(
    bench: Callable[..., subprocess.CompletedProcess[str]], tmp_path
) -> None:
    server = str(TESTS / "servers" / "says_it_has_no_gil.py")
    bench("run", server, "--rounds", "1", "--time", "1s", "--users", "2", "--out", "r.json")
    (record,) = [one for one in load(tmp_path / "r.json").records if one.server != "bare"]
    assert record.gil is False


@pytest.mark.parametrize(
    ("python", "gil", "noted"),
    [("3.14.7t", True, True), ("3.14.7t", False, False), ("3.14.7", True, False), ("3.11.7", None, False)],
)
@pytest.mark.parametrize("dress", ["table", "markdown", "html"])
def test_it_is_noted_where_the_python_could_do_without(python: str, gil: bool | None, noted: bool, dress: str) -> None:
    result = result_of([bare_record(1, python=python), record_of("6_x", 1, python=python, gil=gil)])
    assert (NOTE in " ".join(dressed(result, dress).split())) is noted
    assert summarize(result).cases[0].gil is gil
