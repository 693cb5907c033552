"""Charts: their specifications, their SVG and PNG files, and the placement of labels."""

import functools
import itertools
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT
from golden_file import what_is_drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_results import result

from under_siege.judge.ranking import Comparison, summarize, task_cpu_s
from under_siege.judge.summary import Summary
from under_siege.run import chart_headlines
from under_siege.run.figures import figures
from under_siege.run.scatter import Box, PlotArea, Point, placed
from under_siege.show import canvas
from under_siege.show.canvas import FILE, NARROW, WIDE, ChartFile, Theme, escaped, specification
from under_siege.show.view import Figure

SAMPLE = str(ROOT / "results" / "sample.json")
ROOM = PlotArea(50, 700, 300, 15, 6.5)  # the area in which labels are placed
UNDRAWN = '<svg width="9" height="9"></svg>'


@functools.cache
def pictures(name: str) -> list[Figure]:
    return list(figures(summarize(result(name))))


@functools.cache
def schema() -> dict[str, object]:
    """Return the Vega-Lite schema. Altair is imported in functions, because every test process imports this file."""
    from altair import load_schema

    return load_schema()


def complaint(chart: dict[str, object]) -> str:
    """Return the error in a chart specification, or an empty string if it matches the schema."""
    from altair.utils.schemapi import validate_jsonschema

    return str(validate_jsonschema(chart, schema(), raise_error=False) or "")


@pytest.mark.parametrize(
    ("name", "theme"),
    [("sample", FILE), ("published", FILE), ("several", NARROW), ("hostile", NARROW)],
    ids=lambda one: str(getattr(one, "width", one)),
)
def test_every_chart_specification_matches_the_schema(name: str, theme: Theme) -> None:
    """Check one chart of each kind. WIDE needs no test, because it has the width of FILE and the colours of NARROW."""
    drawn = {picture.name: picture for picture in pictures(name)}
    assert drawn
    for picture in drawn.values():
        chart = specification(picture.draw(theme), theme)
        del chart["datasets"]  # the schema allows any rows
        assert complaint(chart) == ""


