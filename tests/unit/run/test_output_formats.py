"""Output formats of a result: the same figures as a table, Markdown, CSV and JSON."""

import csv
import io
import json
import re
from statistics import fmean

import pytest
from command import invoke
from conftest import ROOT
from formatted import formatted
from golden_file import assert_golden
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.record.record import Failure
from under_siege.record.result import load, save
from under_siege.run.conclusion import answers
from under_siege.show.columns import columns_for
from under_siege.show.formats import rendered
from under_siege.show.notes import footnote
from under_siege.show.view import Paragraph, View

DRESSES = {"table": "published.txt", "markdown": "published.md", "csv": "published.csv", "json": "published.json"}


@pytest.mark.parametrize("dress", DRESSES)
def test_every_output_format_of_the_published_result_is_unchanged(dress: str, renew: bool) -> None:
    printed = invoke("report", str(ROOT / "results" / "published.json.gz"), "--format", dress)
    assert printed.stderr == ""
    assert_golden(DRESSES[dress], in_ten_digits(printed.stdout), renew)


def in_ten_digits(text: str) -> str:
    """Round numbers to 10 digits, because the last digits depend on the order in which a CPU adds."""
    return re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.10g}", text)


def hostile() -> str:
    return "=1+1|<script>alert(1)</script>*`_\n\"'&"


def hostile_result():
    records = [
        *(bare_record(number, task=hostile()) for number in (1, 2, 3)),
        *(record_of(hostile(), number, workers=2, task=hostile()) for number in (1, 2, 3)),
        *(record_of("2_honest", number, task=hostile()) for number in (1, 2, 3)),
        record_of("3_failed", 1, task=hostile(), failure=Failure("died", hostile())),
    ]
    return result_of(records)


def test_markdown_escapes_malicious_text() -> None:
    text = formatted(hostile_result(), "markdown")
    assert "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    shown = columns_for(summarize(hostile_result()).cases)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(shown) + 3}
    assert "\\`" in text
    assert "\\*" in text


def test_markdown_notifies_nobody_and_links_and_commands_nothing() -> None:
    said = "thanks @octocat, @_ann: see #12, org/shop#3, GH-4 and !5"
    failed = record_of("2_async", 1, failure=Failure("died", said))
    shown = rendered(View("t", [Paragraph("/close"), Paragraph(said)]), "markdown")
    for text in (formatted(result_of([failed]), "markdown"), shown):
        assert re.findall(r"@\S*|[#!]\d+|GH-\d+", text.replace("<!-- -->", " ")) == ["@", "@"]
        assert said.replace("_", "\\_") in text.replace("<!-- -->", "")
    assert not shown.startswith("/")


def test_csv_output_has_a_row_per_record_and_no_formulas() -> None:
    result = hostile_result()
    rows = list(csv.DictReader(io.StringIO(formatted(result, "csv"))))
    assert len(rows) == len(result.records)
    assert not [cell for row in rows for cell in row.values() if cell[:1] in "=+-@" and cell]
    assert [row["server"] for row in rows if "script" in row["server"]] == ["'" + hostile()] * 3


def test_csv_and_json_output_have_the_same_rates() -> None:
    result = load(ROOT / "results" / "sample.json.gz")
    rows = list(csv.DictReader(io.StringIO(formatted(result, "csv"))))
    for case in json.loads(formatted(result, "json"))["cases"]:
        mine = [row for row in rows if row["server"] == case["server"]]
        adjusted, measured = (fmean(float(row[key]) for row in mine) for key in ("rate_per_s", "measured_per_s"))
        assert measured == pytest.approx(case["measured_per_s"], rel=1e-5)
        assert adjusted == pytest.approx(case["rate_per_s"]["mean"], rel=0.01)  # weighted by noise


def test_markdown_output_fits_into_a_github_comment() -> None:
    assert len(formatted(load(ROOT / "results" / "sample.json.gz"), "markdown")) < 65_536


@pytest.mark.parametrize("dress", ["table", "markdown", "csv", "json", "html"])
def test_every_output_format_shows_an_empty_result(dress: str, tmp_path) -> None:
    save(result_of([]), tmp_path / "empty.json")
    ended = invoke("report", str(tmp_path / "empty.json"), "--format", dress)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.usefixtures("undrawn")
def test_the_table_markdown_and_html_recommend_the_same_server() -> None:
    result = load(ROOT / "results" / "published.json.gz")
    (answer,) = answers(summarize(result))
    for output_format in ("table", "markdown", "html"):
        assert answer.headline in re.sub(r"<[^>]*>|\\", "", formatted(result, output_format))


def test_two_line_headings_stay_aligned_next_to_a_long_server_name() -> None:
    broken = 0
    for length in range(10, 110, 4):
        text = formatted(result_of([record_of("x" * length, number) for number in (1, 2)]), "table")
        lines = text.splitlines()
        for place, line in enumerate(lines):
            if line.startswith("────") and "p99" in (names := lines[place - 1]):
                above = [lines[place - 2].find(name) for name in ("response", "ping")]
                assert min(at for at in above if at >= 0) <= min(names.find(name) % 999 for name in ("p50", "p99"))
                broken += "p50" not in names
    assert broken  # some headings were wrapped


def test_the_footnote_states_the_number_of_rounds_the_noise_of_one_round_and_the_order_of_rows(golden) -> None:
    """A matrix has no order of rows."""
    first, second = ([record_of(name, number) for number in (1, 2)] for name in ("1_a", "2_b"))
    matrix = [record_of(name, 1, users=users) for name in ("1_a", "2_b") for users in (1, 25)]
    results = ([*first, *second], [*first, second[0]], [first[0], second[0]], matrix)
    golden(*("\n".join(footnote(summarize(result_of(records)))) for records in results))


def test_the_footnote_states_the_cpus_of_servers_and_of_the_load() -> None:
    records = [bare_record(), record_of("1_a")]
    for load_cpus, said in ((1, "3 cores for servers, 1 for the load"), (0, "3 cores")):
        result = result_of(records, usable_cpus=3, load_cpus=load_cpus)
        assert said in footnote(summarize(result))[-1].split(" · ")


def test_the_footnote_states_which_drains_are_unknown() -> None:
    def is_said(*screening: bool) -> bool:
        records = [record_of("1_a", number, is_screening=short) for number, short in enumerate(screening, 1)]
        result = result_of([*(bare_record(number) for number in range(1, len(records) + 1)), *records])
        return "the drain of a case without a full siege is unknown" in " ".join(footnote(summarize(result)))

    assert [is_said(True), is_said(True, True), is_said(True, False), is_said(False)] == [True, True, False, False]
