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
    """Sizes in pixels and CSS colours, which also differ in lightness (Okabe and Ito, 2008)."""

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
    height: float | None = None  # height of a slide; None: as high as needed
    lines: tuple[str, ...] = ("#0072b2", "#d55e00", "#00795a", "#a8437f", "#8a6d00", "#1b2733")

    @property
    def is_narrow(self) -> bool:
        return self.width < 500 and not self.is_slide

    @property
    def is_slide(self) -> bool:
        """Return whether this is a slide, to be read from the last row: few words, large letters, the fastest first."""
        return self.height is not None


FILE = Look()
# On a page the style sheet sets the colours, so that one chart works in light and dark mode.
_NAMES = [field.name for field in fields(Look) if field.type is str]
WIDE = replace(
    FILE,
    **{name: f"var(--{name})" for name in _NAMES},  # type: ignore[arg-type]
    lines=tuple(f"var(--line-{number})" for number in range(len(FILE.lines))),
)
NARROW = replace(WIDE, width=350)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A Vega-Lite chart, and the data sets that its layers refer to."""

    chart: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]


def as_svg(drawing: Drawing, look: Look) -> str:
    """Return the drawing as SVG without scripts or external resources."""
    svg: str = vl_convert.vegalite_to_svg(specification(drawing, look), vl_version=_VERSION)
    return re.sub("<[^>]+>", _in_tenths, svg)


def for_page(drawing: Drawing, look: Look, alternative: str) -> str:
    """Return the drawing as SVG for an HTML page: as wide as its container, with a text alternative."""
    svg = as_svg(drawing, look)
    inner = re.sub(r'^<svg\b(.*?) width="[\d.]+" height="[\d.]+"', r"<svg\1", svg, count=1)
    return inner.replace("<svg", f'<svg role="img" aria-label="{escaped(alternative)}"', 1)


def _in_tenths(tag: re.Match[str]) -> str:
    """Round to tenths of a pixel: more is invisible, and this halves the size."""
    return re.sub(r"(\.\d)\d+", r"\1", tag[0])


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def specification(drawing: Drawing, look: Look) -> dict[str, Any]:
    """Return the complete Vega-Lite specification; the tests validate it against the schema."""
    text = {"labelColor": look.ink, "titleColor": look.quiet, "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": look.grid, "domainColor": look.grid, "tickColor": look.grid}
    config = {
        "background": "transparent",
        "font": FONT,
        "padding": 2,
        "aria": False,  # the text alternative describes the chart; descriptions of a thousand marks would bury it
        "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
        "axis": {**text, "titleFontWeight": "normal", **lines},
        "text": {"fill": look.ink, "fontSize": 12},
    }
    schema = f"https://vega.github.io/schema/vega-lite/v{_VERSION}.json"
    return {"$schema": schema, **drawing.chart, "config": config, "datasets": drawing.rows}


Words = dict[str, Any]  # a part of a Vega-Lite specification


def quantity(field: str, **more: Any) -> Words:
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Words:
    return {"field": field, "type": "nominal", **more}


def either(test: str, value: Any, otherwise: Any) -> Words:
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def layer(data: str, mark: str, encoding: Words, **style: Any) -> Words:
    """Return a layer of marks: one per row of the data, or one line through all rows."""
    return {"data": {"name": data}, "mark": {"type": mark, **style}, "encoding": encoding}


def legend(look: Look, orient: str, **more: Any) -> Words:
    columns = 1 if look.is_narrow else 3
    return {"title": None, "orient": orient, "columns": columns, "labelColor": look.ink, "labelFontSize": 12, **more}


Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A canvas with vertical positions in pixels and horizontal positions in units of the data."""

    width: float
    height: float
    across: Words  # the horizontal scale
    axis: Words | None
    rows: dict[str, Rows] = field(default_factory=dict)  # data of each layer

    def of(self, name: str, rows: Rows, mark: str, encoding: Words, **style: Any) -> Words:
        """Return a layer; its marks are in an SVG group of the class `mark-… NAME_marks`."""
        self.rows[name] = rows
        return {"name": name, **layer(name, mark, encoding, **style)}

    @property
    def x(self) -> Words:
        """Return the horizontal encoding, from the field `x`."""
        return quantity("x", scale=self.across, axis=self.axis)

    @property
    def y(self) -> Words:
        """Return the vertical encoding, from the field `y`."""
        return quantity("y", scale={"domain": [self.height, 0], "nice": False}, axis=None)

    def text(self, name: str, rows: Rows, at: float | None = None, **style: Any) -> Words:
        """Return texts from the field `text`, at this many pixels from the left, or at the field `x`."""
        across = self.x if at is None else {"value": at}
        return self.of(name, rows, "text", {"x": across, "y": self.y, "text": kind("text")}, **style)

    def bars(self, name: str, rows: Rows, more: Words | None = None, **style: Any) -> Words:
        """Return rectangles from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rect", {**self._across, **self._down, **(more or {})}, **style)

    def rules(self, name: str, rows: Rows, **style: Any) -> Words:
        """Return horizontal lines from `x` to `x2`."""
        return self.of(name, rows, "rule", {**self._across, "y": self.y}, **style)

    def posts(self, name: str, rows: Rows, **style: Any) -> Words:
        """Return vertical lines from `y` to `y2`."""
        return self.of(name, rows, "rule", {"x": self.x, **self._down}, **style)

    def segments(self, name: str, rows: Rows, **style: Any) -> Words:
        """Return lines from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rule", {**self._across, **self._down}, **style)

    @property
    def _across(self) -> Words:
        return {"x": self.x, "x2": {"field": "x2"}}

    @property
    def _down(self) -> Words:
        return {"y": self.y, "y2": {"field": "y2"}}

    def drawn(self, *layers: Words) -> Drawing:
        """Return all layers in one drawing, the first one at the bottom."""
        return Drawing({"layer": list(layers), "width": self.width, "height": self.height}, self.rows)
