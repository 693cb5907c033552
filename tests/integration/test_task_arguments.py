"""Tasks with arguments: literals and nothing else, checked before anything starts, and told unchanged everywhere."""

import csv
import html
import io
import json
import re
from pathlib import Path

import pytest
from conftest import SUPPORT
from simulated_record import bare_record, record_of, result_of
from simulated_trace import trace_of

from common.task import BadCallError, perform, resolve
from under_siege.compare.diff import compared
from under_siege.compare.diff_export import dressed as compared_as
from under_siege.model.record import Result, load, save
from under_siege.render import dressed, write_picture
from under_siege.report.grid import plain

HARD = """sample_tasks:says_all('a,"b"|<i>*c*</i>', "it's `d` [red] é", {'e': [1, -2.5]}, last=None)"""
SAID = """(('a,"b"|<i>*c*</i>', "it's `d` [red] é", {'e': [1, -2.5]}), {'last': None})"""


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


@pytest.mark.parametrize(
    ("call", "said"),
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
def test_a_task_is_called_with_the_literals_behind_its_name(call: str, said: str) -> None:
    assert perform(f"sample_tasks:says_all{call}").answer == said


def test_what_a_run_does_to_its_arguments_does_not_reach_the_next() -> None:
    runs = [perform("sample_tasks:says_all([1])").answer for _ in range(3)]
    assert runs == ["(([1],), {})"] * 3


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("sample_tasks:says_all(open('/etc/passwd'))", "has an argument that is no literal: open('/etc/passwd')"),
        ("sample_tasks:says_all(x for x in [1])", "no literal: (x for x in [1])"),
        ("sample_tasks:says_all(f'{1}')", "no literal: f'{1}'"),
        ("sample_tasks:says_all(*[1])", "no literal: *[1]"),
        ("sample_tasks:says_all(**{'a': 1})", "no literal: **{'a': 1}"),
        ("sample_tasks:says_all({[]: 1})", "no literal: {[]: 1}"),
        ("sample_tasks:says_all(a=1, a=2)", "has the same argument twice"),
        ("sample_tasks:says_all('acme'", "can't be read: '(' was never closed"),
        ("sample_tasks:says_all('acme", "can't be read: "),
        ("sample_tasks:says_all(1))", "can't be read: unmatched ')'"),
        ("sample_tasks:says_all(1)(2)", "goes on behind its brackets"),
        ("sample_tasks:says_all(1).real", "goes on behind its brackets"),
        ("sample_tasks:says_all(1) # ", "goes on behind its brackets"),
        ("sample_tasks:says_all(1) + 2", "goes on behind its brackets"),
        ("sample_tasks:says_all('one\ntwo')", "has invisible characters; expected them as escapes"),
        ("sample_tasks:says_all(" + "[" * 500 + "]" * 500 + ")", "can't be read: too many nested parentheses"),
        ("sample_tasks:says_all(" + "9" * 5000 + ")", "can't be read: Exceeds the limit"),
        ("sample_tasks:needs_arguments", "can't be called without arguments: missing a required argument: 'one'"),
        ("sample_tasks:needs_arguments('acme')", "can't be called with ('acme'): missing a required argument: 'two'"),
        ("sample_tasks:needs_arguments(1, 2, 3)", "can't be called with (1, 2, 3): too many positional arguments"),
        ("sample_tasks:short(one=1)", "can't be called with (one=1): got an unexpected keyword argument 'one'"),
        ("primes(3)", "primes takes no arguments; expected primes"),
    ],
)
def test_what_can_not_be_called_like_that_is_refused_with_one_line(spec: str, complaint: str) -> None:
    with pytest.raises(BadCallError, match=re.escape(complaint)) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


