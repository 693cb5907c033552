"""Output formats of a comparison: table, Markdown and JSON."""

import json
import re
from pathlib import Path

import pytest
from command import invoke
from rows import set_waits, without
from simulated_results import SERVERS, a_result, as_text, judgements, suspicious

from under_siege.compare.diff import FIGURES, compare_results
from under_siege.compare.view import percent, table_of, view
from under_siege.judge.ranking import summarize
from under_siege.record.requests import PING
from under_siege.record.result import save
from under_siege.show.formats import rendered


def test_the_percentage_in_each_cell_is_the_change_between_its_two_figures() -> None:
    """Give each round other pings, so that means over rounds differ from percentiles over all pings."""
    base, new = a_result(*SERVERS, seed=1, noise=0.05), a_result(*SERVERS, seed=2, noise=0.05)
    for result, factors in ((base, (40, 60, 90)), (new, (100, 20, 80))):
        for record in result.records:
            factor = factors[record.round - 1]
            set_waits(record.requests, lambda wait_s, factor=factor: factor * wait_s)
    shown = table_of(compare_results(base, new))
    cells = [cell.text for row in shown.rows[:-1] for cell in row.cells[1:]]
    assert len(cells) == 8
    for cell in cells:
        before, now, change = (float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", cell)[:3])
        assert now / before - 1 == pytest.approx(change / 100, abs=0.03), cell


def test_a_missing_figure_leaves_an_empty_cell() -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2)
    for record in (*base.records, *new.records):
        if record.server == "1_a":
            without(record, PING)
    found = compare_results(base, new)
    first, second = rendered(view(found), "markdown").splitlines()[4:6]
    assert first.split("|")[1].strip() == "1_a"
    assert first.split("|")[3].strip() == ""
    assert "MB" in first.split("|")[4]
    assert [len(line.split("|")) for line in (first, second)] == [7, 7]
    assert judgements(found)["1_a"]["ping_p99_s"] is None
    assert found.exit_code == 0
    back = compare_results(base, a_result(*SERVERS, seed=2))
    assert judgements(back)["1_a"]["ping_p99_s"] == "undecided"
    assert back.exit_code == 3


def test_json_output_contains_all_figures() -> None:
    base = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("4_d", 1, 1.0), seed=1)
    new = suspicious(a_result(("1_a", 1, 0.5), ("2_b", 1, 1.0), seed=2), "2_b")
    told = json.loads(rendered(view(compare_results(base, new)), "json"))
    assert set(told) == {
        "schema",
        "base",
        "new",
        "judgement",
        "exit_code",
        "has_common_speed",
        "tolerance",
        "cases",
        "requirements",
    }
    assert set(told["base"]) == {"schema", "command", "began_at", "environment"}
    assert (told["judgement"], told["exit_code"]) == ("gone", 1)
    one, suspect, gone = told["cases"]
    assert {name: one[name] for name in ("server", "task", "users", "python", "parameters", "judgement")} == {
        "server": "1_a",
        "task": "primes",
        "users": 5,
        "python": "3.11.7",
        "parameters": {},
        "judgement": "worse",
    }
    assert set(one["figures"]) == set(FIGURES)
    rate = one["figures"]["rate_per_s"]
    assert set(rate) == {"base", "new", "change", "low", "high", "p", "smallest_visible", "judgement"}
    assert rate["low"] < rate["change"] < rate["high"] < 0
    assert rate["change"] == pytest.approx(-0.5, abs=0.03)
    assert rate["new"] == pytest.approx(summarize(new).cases[0].rate_per_s.mean, rel=0.001)
    assert rate["change"] == pytest.approx(rate["new"] / rate["base"] - 1)
    assert rate["p"] < 0.05
    assert (one["before"]["verdict"], suspect["now"]["verdict"]) == ("ok", "suspect")
    assert suspect["now"]["reasons"][0]["code"]
    assert suspect["figures"]["rate_per_s"]["judgement"] is suspect["figures"]["rate_per_s"]["p"] is None
    assert suspect["figures"]["rate_per_s"]["change"] is not None
    assert (gone["judgement"], gone["now"], gone["figures"]["rate_per_s"]["new"]) == ("gone", None, None)


def test_markdown_and_table_have_the_same_figures() -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(("1_a", 1, 0.5), ("3_c", 2, 1.0), seed=2)
    found = compare_results(base, new)
    markdown, shown = rendered(view(found), "markdown"), as_text(found)
    for name, *cells in [row.cells for row in table_of(found).rows]:
        row = next(row for row in markdown.splitlines() if row.startswith("|") and name.text in row.split("|")[1])
        assert all(cell.text in row and cell.text in shown for cell in cells)
    assert markdown.count("worse**") == 1


def test_percentages_are_formatted_with_a_plus_or_minus_sign() -> None:
    assert [percent(value) for value in (-0.5, -0.001, 0.034, 9.5)] == ["-50 %", "+0 %", "+3 %", "+950 %"]


def test_the_exit_code_of_compare_reports_worse_undecided_and_incomparable_results(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    save(a_result(*SERVERS, seed=1), Path("base.json"))
    save(a_result(("1_a", 1, 0.5), ("3_c", 2, 1.0), seed=2), Path("worse.json"))
    save(suspicious(a_result(*SERVERS, seed=2), "1_a"), Path("suspect.json"))
    save(a_result(*SERVERS, seed=2, memory_bytes=10**9), Path("other.json"))
    assert invoke("compare", "base.json", "base.json").returncode == 0
    worse = invoke("compare", "base.json", "worse.json", "--format", "json")
    assert (worse.returncode, json.loads(worse.stdout)["exit_code"]) == (1, 1)
    assert invoke("compare", "base.json", "suspect.json").returncode == 3
    refused = invoke("compare", "base.json", "other.json", "--format", "markdown")
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    told = invoke("compare", "base.json", "other.json", "--format", "markdown", "--force")
    assert told.stdout.startswith("**Warning: the results were measured with different amounts of memory")
