"""Drawing basics: the theme, marks on a canvas, and their conversion to SVG."""

import re
from dataclasses import dataclass, field, fields, replace
from typing import Any

import vl_convert

_VERSION = "6.4"  # version of Vega-Lite
MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True, slots=True)
class Look:
    """Colours as CSS knows them. Work, wait, ping and limit differ in lightness, too (Okabe and Ito, 2008)."""

    width: int = 860
    ink: str = "#1b2733"
    quiet: str = "#5b6875"
    grid: str = "#dfe4e9"
    paper: str = "#ffffff"
    work: str = "#0072b2"
    wait: str = "#cbdcea"
    late: str = "#f2cf5b"
    mute: str = "#8db7d6"
    ping: str = "#d55e00"
    limit: str = "#1b2733"
    height: float | None = None  # of what there is room for on a slide; else as high as it takes
    lines: tuple[str, ...] = ("#0072b2", "#d55e00", "#00795a", "#a8437f", "#8a6d00", "#1b2733")

    @property
    def is_narrow(self) -> bool:
        return self.width < 500 and not self.is_slide

    @property
    def is_slide(self) -> bool:
        """Whether it is to be read from the last row: few words, large, the winner first."""
        return self.height is not None


FILE = Look()
# On a page the style sheet decides, so that one picture does for light and dark.
_NAMES = [one.name for one in fields(Look) if one.type is str]
WIDE = replace(
    FILE,
    **{name: f"var(--{name})" for name in _NAMES},  # type: ignore[arg-type]
    lines=tuple(f"var(--line-{number})" for number in range(len(FILE.lines))),
)
NARROW = replace(WIDE, width=350)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart as Vega-Lite has it, and apart from it the rows that its layers name."""

    chart: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]


def as_svg(drawing: Drawing, look: Look) -> str:
    """The drawing as SVG, with nothing in it that a reader would have to fetch or run."""
    svg: str = vl_convert.vegalite_to_svg(specification(drawing, look), vl_version=_VERSION)
    return re.sub("<[^>]+>", _in_tenths, svg)


def for_page(drawing: Drawing, look: Look, alternative: str) -> str:
    """The drawing as a part of an HTML page: as wide as there is room, and in words for those who can't see it."""
    svg = as_svg(drawing, look)
    inner = re.sub(r'^<svg\b(.*?) width="[\d.]+" height="[\d.]+"', r"<svg\1", svg, count=1)
    return inner.replace("<svg", f'<svg role="img" aria-label="{escaped(alternative)}"', 1)


def _in_tenths(tag: re.Match[str]) -> str:
    """Of a pixel: that is more than can be seen, and half of the size."""
    return re.sub(r"(\.\d)\d+", r"\1", tag[0])


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def specification(drawing: Drawing, look: Look) -> dict[str, Any]:
    """The whole chart as Vega-Lite; the tests check it against its schema."""
    text = {"labelColor": look.ink, "titleColor": look.quiet, "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": look.grid, "domainColor": look.grid, "tickColor": look.grid}
    config = {
        "background": "transparent",
        "font": FONT,
        "padding": 2,
        "aria": False,  # the picture as a whole is described; a thousand marks, each on its own, would bury that
        "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
        "axis": {**text, "titleFontWeight": "normal", **lines},
        "text": {"fill": look.ink, "fontSize": 12},
    }
    schema = f"https://vega.github.io/schema/vega-lite/v{_VERSION}.json"
    return {"$schema": schema, **drawing.chart, "config": config, "datasets": drawing.rows}


Words = dict[str, Any]  # of Vega-Lite: a mapping that becomes a part of the specification as it is


def quantity(field: str, **more: Any) -> Words:
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Words:
    return {"field": field, "type": "nominal", **more}


def either(test: str, value: Any, otherwise: Any) -> Words:
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def layer(data: str, mark: str, encoding: Words, **style: Any) -> Words:
    """Marks of a kind, one for each row of that data, or one through all of them."""
    return {"data": {"name": data}, "mark": {"type": mark, **style}, "encoding": encoding}


def legend(look: Look, orient: str, **more: Any) -> Words:
    columns = 1 if look.is_narrow else 3
    return {"title": None, "orient": orient, "columns": columns, "labelColor": look.ink, "labelFontSize": 12, **more}


Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Marks on a sheet that is measured in pixels down and in the unit of its data across."""

    width: float
    height: float
    across: Words  # the scale
    axis: Words | None
    rows: dict[str, Rows] = field(default_factory=dict)  # of each layer

    def of(self, name: str, rows: Rows, mark: str, encoding: Words, **style: Any) -> Words:
        """A layer; its marks stand in a group of the class `mark-… NAME_marks`."""
        self.rows[name] = rows
        return {"name": name, **layer(name, mark, encoding, **style)}

    @property
    def x(self) -> Words:
        """Across, from the field `x`."""
        return quantity("x", scale=self.across, axis=self.axis)

    @property
    def y(self) -> Words:
        """Down, from the field `y`."""
        return quantity("y", scale={"domain": [self.height, 0], "nice": False}, axis=None)

    def text(self, name: str, rows: Rows, at: float | None = None, **style: Any) -> Words:
        """Texts from the field `text`, at so many pixels from the left, or else where the field `x` says."""
        across = self.x if at is None else {"value": at}
        return self.of(name, rows, "text", {"x": across, "y": self.y, "text": kind("text")}, **style)

    def bars(self, name: str, rows: Rows, more: Words | None = None, **style: Any) -> Words:
        """Rectangles from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rect", {**self._across, **self._down, **(more or {})}, **style)

    def rules(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines across from `x` to `x2`."""
        return self.of(name, rows, "rule", {**self._across, "y": self.y}, **style)

    def posts(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines down from `y` to `y2`."""
        return self.of(name, rows, "rule", {"x": self.x, **self._down}, **style)

    def segments(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rule", {**self._across, **self._down}, **style)

    @property
    def _across(self) -> Words:
        return {"x": self.x, "x2": {"field": "x2"}}

    @property
    def _down(self) -> Words:
        return {"y": self.y, "y2": {"field": "y2"}}

    def drawn(self, *layers: Words) -> Drawing:
        """All layers together, the first one at the bottom."""
        return Drawing({"layer": list(layers), "width": self.width, "height": self.height}, self.rows)