def test_a_literal_that_python_warns_of_says_nothing_on_stderr(capfd) -> None:
    assert perform(r"sample_tasks:says_all('\d')").answer == r"(('\\d',), {})"
    assert capfd.readouterr().err == ""


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Of two tasks, one of them with everything in its name that some format has a meaning for."""
    records = [
        one
        for task in (HARD, "primes")
        for one in (bare_record(task=task), record_of("1_sync", task=task), record_of("3_threads", task=task))
    ]
    made = result_of(records)
    made.traces += [trace_of(["1/MainThread"], task) for task in (HARD, "primes")]
    save(made, tmp_path / "r.json")
    return load(tmp_path / "r.json")


def test_the_name_is_the_same_in_the_file(result: Result) -> None:
    assert {one.case.task for one in [*result.records, *result.traces]} == {HARD, "primes"}


def test_the_name_is_the_same_in_csv_and_json(result: Result) -> None:
    rows = list(csv.DictReader(io.StringIO(dressed(result, "csv"))))
    assert {row["task"] for row in rows} == {HARD, "primes"}
    assert {case["task"] for case in json.loads(dressed(result, "json"))["cases"]} == {HARD, "primes"}


def test_the_name_is_the_same_in_the_terminal(result: Result) -> None:
    for dress in ("table", "timeline"):
        assert "".join(HARD.split()) in "".join(dressed(result, dress).split()), dress


def test_underscores_are_escaped_where_markdown_sees_them() -> None:
    assert plain("a _b_ c_d __init__ 1_sync") == r"a \_b\_ c_d \_\_init\_\_ 1_sync"


def test_the_name_is_escaped_in_markdown(result: Result) -> None:
    for shown in (dressed(result, "markdown"), compared_as(compared(result, result), "markdown")):
        assert plain(HARD) in shown
        assert "<i>" not in shown
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in shown.splitlines() if line.startswith("|")}
        assert len(cells) == 1  # in every line of the table


@pytest.mark.usefixtures("undrawn")
def test_the_name_is_escaped_on_the_page(result: Result) -> None:
    page = dressed(result, "html")
    assert "<i>" not in page
    assert HARD in html.unescape(page)


def test_the_name_is_escaped_in_pictures(result: Result, tmp_path: Path) -> None:
    """In one; in all of a page: test_text_from_outside_is_shown_and_does_nothing."""
    write_picture(result, "timeline", tmp_path / "p.svg")
    drawn = (tmp_path / "p.svg").read_text()
    assert "<i>" not in drawn
    assert HARD in html.unescape(drawn)


@pytest.mark.parametrize(
    ("words", "call", "complaint"),
    [
        (["run", "1"], "(open)", "an argument that is no literal: open"),
        (["run", "1"], "(", "was never closed"),
        (["run", "1"], "(end=1)", "can't be called with"),
        (["trace", "1"], "(end=1)", "can't be called with"),
        (["try"], "(open)", "an argument that is no literal: open"),
        (["try"], "(", "was never closed"),
        (["try"], "(end=1)", "can't be called with"),
    ],
)
def test_every_command_refuses_it_with_one_line(asked, tmp_path, words, call, complaint) -> None:
    (tmp_path / "own.py").write_text("def half(number): return number / 2")
    task = ["--task"] if words[0] != "try" else []
    ended = asked(*words, *task, f"own:half{call}")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert complaint in ended.stderr


@pytest.mark.figures
@pytest.mark.usefixtures("undrawn")
def test_it_is_measured_traced_and_tried_with_its_arguments(asked, tmp_path: Path) -> None:
    """By a strategy in this process and in others, the bare load, and what looks how long the task takes alone."""
    own = "import time\n\n\ndef wait(*words, wait_s=0.02):\n    time.sleep(wait_s)\n    return repr(words)\n"
    (tmp_path / "own.py").write_text(own)
    task = HARD.replace("sample_tasks:says_all", "own:wait").replace("last=None", "wait_s=0.03")
    few = ["--rounds", "1", "--time", "1s", "--users", "2", "--trace", "--out", "r.json", "--html", "p.html"]
    ended = asked("run", "3", "4", "--task", task, *few)
    assert ended.returncode in (0, 3), ended.stderr
    measured = load(tmp_path / "r.json")
    assert {one.case.task for one in [*measured.records, *measured.traces]} == {task}
    assert [one.failure for one in [*measured.records, *measured.traces]] == [None] * 5
    assert measured.records[0].answer_bytes == len(SAID.replace(", {'last': None})", "")[1:].encode())
    assert task in html.unescape((tmp_path / "p.html").read_text())
