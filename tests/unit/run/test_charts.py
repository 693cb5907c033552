"""Charts: their specifications, and what a reader sees on pages, in files and on slides."""

import functools
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from command import invoke
from conftest import ROOT, thorough
from golden_file import texts_of
from rows import places
from sample_results import result

from under_siege.judge.ranking import Comparison, summarize, task_cpu_s
from under_siege.judge.summary import Summary
from under_siege.record.result import load
from under_siege.report import view_of
from under_siege.run import chart_headlines
from under_siege.run.chart_selection import figures
from under_siege.show.charts import COLOURS, PAGE, PHONE, SLIDES, config, for_page
from under_siege.show.view import Figure

SAMPLE = str(ROOT / "results" / "sample.json.gz")


@functools.cache
def pictures(name: str) -> list[Figure]:
    if name in ("capacity", "drill", "profile"):
        return list(view_of(load(ROOT / "results" / f"{name}.json.gz")).figures)
    return list(figures(summarize(result(name))))


def picture(name: str, of: str = "sample") -> Figure:
    return next(one for one in pictures(of) if one.name == name)


def shortened(part: Any) -> Any:
    """Return the part of a specification with only the first rows of its data, because checking all takes long."""
    if isinstance(part, dict):
        return {name: one[:3] if name == "values" else shortened(one) for name, one in part.items()}
    return [shortened(one) for one in part] if isinstance(part, list) else part


@pytest.mark.parametrize("name", thorough(["sample", "several", "capacity", "drill", "profile"], quick=["sample"]))
def test_every_kind_of_chart_is_a_vega_lite_specification(name: str) -> None:
    # These imports are slow, and every test process imports this file.
    from altair import load_schema
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    schema = load_schema()
    validator = validator_for(schema)(schema)
    kinds = {one.name.partition("-")[0]: one for one in pictures(name)}
    charts = {one.name: shortened(one.chart()) for one in kinds.values()}
    charts |= {f"{one.name} on a slide": shortened(one.on_slide()) for one in kinds.values() if one.on_slide}
    charts["configuration"] = {**charts[min(charts)], "config": config(PHONE)}
    assert {name: best_match(validator.iter_errors(chart)) for name, chart in charts.items()} == dict.fromkeys(charts)


@pytest.mark.parametrize("name", ["timeline", "throughput", "pings", "tradeoff", "moments", "memory", "cpu"])
def test_each_chart_shows_every_case(name: str) -> None:
    drawn = json.dumps(picture(name).chart(), ensure_ascii=False)
    assert picture(name).alternative
    for case in summarize(result("sample")).cases:
        assert f"({case.server.split('_')[0]})" in drawn or case.server in drawn