def test_the_report_command_writes_a_chart_as_png(tmp_path: Path) -> None:
    """Test only PNG, because test_the_committed_slides_are_up_to_date draws SVG files."""
    out = tmp_path / "picture.png"
    ended = invoke("report", SAMPLE, "--picture", "pings", "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["timeline", "throughput", "pings", "tradeoff", "moments", "memory", "cpu"])
def test_each_chart_name_selects_its_chart(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test only which chart is selected, because the tests of slides draw charts."""
    drawn = []
    monkeypatch.setattr(canvas, "as_svg", lambda drawing, _: drawn.append(drawing) or UNDRAWN)
    ended = invoke("report", SAMPLE, "--picture", name, "--out", str(tmp_path / "picture.svg"))
    assert ended.returncode == 0, ended.stderr
    assert [one.rows for one in drawn] == [picture(name).draw(FILE).rows]


def test_a_chart_without_data_causes_a_one_line_error() -> None:
    ended = invoke("report", SAMPLE, "--picture", "heatmap")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "this result has no data for the picture heatmap" in ended.stderr


def test_only_charts_on_pages_use_colours_of_the_style_sheet() -> None:
    style = (ROOT / "under_siege" / "show" / "style.css").read_text()
    for value in (WIDE.ink, WIDE.work, WIDE.ping, *WIDE.lines):
        assert f"{value.removeprefix('var(').removesuffix(')')}:" in style
    assert "var(" not in str(FILE)


def picture(name: str, of: str = "sample") -> Figure:
    return next(one for one in pictures(of) if one.name == name)


def rows(name: str, layer: str, theme: Theme = FILE, of: str = "sample") -> list[dict]:
    """Return the rows from which a layer is drawn."""
    return picture(name, of).draw(theme).rows[layer]


def test_the_ceiling_line_and_the_end_of_every_bar_lie_within_their_confidence_intervals() -> None:
    comparison = summarize(result("sample"))
    ceiling = comparison.ceilings[0]
    band, line = rows("throughput", "ceiling_interval"), rows("throughput", "ceiling")
    assert [(row["x"], row["x2"]) for row in band] == [(ceiling.rate_per_s.low, ceiling.rate_per_s.high)]
    assert band[0]["x"] < line[0]["x"] < band[0]["x2"]
    for case, bar in zip(comparison.cases, rows("throughput", "bars"), strict=True):
        low, high = case.rate_per_s.low, case.rate_per_s.high
        assert low < bar["x2"] < high, "a bar and its interval are adjusted to the same CPU speed"


def test_all_servers_of_rank_1_are_highlighted_in_the_throughput_chart() -> None:
    first = {case.server for case in summarize(result("sample")).cases if case.rank == 1}
    for theme in (FILE, SLIDE.theme):
        bars = rows("throughput", "bars", theme)
        assert 0 < sum(bar["strong"] for bar in bars) == len(first) < len(bars)
        names = [row["text"] for row in rows("throughput", "names", theme)]
        assert sum(text.startswith("★ ") for text in names) == len(first)


def test_the_height_of_each_response_curve_is_proportional_to_the_number_of_responses() -> None:
    comparison = summarize(result("sample"))
    drawn = rows("moments", "answers")
    floors = [row["y"] for row in rows("moments", "grounds")[::2]]
    per_answer = None
    for number, case in enumerate(comparison.rounds):
        heights = [floors[number] - row["y"] for row in drawn if row["row"] == number]
        assert heights == sorted(heights)
        count = sum(at <= case[0].record.load_s for at in case[0].record.transactions.finished_s)
        per_answer = per_answer or heights[-1] / count
        assert heights[-1] == pytest.approx(count * per_answer, abs=1.0), "all rows have the same scale"
    counts, waits = rows("moments", "counts"), rows("moments", "waits")
    assert all("responses" in row["text"] for row in counts)
    assert all(row["text"].startswith("a ping of ") for row in waits)
    assert len(counts) == len(waits) == len(comparison.cases)


def test_the_cpu_chart_shows_the_cpu_overhead_with_a_confidence_interval() -> None:
    comparison = summarize(result("sample"))
    task = task_cpu_s(comparison, comparison.cases[0].case.work)
    bars, intervals = rows("cpu", "cpu"), rows("cpu", "margins")
    for case, bar, interval in zip(comparison.cases, bars, intervals, strict=True):
        spent_ms = max(0.0, 1000 * (comparison_cpu_s(comparison, case) - task.mean))  # negative values are noise
        assert (bar["x"], bar["x2"]) == (0, pytest.approx(spent_ms, abs=0.01))
        assert interval["x"] <= spent_ms < interval["x2"]
        assert bar["strong"] is (interval["x"] > 0)
    assert {bar["strong"] for bar in bars} == {True, False}


def comparison_cpu_s(comparison: Comparison, case: Summary) -> float:
    return comparison.measured["cpu_s_per_transaction"][comparison.cases.index(case)].mean


@pytest.mark.parametrize(("name", "of"), [("memory", "sample"), ("tradeoff", "sample"), ("tradeoff", "several")])
@pytest.mark.parametrize("theme", [FILE, NARROW])
def test_every_point_of_a_scatter_plot_has_a_label(name: str, of: str, theme: Theme) -> None:
    drawn = picture(name, of).draw(theme).rows
    names = [row["text"] for layer, found in drawn.items() if layer.startswith("names_") for row in found]
    assert len(names) == len(drawn["points"]) > 0
    assert "leaders" not in drawn


SLIDE = ChartFile("A title that takes a line or two, as titles do", "primes", "16:9")
PIXELS = {"16:9": (1280, 720), "4:3": (1024, 768), "1:1": (900, 900)}


@pytest.mark.parametrize(
    ("name", "aspect"),
    [
        *itertools.product(("timeline", "throughput", "pings", "tradeoff", "memory"), ("16:9",)),
        ("timeline", "1:1"),
        ("throughput", "4:3"),
    ],
)
def test_a_slide_has_the_requested_aspect_ratio_and_readable_text(name: str, aspect: str) -> None:
    committed = ROOT / "docs" / "slides" / f"{name}.svg"  # another test compares it with a new drawing
    drawn = committed.read_text() if aspect == "16:9" else picture(name).alone(aspect)
    width, height = (int(size) for size in re.search(r'width="(\d+)" height="(\d+)" viewBox', drawn).groups())
    assert (width, height) == pytest.approx(PIXELS[aspect], abs=1)
    for scale, size in sizes(drawn):
        assert scale * size >= height / 53
    assert ">primes · " in drawn


def sizes(drawn: str) -> Iterator[tuple[float, float]]:
    """Yield each font size of the inner drawing, with the scale of this drawing."""
    outer, inner = re.findall(r"<svg[^>]+>", drawn)
    boxes = [[float(x) for x in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', tag).groups()] for tag in (outer, inner)]
    widths = [float(re.search(r'\bwidth="([\d.]+)"', tag)[1]) for tag in (outer, inner)]
    whole, part = (width / box[0] for width, box in zip(widths, boxes, strict=True))
    for size in re.findall(r'font-size="([\d.]+)px"', drawn.split(inner)[1].split("</svg>")[0]):
        yield whole * part, float(size)


def test_a_slide_shows_plain_server_names_and_a_title_computed_from_the_result() -> None:
    drawn = (ROOT / "docs" / "slides" / "throughput.svg").read_text()
    assert "4_async_processexecutor" not in drawn
    assert "process pool" in drawn
    assert re.sub(r"\s+", " ", " ".join(re.findall(r'font-weight="bold" fill="#1b2733">([^<]+)<', drawn))).startswith(
        escaped(chart_headlines.of_throughput(summarize(result("sample")).cases).partition("\n")[0])
    )


def test_invalid_aspect_ratios_are_rejected() -> None:
    for words in (["--picture", "memory", "--aspect", "2:1"], ["--aspect", "16:9"]):
        ended = invoke("report", SAMPLE, *words)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert "expected" in ended.stderr


def test_the_committed_slides_are_up_to_date(renew: bool, tmp_path: Path, monkeypatch) -> None:
    committed = ROOT / "docs" / "slides"
    out = committed if renew else tmp_path
    monkeypatch.setattr(sys, "argv", ["slides", "--out", str(out)])
    runpy.run_path(str(ROOT / "scripts" / "slides.py"), run_name="__main__")
    names = sorted(path.name for path in committed.iterdir())
    assert names == sorted(path.name for path in out.iterdir())
    for name in names:
        assert what_is_drawn(committed / name) == what_is_drawn(out / name)


def test_a_label_is_to_the_right_of_its_point() -> None:
    (block,) = placed([Point(200, 100, "process pool")], ROOM)
    assert 0 < block.names.x - 200 < 20
    assert block.names.y < 100 < block.names.y2


def test_a_label_at_the_right_edge_is_left_of_its_point() -> None:
    (block,) = placed([Point(690, 100, "process pool")], ROOM)
    assert block.is_left
    assert block.names.x2 < 690


def test_labels_of_close_points_share_a_bracket_in_vertical_order() -> None:
    points = [Point(200, 110, "lower"), Point(205, 100, "upper"), Point(500, 100, "far away")]
    blocks = placed(points, ROOM)
    assert sorted([point.text for point in block.points] for block in blocks) == [["far away"], ["upper", "lower"]]


def test_labels_that_would_be_closer_to_another_point_share_a_bracket() -> None:
    points = [Point(191, 60, "process pool (4): 6.9 ms"), Point(235, 62, "process pool that can stop a task (9)")]
    assert [len(block.points) for block in placed(points, ROOM)] == [2]
    assert [len(block.points) for block in placed([points[0], replace(points[1], y=150)], ROOM)] == [1, 1]


def test_labels_of_distant_points_never_share_a_bracket() -> None:
    points = [Point(200 + 165.0 * number, 100, "a name as long as the way to the next one") for number in range(3)]
    assert len(placed(points, ROOM)) == 3


def test_a_single_label_does_not_touch_a_bracket_of_other_labels() -> None:
    names = ["thread pool", "one request at a time", "a plain def", "event loop itself"]
    close = [Point(600 + 5 * number, 200, name) for number, name in enumerate(names)]
    blocks = placed([*close, Point(430, 195, "event loop in slices")], ROOM)
    bracket, single = sorted(blocks, key=lambda block: -len(block.points))
    assert len(bracket.points) == 4
    assert not single.names.touches(bracket.names.wider(8, 5))


def test_each_label_is_nearer_to_its_own_point_than_to_other_points() -> None:
    first, second = placed([Point(300, 100, "loop in slices"), Point(360, 122, "greenlets")], ROOM)
    assert not first.names.touches(Box(353, 115, 367, 129).wider(5, 18))
    assert not second.names.touches(Box(293, 93, 307, 107).wider(5, 18))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(60, 690), st.floats(5, 295)), min_size=1, max_size=12))
def test_each_point_has_one_label_and_no_label_extends_above_the_chart(places: list[tuple[float, float]]) -> None:
    points = [Point(x, y, f"strategy {number}") for number, (x, y) in enumerate(places)]
    blocks = placed(points, ROOM)
    assert sorted(point.text for block in blocks for point in block.points) == sorted(point.text for point in points)
    for block in blocks:
        assert block.names.y >= 0
    for one, other in itertools.combinations(blocks, 2):
        assert not set(one.points) & set(other.points)
