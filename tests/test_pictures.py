"""Single pictures: each can be drawn, as SVG and as PNG, and is what its schema allows."""

import functools
import itertools
from pathlib import Path

import pytest
from command import called
from conftest import ROOT
from test_page import result

from common.report.charts.look import FILE, NARROW, WIDE, Look, specification
from common.report.judging.comparison import summarize
from common.report.page.sections import Picture, sections

SAMPLE = str(ROOT / "results" / "sample.json")


@functools.cache
def pictures(name: str) -> list[Picture]:
    return [picture for section in sections(result(name), summarize(result(name))) for picture in section.pictures]


@pytest.mark.parametrize(  # a wide page differs from a file in its colours only
    ("name", "look"),
    [("sample", WIDE), *itertools.product(("sample", "published", "several", "hostile"), (FILE, NARROW))],
    ids=lambda value: value if isinstance(value, str) else str(value.width),
)
def test_every_picture_keeps_the_schema(name: str, look: Look) -> None:
    drawn = pictures(name)
    assert drawn
    for picture in drawn:
        specification(picture.draw(look), look, validate=True)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("pings", ".png"), *((name, ".svg") for name in ("timeline", "throughput", "pings", "moments", "memory", "cpu"))],
)
def test_it_can_be_drawn_alone(name: str, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"picture{suffix}"
    ended = called("report", SAMPLE, "--picture", name, "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    assert out.read_bytes().startswith({".svg": b"<svg", ".png": b"\x89PNG"}[suffix])


def test_a_picture_that_the_result_has_nothing_for_says_so() -> None:
    ended = called("report", SAMPLE, "--picture", "heatmap")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "nothing in this result to draw heatmap from" in ended.stderr


def test_only_the_page_leaves_its_colours_to_the_style_sheet() -> None:
    style = (ROOT / "common" / "report" / "page" / "style.css").read_text()
    for value in (WIDE.ink, WIDE.work, WIDE.ping, *WIDE.lines):
        assert f"{value.removeprefix('var(').removesuffix(')')}:" in style
    assert "var(" not in str(FILE)
