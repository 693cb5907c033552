"""Task arguments are literals, which are checked, and shown unchanged in every output format."""

import html
import re
from pathlib import Path

import pytest
from conftest import SUPPORT
from simulated_record import bare_record, record_of, result_of
from simulated_trace import trace_of

from common.task import UnknownTaskError, perform, resolve
from under_siege.compare.diff import compare_results
from under_siege.compare.view import view
from under_siege.record.result import Result, load, save
from under_siege.report import formatted
from under_siege.show.formats import rendered
from under_siege.show.formats.markdown import plain

TASK_WITH_MARKUP = (
    """sample_tasks:returns_its_arguments('a,"b"|<i>*c*</i>', "it's `d` [red] é", {'e': [1, -2.5]}, last=None)"""
)


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("()", "((), {})"),
        ("('acme', 3)", "(('acme', 3), {})"),
        ("( 'acme' , 3 , )", "(('acme', 3), {})"),
        ("('(', \")\", ':')", "(('(', ')', ':'), {})"),
        (
            "(True, None, -1.5, 2+3j, b'x', ..., {1}, (2,))",
            "((True, None, -1.5, (2+3j), b'x', Ellipsis, {1}, (2,)), {})",
        ),
        ("(1, last={'a': [1, 2]})", "((1,), {'last': {'a': [1, 2]}})"),
    ],
)
def test_a_task_is_called_with_its_literal_arguments(call: str, answer: str) -> None:
    assert perform(f"sample_tasks:returns_its_arguments{call}").answer == answer


def test_each_run_of_a_task_gets_new_copies_of_the_arguments() -> None:
    runs = [perform("sample_tasks:returns_its_arguments([1])").answer for _ in range(3)]
    assert runs == ["(([1],), {})"] * 3


UNREADABLE = "has arguments that can't be read; expected literals"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            "sample_tasks:returns_its_arguments(open('/etc/passwd'))",
            UNREADABLE,
        ),
        ("sample_tasks:returns_its_arguments(x for x in [1])", UNREADABLE),
        ("sample_tasks:returns_its_arguments(f'{1}')", UNREADABLE),
        ("sample_tasks:returns_its_arguments(*[1])", UNREADABLE),
        ("sample_tasks:returns_its_arguments(**{'a': 1})", UNREADABLE),
        ("sample_tasks:returns_its_arguments({[]: 1})", UNREADABLE),
        ("sample_tasks:returns_its_arguments(a=1, a=2)", UNREADABLE),
        ("sample_tasks:returns_its_arguments('acme'", UNREADABLE),
        ("sample_tasks:returns_its_arguments('acme", UNREADABLE),
        ("sample_tasks:returns_its_arguments(1))", UNREADABLE),
        ("sample_tasks:returns_its_arguments(1)(2)", UNREADABLE),
        ("sample_tasks:returns_its_arguments(1).real", UNREADABLE),
        ("sample_tasks:returns_its_arguments(1) # ", UNREADABLE),
        ("sample_tasks:returns_its_arguments(1) + 2", UNREADABLE),
        ("sample_tasks:returns_its_arguments('one\ntwo')", "has invisible characters; use escapes"),
        (
            "sample_tasks:returns_its_arguments(" + "[" * 500 + "]" * 500 + ")",
            UNREADABLE,
        ),
        ("sample_tasks:returns_its_arguments(" + "9" * 5000 + ")", UNREADABLE),
        ("sample_tasks:needs_arguments", "can't be called without arguments: missing a required argument: 'one'"),
        ("sample_tasks:needs_arguments('acme')", "can't be called with ('acme'): missing a required argument: 'two'"),
        ("sample_tasks:needs_arguments(1, 2, 3)", "can't be called with (1, 2, 3): too many positional arguments"),
        ("sample_tasks:short(one=1)", "can't be called with (one=1): got an unexpected keyword argument 'one'"),
        ("primes(3)", "primes takes no arguments; use primes"),
    ],
)
def test_invalid_task_arguments_cause_a_one_line_error(spec: str, error: str) -> None:
    with pytest.raises(UnknownTaskError, match=re.escape(error)) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


def test_syntax_warnings_about_literal_task_arguments_are_suppressed(capfd) -> None:
    assert perform(r"sample_tasks:returns_its_arguments('\d')").answer == r"(('\\d',), {})"
    assert capfd.readouterr().err == ""


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
