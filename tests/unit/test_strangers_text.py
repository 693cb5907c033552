"""What servers, tasks and files say is shown without anything that a terminal would obey or a reader not see."""

import json
import unicodedata
from pathlib import Path

import pytest
from conftest import TESTS, WAITING
from simulated_record import bare_record, record_of, result_of

from under_siege.compare.diff import compared
from under_siege.compare.diff_export import dressed as compared_as
from under_siege.model.record import Failure, Pings, Trace, TracedRequests, load, save
from under_siege.model.result_file import legible, made_legible
from under_siege.render import dressed
from under_siege.targets.strategies import read_strategy

NASTY = "a\x1b[31mb\x07c\x00d\u202ee\u2066f\u200eg\u200bh\ufeffi\x9bj\u2028k\r\nl\tm\x7fn\u00ado\u3164p\U000e0041q"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def hidden(text: str) -> set[str]:
    """What is in a text that nobody sees, beside the ends of its lines."""
    return {one for one in text if unicodedata.category(one) in HIDDEN and one != "\n"} | set("\u3164") & set(text)


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A result in whose every text something is hidden."""
    failed = record_of(f"2_{NASTY}", task=NASTY, title=NASTY, server_said=NASTY, python=NASTY)
    failed.failure = Failure("died", NASTY)
    record = record_of(f"1_{NASTY}", task=NASTY, title=NASTY, server_said=NASTY, python=NASTY)
    record.pings.problem[0] = NASTY
    result = result_of([bare_record(task=NASTY, python=NASTY), record, failed], cpu_model=NASTY, pythons={NASTY: NASTY})
    result.command.append(NASTY)
    columns = TracedRequests([0.1], [0.2], [NASTY], [[(0.1, 0.2, 0.1)]])
    pings = Pings([0.0], [0.0], [0.1], [NASTY])
    result.traces.append(
        Trace(server=NASTY, title=NASTY, values={"task": NASTY, "python": NASTY}, requests=columns, pings=pings)
    )
    save(result, tmp_path / "strange.json")
    return tmp_path / "strange.json"


@pytest.mark.parametrize("dress", ["table", "timeline", "markdown", "csv", "json"])
def test_nothing_is_hidden_in_what_is_shown(dress: str, strange: Path) -> None:
    shown = dressed(load(strange), dress)
    assert "\ufffd" in shown
    assert hidden(shown) == set()


def test_nothing_is_hidden_in_a_page_and_its_pictures_are_drawn(strange: Path) -> None:
    page = dressed(load(strange), "html")
    assert page.count("<svg") >= 4
    assert hidden(page) <= {"\xad"}  # ours, in a heading


@pytest.mark.parametrize("dress", ["markdown", "json"])
def test_nor_in_a_comparison(dress: str, strange: Path) -> None:
    shown = compared_as(compared(load(strange), load(strange)), dress)
    assert hidden(shown) == set()


def test_numbers_and_lines_stay_what_they_are(strange: Path) -> None:
    raw = json.loads(strange.read_text())["records"][1]
    record = load(strange).records[1]
    assert record.transactions.finished_s == raw["transactions"]["finished_s"]
    assert record.server_said.count("\n") == 1
    assert record.title.count("\n") == 0
    assert legible("naïve café 日本語 🙂") == "naïve café 日本語 🙂"
    assert made_legible({"a\x1b": ["\u202e", 1, ("x",)]}) == {"a\ufffd": ["\ufffd", 1, ("x",)]}


def test_a_surrogate_alone_can_be_saved_and_shown(tmp_path: Path) -> None:
    result = made_legible(result_of([record_of("1_\udcff")]))
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json").records[0].server == "1_\ufffd"


def test_the_title_and_the_name_of_a_server_file(tmp_path: Path) -> None:
    path = tmp_path / "1_\u202ename\x1b.py"
    path.write_text('"""A \\x1b[2Jtitle\\u202e."""\nPORT = "--port"\n')
    strategy = read_strategy(path)
    assert hidden(strategy.name + strategy.title) == set()
    assert strategy.path == path.resolve()


def test_a_run_of_a_server_that_hides_something(asked, tmp_path: Path) -> None:
    server = (TESTS / "servers" / "dies_at_once.py").read_text()
    path = tmp_path / "dies\u202e\x1b[31m.py"
    path.write_text(server.replace("no database", "\\x1b]0;no\\x07 \\u202edatabase"))
    ran = asked("run", f"./{path.name}", "--rounds", "1", "--time", "1s", "--users", "1", *WAITING, "--out", "r.json")
    assert "its last line" in ran.stdout
    assert hidden(ran.stdout + ran.stderr) == set()
    assert hidden(json.dumps(json.loads((tmp_path / "r.json").read_text()), ensure_ascii=False)) == set()


@pytest.mark.parametrize("words", [["report", "\x1b[31m\u202e.json"], ["run", "\x1b\u202e"]])
def test_errors_hide_nothing(words: list[str], asked) -> None:
    ran = asked(*words)
    assert ran.returncode == 2
    assert hidden(ran.stderr) == set()
    assert len(ran.stderr.splitlines()) == 1


def test_what_is_said_of_a_task_hides_nothing(asked) -> None:
    ran = asked("try", "\x1b\u202e:f")
    assert ran.returncode == 1
    assert hidden(ran.stdout + ran.stderr) == set()
