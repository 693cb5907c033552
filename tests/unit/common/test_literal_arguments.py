"""Task arguments are literals, which are checked, and shown unchanged in every output format."""

import html
import re
from pathlib import Path

import pytest
from conftest import SUPPORT
from formatted import formatted
from simulated_record import bare_record, record_of, result_of
from simulated_trace import trace_of

from common.task import UnknownTaskError, perform, resolve
from under_siege.compare.diff import compare_results
from under_siege.compare.view import view
from under_siege.record.result import Result, load, save
from under_siege.show.formats import rendered
from under_siege.show.formats.markdown import plain

TASK = "sample_tasks:returns_its_arguments"
TASK_WITH_MARKUP = f"""{TASK}('a,"b"|<i>*c*</i>', "it's `d` [red] é", {{'e': [1, -2.5]}}, last=None)"""


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SUPPORT)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("()", "((), {})"),
        ("( 'acme' , 3 , )", "(('acme', 3), {})"),
        ("('(', \")\", ':')", "(('(', ')', ':'), {})"),
        ("(True, None, -1.5, 2+3j, b'x')", "((True, None, -1.5, (2+3j), b'x'), {})"),
        ("(..., {1}, (2,))", "((Ellipsis, {1}, (2,)), {})"),
        ("(1, last={'a': [1, 2]})", "((1,), {'last': {'a': [1, 2]}})"),
        (r"('\d')", r"(('\\d',), {})"),
    ],
)
def test_a_task_is_called_with_its_literal_arguments(call: str, answer: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert perform(f"{TASK}{call}").answer == answer
    assert capfd.readouterr().err == ""  # no syntax warning


def test_each_run_of_a_task_gets_new_copies_of_the_arguments() -> None:
    assert [perform(f"{TASK}([1])").answer for _ in range(3)] == ["(([1],), {})"] * 3


NO_LITERALS = ["open('/etc/passwd')", "x for x in [1]", "f'{1}'", "*[1]", "**{'a': 1}", "{[]: 1}", "a=1, a=2"]
UNREADABLE = ["('acme'", "('acme", "(1))", "(1)(2)", "(1).real", "(1) # ", "(1) + 2"]
TOO_LARGE = ["[" * 500 + "]" * 500, "9" * 5000]


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        *((f"{TASK}({words})", "expected literals") for words in (*NO_LITERALS, *TOO_LARGE)),
        *((f"{TASK}{call}", "expected literals") for call in UNREADABLE),
        (f"{TASK}('one\ntwo')", "invisible characters"),
        ("sample_tasks:needs_arguments", "missing a required argument: 'one'"),
        ("sample_tasks:needs_arguments('acme')", "missing a required argument: 'two'"),
        ("sample_tasks:needs_arguments(1, 2, 3)", "too many positional arguments"),
        ("sample_tasks:short(one=1)", "unexpected keyword argument 'one'"),
        ("primes(3)", "primes takes no arguments"),
    ],
)
def test_invalid_task_arguments_cause_a_one_line_error(spec: str, error: str) -> None:
    with pytest.raises(UnknownTaskError, match=re.escape(error)) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Return a result with two tasks; the arguments of one have the special characters of all output formats."""
    records = [
        one
        for task in (TASK_WITH_MARKUP, "primes")
        for one in (bare_record(task=task), record_of("1_sync", task=task), record_of("3_threads", task=task))
    ]
    made = result_of(records)
    made.traces += [trace_of(["1/MainThread"], task) for task in (TASK_WITH_MARKUP, "primes")]
    save(made, tmp_path / "r.json")
    return load(tmp_path / "r.json")


def test_the_result_file_contains_the_task_name_unchanged(result: Result) -> None:
    assert {one.case.task for one in [*result.records, *result.traces]} == {TASK_WITH_MARKUP, "primes"}


def test_the_task_name_is_escaped_in_markdown(result: Result) -> None:
    for shown in (formatted(result, "markdown"), rendered(view(compare_results(result, result)), "markdown")):
        assert plain(TASK_WITH_MARKUP) in shown
        assert "<i>" not in shown
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in shown.splitlines() if line.startswith("|")}
        assert len(cells) == 1  # all rows have the same number of cells


@pytest.mark.usefixtures("undrawn")
def test_the_task_name_is_escaped_on_the_page(result: Result) -> None:
    page = formatted(result, "html")
    assert "<i>" not in page
    assert TASK_WITH_MARKUP in html.unescape(page)
