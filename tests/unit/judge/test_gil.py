"""Reports note an enabled GIL in a free-threaded Python. test_faulty_servers.py tests that GIL states are recorded."""

import re

import pytest
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.report import formatted

NOTE = "enabled the GIL, although Python 3.14.7t is free-threaded"


@pytest.mark.parametrize(
    ("python", "gil", "noted"),
    [("3.14.7t", True, True), ("3.14.7t", False, False), ("3.14.7", True, False), ("3.11.7", None, False)],
)
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("format_", ["table", "markdown", "html"])
def test_an_enabled_gil_is_noted_only_for_a_free_threaded_python(
    python: str, gil: bool | None, noted: bool, format_: str
) -> None:
    result = result_of([bare_record(1, python=python), record_of("6_x", 1, python=python, gil=gil)])
    words = re.sub(r"<[^>]+>", "", formatted(result, format_))  # pages wrap explained terms in tags
    assert (NOTE in " ".join(words.split())) is noted
    assert summarize(result).cases[0].gil is gil


@pytest.mark.usefixtures("undrawn")
def test_the_note_names_the_module_that_enabled_the_gil() -> None:
    record = record_of("6_x", 1, python="3.14.7t", gil=True, gil_enabled_by="greenlet._greenlet")
    words = " ".join(formatted(result_of([bare_record(1, python="3.14.7t"), record]), "table").split())
    assert f"the extension module greenlet._greenlet {NOTE}" in words
