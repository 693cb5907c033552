"""Reports note an enabled GIL in a free-threaded Python. test_faulty_servers.py tests that GIL states are recorded."""

import pytest
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.report import view_of


@pytest.mark.parametrize(
    ("python", "gil", "module"),
    [
        ("3.14.7t", True, "greenlet._greenlet"),
        ("3.14.7t", True, ""),
        ("3.14.7t", False, ""),
        ("3.14.7", True, ""),
        ("3.11.7", None, ""),
    ],
)
def test_an_enabled_gil_is_noted_only_for_a_free_threaded_python(
    python: str, gil: bool | None, module: str, golden
) -> None:
    record = record_of("6_x", 1, python=python, gil=gil, gil_enabled_by=module)
    result = result_of([bare_record(1, python=python), record])
    assert summarize(result).cases[0].gil is gil
    golden(*(note.text for note in view_of(result).notes))
