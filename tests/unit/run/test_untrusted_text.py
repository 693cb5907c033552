"""Untrusted text from servers, tasks and files is shown without control characters or invisible characters."""

import json
import unicodedata
from pathlib import Path

import pytest
from formatted import formatted
from simulated_record import bare_record, record_of, result_of
from simulated_trace import pings_of

from under_siege.compare.diff import compare_results
from under_siege.compare.view import view
from under_siege.formatting import legible
from under_siege.record.record import Failure, Trace, TracedRequests
from under_siege.record.result import load, made_legible, save
from under_siege.report import view_of
from under_siege.show.formats import rendered
from under_siege.show.view import Cell, Column, Row, Table, View
from under_siege.suite.server_files import read_strategy

NASTY = "a\x1b[31mb\x07c\x00d\u202ee\u2066f\u200eg\u200bh\ufeffi\x9bj\u2028k\r\nl\tm\x7fn\u00ado\u3164p\U000e0041q"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def hidden(text: str) -> set[str]:
    """Return the invisible characters of a text, except line ends."""
    return {one for one in text if unicodedata.category(one) in HIDDEN and one != "\n"} | set("\u3164") & set(text)


@pytest.fixture
def hostile_result(tmp_path: Path) -> Path:
    """Return the file of a result whose texts all contain invisible characters."""
    failed = record_of(f"2_{NASTY}", task=NASTY, title=NASTY, server_said=NASTY, python=NASTY)
    failed.failure = Failure("died", NASTY)
    record = record_of(f"1_{NASTY}", task=NASTY, title=NASTY, server_said=NASTY, python=NASTY)
    record.requests.problem[0] = NASTY
    result = result_of([bare_record(task=NASTY, python=NASTY), record, failed], cpu_model=NASTY, pythons={NASTY: NASTY})
    result.command.append(NASTY)
    columns = TracedRequests([0.1], [0.2], [NASTY], [[(0.1, 0.2, 0.1)]])
    pings = pings_of([0.0], [0.1])
    pings.problem[0] = NASTY
    result.traces.append(
        Trace(server=NASTY, title=NASTY, values={"task": NASTY, "python": NASTY}, requests=columns, pings=pings)
    )
    save(result, tmp_path / "hostile_result.json")
    return tmp_path / "hostile_result.json"


@pytest.mark.parametrize("format_", ["table", "timeline", "markdown", "csv", "json"])
def test_reports_contain_no_invisible_characters(format_: str, hostile_result: Path) -> None:
    shown = formatted(load(hostile_result), format_)
    assert "\ufffd" in shown
    assert hidden(shown) == set()


def test_pages_contain_no_invisible_characters(hostile_result: Path, undrawn: None) -> None:
    result = load(hostile_result)
    assert hidden(formatted(result, "html")) <= {"\xad"}  # the page's own soft hyphen in a heading
    charts = [figure.chart() for figure in view_of(result).figures]
    assert len(charts) >= 4
    assert hidden(json.dumps(charts, ensure_ascii=False)) == set()


@pytest.mark.parametrize("format_", ["markdown", "json"])
def test_comparisons_contain_no_invisible_characters(format_: str, hostile_result: Path) -> None:
    shown = rendered(view(compare_results(load(hostile_result), load(hostile_result))), format_)
    assert hidden(shown) == set()


def test_replacing_invisible_characters_keeps_numbers_line_ends_and_printable_text(hostile_result: Path) -> None:
    raw = json.loads(hostile_result.read_text())["records"][1]
    record = load(hostile_result).records[1]
    assert record.requests.ended_s == raw["requests"]["ended_s"]
    assert record.server_said.count("\n") == 1
    assert record.title.count("\n") == 0
    assert legible("naïve café 日本語 🙂") == "naïve café 日本語 🙂"
    assert legible("\u26a0\ufe0f 404 a\ufe0f") == "\u26a0 404 a\ufffd"  # the style of an emoji changes no text
    assert made_legible({"a\x1b": ["\u202e", 1, ("x",)]}) == {"a\ufffd": ["\ufffd", 1, ("x",)]}


def test_a_lone_surrogate_in_a_name_is_replaced_before_the_result_is_saved(tmp_path: Path) -> None:
    result = made_legible(result_of([record_of("1_\udcff")]))
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json").records[0].server == "1_\ufffd"


def test_names_and_titles_of_servers_contain_no_invisible_characters(tmp_path: Path) -> None:
    path = tmp_path / "1_\u202ename\x1b.py"
    path.write_text('"""A \\x1b[2Jtitle\\u202e."""\nPORT = "--port"\n')
    strategy = read_strategy(path)
    assert hidden(strategy.name + strategy.title) == set()
    assert strategy.path == path.resolve()


@pytest.mark.parametrize("words", [["report", "\x1b[31m\u202e.json"], ["run", "\x1b\u202e"]])
def test_errors_contain_no_invisible_characters(words: list[str], run_cli) -> None:
    ran = run_cli(*words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert hidden(ran.stderr) == set()


def test_brackets_in_headings_are_not_read_as_markup() -> None:
    columns = [Column("[red]server", is_text=True), Column("[/bold]")]
    shown = View("", tables=[Table("t", "", columns, [Row([Cell("one"), Cell("1")])])])
    assert "[red]server  [/bold]" in rendered(shown, "table")
