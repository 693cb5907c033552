"""Texts that lie within a sheet for certain: they are left out while it is drawn, and set into the drawing afterwards.

What draws has each text measured, and to that end opens the file of the font for every letter, which took half of the
time of a page. But how wide a text is matters only to how large the drawing becomes, and so only where it sticks out.
"""

import re
from collections.abc import Sequence
from typing import Any

from common.report.charts.encoding import Words

# Of a letter at the most, as a part of its height: of all in `FONT`, DejaVu Sans has the widest.
_WIDTHS = {
    **dict.fromkeys("ijl'", 0.3),
    **dict.fromkeys(" .,·IJ", 0.33),
    **dict.fromkeys("f:;/\\|-", 0.37),
    **dict.fromkeys("rt()[]!", 0.42),
    **dict.fromkeys('csz_*?`"', 0.56),
    **dict.fromkeys("abdeghknopquvxyEFLPSTY$0123456789{}", 0.65),
    **dict.fromkeys("ABCDGHKNOQRUVXZ&", 0.8),
    **dict.fromkeys("w#+<=>^~±≤≥→←", 0.85),
    **dict.fromkeys("mMW@%…—★", 1.02),
}
_BOLD = 1.2  # times as wide
_GROUP = re.compile(r'<g class="mark-text role-mark (\w+)_marks"[^>]*(?<!/)>.*?</g>', re.DOTALL)
_TEXT = re.compile(r"<text\b([^>]*?)(?:/>|>[^<]*</text>)")
Rows = dict[str, list[dict[str, Any]]]  # of each layer
Texts = dict[str, list[str]]  # of each layer, in their order


def without_texts(chart: Words, rows: Rows) -> tuple[Rows, Texts]:
    """The rows of a chart without those that certainly fit, and these; an empty one stands for what is left there."""
    apart: Texts = {}
    for layer in (one for one in chart.get("layer", ()) if one["mark"]["type"] == "text"):
        name = layer["name"]
        fits = [_fits(row, layer, chart) for row in rows[name]]
        apart[name] = [row["text"] if fit else "" for row, fit in zip(rows[name], fits, strict=True)]
        rows = {**rows, name: [{**row, "text": ""} if fit else row for row, fit in zip(rows[name], fits, strict=True)]}
    return rows, apart


def with_texts(svg: str, apart: Texts) -> str:
    """The drawing as SVG with those in their places."""
    return _GROUP.sub(lambda group: _filled(group, apart[group[1]]), svg)


def _filled(group: re.Match[str], texts: Sequence[str]) -> str:
    parts, last = [], 0
    for text, tag in zip(texts, _TEXT.finditer(group[0]), strict=True):
        if text:
            parts += [group[0][last : tag.start()], f"<text{tag[1]}>{_escaped(text)}</text>"]
            last = tag.end()
    return "".join([*parts, group[0][last:]])


def _escaped(text: str) -> str:
    """As it is between two tags of what was drawn with it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fits(row: Words, layer: Words, sheet: Words) -> bool:
    """Whether it is within the sheet however wide its letters may be."""
    style, x, text = layer["mark"], _x(row, layer["encoding"]["x"], sheet["width"]), row["text"]
    if x is None or "angle" in style or text != text.strip() or not _WIDTHS.keys() >= set(text):
        return False
    size, around = style.get("fontSize", 12), style.get("strokeWidth", 0)
    wide = size * sum(map(_WIDTHS.__getitem__, text)) * (_BOLD if style.get("fontWeight") == "bold" else 1) + around
    left, right = {"left": (around, wide), "right": (wide, around)}.get(style.get("align"), (wide / 2, wide / 2))
    x, y = x + style.get("dx", 0), row["y"] + style.get("dy", 0)
    high = size / 2 + around
    return bool(left <= x <= sheet["width"] - right and high <= y <= sheet["height"] - high)


def _x(row: Words, across: Words, width: float) -> float | None:
    """In pixels; None where it is in another unit."""
    if "value" in across:
        return float(across["value"])
    return row["x"] if across["scale"] == {"domain": [0, width], "nice": False} else None
