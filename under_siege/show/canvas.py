"""Define the style of charts, and render charts as SVG: for pages, or with a title and conditions for files."""

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any, NamedTuple

import vl_convert

from under_siege.formatting import unbroken
from under_siege.show import canvas

_VERSION = "6.4"  # version of Vega-Lite
MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

# Width and height in pixels, and the scale factor that makes a slide readable from the back row.
ASPECTS = {"16:9": (1280, 720, 1.8), "4:3": (1024, 768, 1.6), "1:1": (900, 900, 1.7)}
_EDGE = 14  # margin of an image in pixels
_LETTER, _BOLD_LETTER, _SMALL_LETTER = 0.56, 0.67, 0.53  # approximate width of a letter divided by the font size
_TITLE, _BELOW = 1.25, 1.45  # line height divided by the font size


@dataclass(frozen=True, slots=True)
class Theme:
    """Sizes in pixels, and CSS colours that colour-blind readers can distinguish (Okabe and Ito, 2008)."""

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
    height: float | None = None  # height of a slide; None if the chart is as tall as needed
    lines: tuple[str, ...] = ("#0072b2", "#d55e00", "#00795a", "#a8437f", "#8a6d00", "#1b2733")

    @property
    def is_narrow(self) -> bool:
        return self.width < 500 and not self.is_slide

    @property
    def is_slide(self) -> bool:
        """Return whether this is a slide, which needs few words and large letters to be readable from the back row."""
        return self.height is not None


FILE = Theme()
# On a page, the style sheet sets the colours, so that the same chart works in light and dark mode.
_NAMES = [field.name for field in fields(Theme) if field.type is str]
WIDE = replace(
    FILE,
    **{name: f"var(--{name})" for name in _NAMES},  # type: ignore[arg-type]
    lines=tuple(f"var(--line-{number})" for number in range(len(FILE.lines))),
)
NARROW = replace(WIDE, width=350)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A Vega-Lite chart and the data sets of its layers."""

    chart: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]


def as_svg(drawing: Drawing, theme: Theme) -> str:
    """Return the drawing as SVG without scripts or external resources."""
    svg: str = vl_convert.vegalite_to_svg(specification(drawing, theme), vl_version=_VERSION)
    return re.sub("<[^>]+>", _in_tenths, svg)


def for_page(drawing: Drawing, theme: Theme) -> str:
    """Return the drawing as SVG for an HTML page: as wide as its container."""
    svg = as_svg(drawing, theme)
    return re.sub(r'^<svg\b(.*?) width="[\d.]+" height="[\d.]+"', r"<svg\1", svg, count=1)


def _in_tenths(tag: re.Match[str]) -> str:
    """Truncate numbers to tenths of a pixel, which halves the size of the SVG without a visible change."""
    return re.sub(r"(\.\d)\d+", r"\1", tag[0])


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def specification(drawing: Drawing, theme: Theme) -> dict[str, Any]:
    """Return the complete Vega-Lite specification; the tests validate it against the schema."""
    text = {"labelColor": theme.ink, "titleColor": theme.quiet, "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": theme.grid, "domainColor": theme.grid, "tickColor": theme.grid}
    config = {
        "background": "transparent",
        "font": FONT,
        "padding": 2,
        "aria": False,  # the text alternative describes the chart; screen readers should skip individual marks
        "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
        "axis": {**text, "titleFontWeight": "normal", **lines},
        "text": {"fill": theme.ink, "fontSize": 12},
    }
    schema = f"https://vega.github.io/schema/vega-lite/v{_VERSION}.json"
    return {"$schema": schema, **drawing.chart, "config": config, "datasets": drawing.rows}


VegaLite = dict[str, Any]  # a part of a Vega-Lite specification


def quantity(field: str, **more: Any) -> VegaLite:
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> VegaLite:
    return {"field": field, "type": "nominal", **more}


def either(test: str, value: Any, otherwise: Any) -> VegaLite:
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def layer(data: str, mark: str, encoding: VegaLite, **style: Any) -> VegaLite:
    """Return a layer with a mark for each data row or, if `mark` is `line`, a line through all rows."""
    return {"data": {"name": data}, "mark": {"type": mark, **style}, "encoding": encoding}


def legend(theme: Theme, orient: str, **more: Any) -> VegaLite:
    columns = 1 if theme.is_narrow else 3
    return {"title": None, "orient": orient, "columns": columns, "labelColor": theme.ink, "labelFontSize": 12, **more}


Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A canvas whose vertical positions are pixels, and whose horizontal positions are values on the scale `across`."""

    width: float
    height: float
    across: VegaLite  # the horizontal scale
    axis: VegaLite | None
    rows: dict[str, Rows] = field(default_factory=dict)  # data of each layer

    def of(self, name: str, rows: Rows, mark: str, encoding: VegaLite, **style: Any) -> VegaLite:
        """Store the rows, and return a layer that draws them in an SVG group with the class `NAME_marks`."""
        self.rows[name] = rows
        return {"name": name, **layer(name, mark, encoding, **style)}

    @property
    def x(self) -> VegaLite:
        """Return the encoding of the horizontal position, from the field `x`."""
        return quantity("x", scale=self.across, axis=self.axis)

    @property
    def y(self) -> VegaLite:
        """Return the encoding of the vertical position, from the field `y`."""
        return quantity("y", scale={"domain": [self.height, 0], "nice": False}, axis=None)

    def text(self, name: str, rows: Rows, at: float | None = None, **style: Any) -> VegaLite:
        """Return a layer with the text of each row at its `x` or, if `at` is set, `at` pixels from the left."""
        across = self.x if at is None else {"value": at}
        return self.of(name, rows, "text", {"x": across, "y": self.y, "text": kind("text")}, **style)

    def bars(self, name: str, rows: Rows, more: VegaLite | None = None, **style: Any) -> VegaLite:
        """Return a layer of rectangles from (`x`, `y`) to (`x2`, `y2`)."""
        return self.of(name, rows, "rect", {**self._across, **self._down, **(more or {})}, **style)

    def rules(self, name: str, rows: Rows, **style: Any) -> VegaLite:
        """Return a layer of horizontal lines from `x` to `x2`."""
        return self.of(name, rows, "rule", {**self._across, "y": self.y}, **style)

    def posts(self, name: str, rows: Rows, **style: Any) -> VegaLite:
        """Return a layer of vertical lines from `y` to `y2`."""
        return self.of(name, rows, "rule", {"x": self.x, **self._down}, **style)

    def segments(self, name: str, rows: Rows, **style: Any) -> VegaLite:
        """Return a layer of lines from (`x`, `y`) to (`x2`, `y2`)."""
        return self.of(name, rows, "rule", {**self._across, **self._down}, **style)

    @property
    def _across(self) -> VegaLite:
        return {"x": self.x, "x2": {"field": "x2"}}

    @property
    def _down(self) -> VegaLite:
        return {"y": self.y, "y2": {"field": "y2"}}

    def drawn(self, *layers: VegaLite) -> Drawing:
        """Return all layers in one drawing; the first layer is at the bottom."""
        return Drawing({"layer": list(layers), "width": self.width, "height": self.height}, self.rows)


