"""Texts that are set into a drawing afterwards: it is, letter by letter, what it would be if all had been measured."""

import re

import pytest

from common.report.charts import look
from common.report.charts.lettering import _BOLD, _WIDTHS, without_texts
from common.report.charts.look import FILE, Drawing, as_svg
from common.report.charts.sheet import Sheet

WIDE, HIGH = 400, 300
TEXTS = [
    "at the edge",
    "<b>bold</b> & \"quoted\" 'text' → …",
    "  spaces around  ",
    "",
    "a\ttab and\na line",
    "ﬁ ligature, 火 and \u200b nothing",
    "M" * 40,
    "process pool (4)",
]


def sheet() -> Sheet:
    return Sheet(WIDE, HIGH, {"domain": [0, WIDE], "nice": False}, None)


def with_all_of_them() -> Drawing:
    """At both edges and between them, in all alignments; near the upper and the lower edge; and none."""
    drawn = sheet()
    layers = [drawn.text("none", [])]
    for align in ("left", "center", "right"):
        for at in (None, 0, WIDE, WIDE // 2):
            rows = [{"x": 5 + 70 * row, "y": 1 + 40 * row, "text": text} for row, text in enumerate(TEXTS)]
            style = {"fontSize": 9 + (at or 0) / 100, "fontWeight": "normal" if at else "bold", "dx": 3 if at else 0}
            layers.append(drawn.text(f"texts_{align}_{at}", rows, at, align=align, **style))
    layers.append(drawn.text("upright", [{"x": 10, "y": HIGH / 2, "text": "up" * 40}], angle=270))
    return drawn.drawn(*layers)


def test_a_drawing_is_what_it_would_be_with_all_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = with_all_of_them()
    rows, apart = without_texts(drawing.chart, drawing.rows)
    assert {text for texts in apart.values() for text in texts} == {TEXTS[1], TEXTS[-1], ""}
    assert all(row["text"] == drawing.rows["upright"][0]["text"] for row in rows["upright"])
    found = as_svg(drawing, FILE)
    monkeypatch.setattr(look, "without_texts", lambda _, rows: (rows, {}))
    monkeypatch.setattr(look, "with_texts", lambda svg, _: svg)
    assert found == as_svg(drawing, FILE)


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_no_letter_is_wider_than_it_is_held_to_be(weight: str) -> None:
    """Of ten of each, which end where the sheet ends; what sticks out would make that wider."""
    drawn, times = sheet(), 12 * 10 * (_BOLD if weight == "bold" else 1)
    rows = [{"x": WIDE - times * width, "y": HIGH / 2, "text": letter * 10} for letter, width in _WIDTHS.items()]
    text = drawn.text("letters", [row for row in rows if row["text"].strip()], align="left", fontWeight=weight)
    svg = look.vl_convert.vegalite_to_svg(look.specification(drawn.drawn(text), FILE), vl_version=look._VERSION)
    assert re.search(r'width="(\d+)"', svg)[1] == str(WIDE + 2 * 2)