@pytest.mark.parametrize("name", ["timeline", "cpu"])
def test_each_chart_name_selects_its_chart(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test only which chart is selected, because the tests of slides draw charts."""
    written: list[str] = []
    monkeypatch.setattr(Figure, "alone", lambda figure, _: written.append(figure.name) or "<svg/>")
    ended = invoke("report", SAMPLE, "--picture", name, "--out", str(tmp_path / "picture.svg"))
    assert ended.returncode == 0, ended.stderr
    assert written == [name]


def test_a_chart_without_data_causes_a_one_line_error() -> None:
    ended = invoke("report", SAMPLE, "--picture", "heatmap")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "heatmap" in ended.stderr


def test_only_charts_on_pages_use_colours_of_the_style_sheet() -> None:
    style = (ROOT / "under_siege" / "show" / "style.css").read_text()
    used = set(re.findall(r"var\(--([\w-]+)\)", for_page(picture("throughput").chart(), PAGE)))
    assert used
    for name in COLOURS:
        assert f"--{name}:" in style
    assert used <= COLOURS.keys()
    assert "var(" not in (ROOT / "docs" / "slides" / "throughput.svg").read_text()


def rows(name: str) -> list[dict[str, Any]]:
    return picture(name).chart()["data"]["values"]


def test_every_bar_and_ceiling_lies_within_its_confidence_interval() -> None:
    comparison = summarize(result("sample"))
    for case, row in zip(comparison.cases, rows("throughput"), strict=True):
        assert (row["low"], row["high"]) == (case.rate_per_s.low, case.rate_per_s.high)
        assert row["low"] < row["value"] < row["high"], "a bar and its interval are adjusted to the same CPU speed"
        assert row["ceiling_low"] < row["ceiling_value"] < row["ceiling_high"]


def test_all_servers_of_rank_1_are_highlighted_in_the_throughput_chart() -> None:
    first = {case.server for case in summarize(result("sample")).cases if case.rank == 1}
    drawn = rows("throughput")
    assert 0 < sum(row["is_strong"] for row in drawn) == len(first) < len(drawn)
    assert [row["row"].startswith("★ ") for row in drawn] == [row["is_strong"] for row in drawn]


def test_each_response_curve_counts_the_responses_of_the_first_round() -> None:
    comparison = summarize(result("sample"))
    drawn = [row for row in rows("moments") if "responses" in row]
    names = list(dict.fromkeys(row["row"] for row in drawn))
    for name, case in zip(names, comparison.rounds, strict=True):
        counts = [row["responses"] for row in drawn if row["row"] == name]
        record = case[0].record
        assert counts == sorted(counts)
        assert counts[-1] == sum(record.requests.ended_s[place] <= record.load_s for place in places(record.requests))


def test_the_cpu_chart_shows_the_cpu_overhead_with_a_confidence_interval() -> None:
    comparison = summarize(result("sample"))
    task = task_cpu_s(comparison, comparison.cases[0].case.work)
    drawn = rows("cpu")
    for case, row in zip(comparison.cases, drawn, strict=True):
        spent_ms = max(0.0, 1000 * (comparison_cpu_s(comparison, case) - task.mean))  # negative values are noise
        assert row["value"] == pytest.approx(spent_ms, abs=0.01)
        assert row["low"] <= spent_ms < row["high"]
        assert row["is_strong"] is (row["low"] > 0)
    assert {row["is_strong"] for row in drawn} == {True, False}


def comparison_cpu_s(comparison: Comparison, case: Summary) -> float:
    return comparison.measured["cpu_s_per_transaction"][comparison.cases.index(case)].mean


def test_every_point_of_a_scatter_plot_has_a_label_and_an_entry_in_the_legend() -> None:
    for name in ("memory", "tradeoff"):
        chart = picture(name).chart()
        labels = chart["layer"][-1]["data"]["values"]
        numbers = [number for row in labels for number in row["text"].split(", ")]
        assert sorted(numbers) == sorted(row["number"] for row in rows(name))
        assert chart["layer"][-2]["encoding"]["color"]["scale"]["domain"] == [row["name"] for row in rows(name)]


@pytest.mark.parametrize(
    ("name", "aspect"),
    [
        *((name, "16:9") for name in ("timeline", "throughput", "pings", "tradeoff", "memory")),
        ("throughput", "4:3"),
    ],
)
def test_a_slide_has_the_requested_aspect_ratio_and_readable_text(name: str, aspect: str) -> None:
    committed = ROOT / "docs" / "slides" / f"{name}.svg"  # another test compares it with a new drawing
    drawn = committed.read_text() if aspect == "16:9" else picture(name).alone(aspect)
    width, height = map(float, re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn).groups())
    assert width / height == pytest.approx(SLIDES[aspect].width / SLIDES[aspect].height, rel=0.02)
    assert all(float(size) >= height / 53 for size in re.findall(r'font-size="([\d.]+)px"', drawn))
    assert ">primes · " in drawn


def test_a_slide_shows_plain_server_names_and_a_title_computed_from_the_result() -> None:
    texts = texts_of(ROOT / "docs" / "slides" / "throughput.svg")
    assert not any("4_async_processexecutor" in text for text in texts)
    assert any("process pool" in text for text in texts)
    headline = chart_headlines.of_throughput(summarize(result("sample")).cases).partition("\n")[0]
    assert re.sub(r"\s+", " ", " ".join(texts)).count(headline) == 1


def test_invalid_aspect_ratios_are_rejected() -> None:
    for words in (["--picture", "memory", "--aspect", "2:1"], ["--aspect", "16:9"]):
        ended = invoke("report", SAMPLE, *words)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert "expected" in ended.stderr


@pytest.mark.slow
def test_the_committed_slides_are_up_to_date(renew: bool, tmp_path: Path, monkeypatch) -> None:
    committed = ROOT / "docs" / "slides"
    out = committed if renew else tmp_path
    monkeypatch.setattr(sys, "argv", ["slides", "--out", str(out)])
    runpy.run_path(str(ROOT / "scripts" / "slides.py"), run_name="__main__")
    names = sorted(path.name for path in committed.iterdir())
    assert names == sorted(path.name for path in out.iterdir())
    for name in names:
        assert texts_of(committed / name) == texts_of(out / name)


def test_without_the_package_that_draws_charts_pages_lack_them_and_the_rest_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # its import fails
    page = invoke("report", SAMPLE, "--html", "page.html", folder=tmp_path)
    assert (page.returncode, page.stdout, page.stderr.count("\n")) == (0, "", 1)
    assert "-m pip install vl-convert-python" in page.stderr
    text = (tmp_path / "page.html").read_text()
    assert "<svg" not in text
    assert "Charts are left out" in text
    assert (shown := invoke("report", SAMPLE)).returncode == 0
    assert shown.stderr == ""
    chart = invoke("report", SAMPLE, "--picture", "pings", "--out", "pings.svg", folder=tmp_path)
    assert (chart.returncode, chart.stderr.count("\n")) == (2, 1)
    assert "-m pip install vl-convert-python" in chart.stderr