class _Text(NamedTuple):
    """Lines of text in one style."""

    lines: list[str]
    size: float  # font size in pixels
    step: float  # distance between lines in pixels
    style: str

    @property
    def height(self) -> float:
        return self.step * len(self.lines)

    def drawn(self, first: float) -> str:
        """Return the lines as SVG, with the first line `first` pixels from the top."""
        family = FONT.replace("'", "&apos;")
        style = f'font-family="{family}" font-size="{self.size:g}px" {self.style}'
        return "".join(
            f'<text x="{_EDGE}" y="{first + self.step * index:.1f}" {style}>{escaped(line)}</text>'
            for index, line in enumerate(self.lines)
        )


@dataclass(frozen=True, slots=True)
class ChartFile:
    """The texts around a chart, and the size of the whole image."""

    title: str
    below: str
    aspect: str | None = None  # aspect ratio of a slide; None if the image is as tall as needed
    under: str = ""  # a list of names below the title, in smaller letters

    @property
    def theme(self) -> Theme:
        if self.aspect is None:
            return FILE
        width, height = self._size
        return replace(FILE, width=int(width - 2 * _EDGE), height=height - (self._head + self._foot))

    def around(self, drawing: Drawing) -> str:
        """Return an SVG image of the chart with the texts around it."""
        svg = canvas.as_svg(drawing, self.theme)
        head, foot = self._head, self._foot
        inner_width, inner_height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)"', svg[:400])[:2])
        width, height = self._size if self.aspect else (inner_width + 2 * _EDGE, 0.0)
        width, height = round(width), round(height or head + inner_height + foot)
        room = (width - 2 * _EDGE, height - head - foot)
        fits = min(1.0 if self.aspect is None else 1.3, room[0] / inner_width, room[1] / inner_height)
        left = _EDGE + (room[0] - fits * inner_width) / 2 * (self.aspect is not None)
        place = f'x="{left:.1f}" y="{head:.1f}" width="{fits * inner_width:.1f}" height="{fits * inner_height:.1f}"'
        inner = re.sub(r' width="[\d.]+" height="[\d.]+"', f" {place}", svg, count=1)
        enlarged = ASPECTS[self.aspect][2] if self.aspect else 1.0
        title, names, below = self._title, self._names, self._conditions
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1" '
            f'width="{enlarged * width:.0f}" height="{enlarged * height:.0f}" viewBox="0 0 {width} {height}">'
            f'<rect width="100%" height="100%" fill="{FILE.paper}"/>'
            f"{title.drawn(_EDGE + title.size * 0.8)}{names.drawn(head - names.height + names.size * 0.8)}{inner}"
            f"{below.drawn(height - _EDGE * 0.6 - below.step * (len(below.lines) - 1))}</svg>\n"
        )

    @property
    def _size(self) -> tuple[float, float]:
        width, height, enlarged = ASPECTS[self.aspect or "16:9"]
        return width / enlarged, height / enlarged

    @property
    def _title(self) -> _Text:
        style = f'font-weight="bold" fill="{FILE.ink}"'
        return self._wrapped(self.title, 19.0 if self.aspect else 17.0, _BOLD_LETTER, _TITLE, style)

    @property
    def _names(self) -> _Text:
        return self._wrapped(self.under, 12.0 if self.aspect else 12.5, _SMALL_LETTER, _BELOW)

    @property
    def _conditions(self) -> _Text:
        return self._wrapped(self.below, 10.5 if self.aspect else 11.5, _LETTER, _BELOW)

    def _wrapped(
        self, text: str, size: float, letter: float, step: float, style: str = f'fill="{FILE.quiet}"'
    ) -> _Text:
        width = (self._size[0] if self.aspect else FILE.width) - 2 * _EDGE
        return _Text(textwrap.wrap(unbroken(text), int(width / (letter * size))), size, step * size, style)

    @property
    def _head(self) -> float:
        return _EDGE + self._title.height + (6 if self._title.lines else 0) + self._names.height

    @property
    def _foot(self) -> float:
        return _EDGE * 0.8 + self._conditions.height


def is_drawn(chart: Callable[..., Any]) -> bool:
    """Return whether the function returns a Drawing for a theme, and not yet a Vega-Lite specification."""
    return "theme" in signature(chart).parameters
