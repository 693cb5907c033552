"""Turn Vega-Lite specifications into SVG and PNG, for pages, files and slides.

A specification has inline data and no sizes: `"width": "container"` is replaced by the width of the page, file or
slide, because pages are offline and without scripts. Its colours are names of mark styles, or the CSS variables of
style.css. On a page, the style sheet sets these variables, so that a chart works in light and dark mode.
"""

import json
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import BadInputError
from under_siege.formatting import unbroken

Chart = dict[str, Any]  # a Vega-Lite specification
Rows = list[dict[str, Any]]  # its data

_VERSION = "6.4"  # version of Vega-Lite
_SCHEMA = f"https://vega.github.io/schema/vega-lite/v{_VERSION}.json"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]

_LINES = ["#0072b2", "#d55e00", "#00795a", "#a8437f", "#8a6d00", "#1b2733"]
# The colours of files, which colour-blind readers can distinguish (Okabe and Ito, 2008).
COLOURS = {
    "ink": "#1b2733",
    "quiet": "#5b6875",
    "grid": "#dfe4e9",
    "paper": "#ffffff",
    "limit": "#1b2733",
    "work": "#0072b2",
    "wait": "#cbdcea",
    "late": "#f2cf5b",
    "mute": "#8db7d6",
    "ping": "#d55e00",
    **{f"line-{number}": colour for number, colour in enumerate(_LINES)},
}


@dataclass(frozen=True, slots=True)
class Size:
    """Where a chart is shown: its width and height in pixels, and how much text fits on a line."""

    width: int
    height: int | None = None  # None if the chart is as tall as its rows need
    title_letters: int = 78
    subtitle_letters: int = 138

    @property
    def is_narrow(self) -> bool:
        return self.width < 500

    @property
    def is_slide(self) -> bool:
        return self.height is not None


PAGE, PHONE = Size(900), Size(350)
FILE = Size(900)
# A slide is small in pixels, so that its text is large on a screen.
SLIDES = {
    "16:9": Size(720, 405, title_letters=62, subtitle_letters=110),
    "4:3": Size(640, 480, title_letters=55, subtitle_letters=97),
    "1:1": Size(560, 560, title_letters=48, subtitle_letters=84),
}
_MARGIN = 14  # margin of a file or slide, in pixels
_WIDE = 1.2  # times the height; narrower slides have no columns side by side
_PNG_WIDTH = 1920  # width of a slide, in pixels


def for_page(chart: Chart, size: Size) -> str:
    """Return the chart as SVG for an HTML page, whose style sheet defines the colours."""
    return as_svg(fitted({**chart, "$schema": _SCHEMA, "config": config(size)}, size))


def for_file(chart: Chart, title: str, below: Sequence[str], aspect: str | None = None) -> str:
    """Return the chart as SVG for a file or, if an aspect ratio is given, for a slide.

    Args:
        title: the finding.
        below: texts below the title, such as names and the conditions of the measurement.
    """
    size = FILE if aspect is None else SLIDES[aspect]
    lines = [line for text in below for line in textwrap.wrap(unbroken(text), size.subtitle_letters)]
    head = {"text": textwrap.wrap(unbroken(title), size.title_letters), "subtitle": lines}
    look = {**config(size), "background": "var(--paper)", "padding": _MARGIN}
    specification = json.dumps({**chart, "title": head, "$schema": _SCHEMA, "config": look})
    coloured = re.sub(r"var\(--([\w-]+)\)", lambda match: COLOURS.get(match[1], match[0]), specification)
    return as_svg(fitted(json.loads(coloured), size))


def as_png(svg: str, aspect: str | None) -> bytes:
    """Return the image as PNG, with more pixels than the SVG has, so that text is sharp."""
    scale = 2 if aspect is None else _PNG_WIDTH / SLIDES[aspect].width
    png: bytes = renderer().svg_to_png(svg, scale=scale)
    return png


def check_aspect(aspect: str | None) -> None:
    """Raise BadInputError if the aspect ratio is neither None nor that of a slide."""
    if aspect is not None and aspect not in SLIDES:
        raise BadInputError(f"--aspect {aspect!r} is unknown; expected one of {', '.join(SLIDES)}")


def as_svg(chart: Chart) -> str:
    """Return a specification whose views have sizes as SVG."""
    svg: str = renderer().vegalite_to_svg(chart, vl_version=_VERSION)
    return svg


def renderer() -> Any:
    """Return the module that draws charts; raise BadInputError if it is missing, as on Alpine Linux."""
    try:
        import vl_convert  # a slow import
    except ImportError:
        raise BadInputError(
            "charts need the package vl-convert-python, which is missing; install it with: "
            f"{sys.executable} -m pip install vl-convert-python (not available for Alpine Linux)"
        ) from None
    return vl_convert


def fitted(chart: Chart, size: Size) -> Chart:
    """Return the specification with the sizes of its views, so that the whole chart is as large as `size`."""
    if "facet" not in chart and "vconcat" not in chart:
        fit = "fit-x" if size.height is None else "fit"
        sized = {**chart, "width": size.width, "autosize": {"type": fit, "contains": "padding"}}
        return sized if size.height is None else {**sized, "height": size.height}
    if size.height is not None and size.width < _WIDE * size.height:
        chart = {**chart, "columns": 1}
    # Vega can't fit facets and concatenations, so measure how the whole grows with its views.
    (width, height), (wider, taller) = (_measured(_sized(chart, size.width * scale, scale)) for scale in (1, 2))
    view_width = size.width * (1 + (size.width - width) / (wider - width))
    if size.height is None:
        return _sized(chart, int(view_width), 1.0)
    # If the texts above the views are wider than the slide, enlarge it.
    enlarged = max(1.0, _measured(_sized(chart, int(view_width), 1.0))[0] / size.width)
    return _sized(chart, int(view_width), 1 + (enlarged * size.height - height) / (taller - height))


def _measured(chart: Chart) -> tuple[float, float]:
    """Return the width and height of the chart in pixels."""
    width, height = re.findall(r'(?:width|height)="([\d.]+)"', as_svg(chart))[:2]
    return float(width), float(height)


def _sized(chart: Chart, width: float, stretch: float) -> Chart:
    """Return the specification with this width for each view, and with all heights multiplied by `stretch`."""
    sized = dict(chart)
    if "spec" in chart:
        sized["spec"] = _sized(chart["spec"], width, stretch)
    if "vconcat" in chart:
        sized["vconcat"] = [_sized(view, width, stretch) for view in chart["vconcat"]]
    if chart.get("width") == "container":
        height = chart["height"]
        tall = {"step": height["step"] * stretch} if isinstance(height, dict) else height * stretch
        sized |= {"width": width, "height": tall}
    return sized


def config(size: Size) -> Chart:
    """Return the Vega-Lite configuration: fonts, colours, and the styles that marks and axes refer to by name."""
    text = {"labelColor": "var(--ink)", "titleColor": "var(--quiet)", "labelFontSize": 12, "titleFontSize": 12}
    lines = {f"{part}Color": "var(--grid)" for part in ("grid", "domain", "tick")}
    small = {
        "labelColor": "var(--ink)",
        "labelFontSize": 11 if size.is_narrow else 12,
        "labelLimit": 320,
        "title": None,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 2,
        "aria": False,  # the text alternative describes the chart; screen readers should skip individual marks
        "scale": {"round": True},  # whole pixels halve the size of a page
        "view": {"stroke": None},
        "axis": {**text, **lines, "titleFontWeight": "normal", "tickCount": size.width // 100},
        "axisX": {"titleAnchor": "end" if size.is_narrow else "middle"},
        "legend": {**small, "orient": "bottom" if size.is_narrow else "right", "symbolOpacity": 1, "columns": 1},
        "header": {**small, "labelAnchor": "start", "labelExpr": f"{LINES}[0]" if size.is_slide else LINES}
        | {"labelLineHeight": 15, "labelPadding": 4, "labelLimit": 0},
        "facet": {"spacing": 8},
        "title": {"color": "var(--ink)", "fontSize": 17, "subtitleColor": "var(--quiet)", "subtitleFontSize": 11.5}
        | {"anchor": "start", "frame": "bounds", "lineHeight": 21, "subtitleLineHeight": 16, "subtitlePadding": 5}
        | {"offset": 10},
        "text": {"color": "var(--ink)", "fontSize": 12},
        "range": {"category": [f"var(--line-{number})" for number in range(len(_LINES))], "symbol": SHAPES},
        "style": {**_MARKS, "rows": _rows(size), "lanes": _LANES, "columns": {"labelExpr": LINES, "labelAngle": 0}},
    }


LINES = "split(datum.label, '\\n')"
_MARKS: Chart = {
    **{name: {"color": f"var(--{name})"} for name in ("work", "wait", "late", "ping", "quiet")},
    "ink": {"color": "var(--ink)", "opacity": 1},
    "limit": {"color": "var(--limit)", "strokeWidth": 2, "strokeDash": [5, 3]},
    "band": {"color": "var(--limit)", "opacity": 0.13},
    "interval": {"color": "var(--ink)", "strokeWidth": 2},
    "halo": {"color": "var(--paper)", "strokeWidth": 5, "opacity": 0.75},  # separates an interval from its bar
    "curve": {"color": "var(--work)", "strokeWidth": 2, "interpolate": "step-after"},
    "number": {"align": {"expr": "datum.is_left ? 'right' : 'left'"}, "dx": {"expr": "datum.is_left ? -9 : 9"}},
    "order": {"align": "left", "dx": 3, "fontSize": 10},
    "elsewhere": {"color": "var(--work)", "strokeWidth": 1.5, "strokeDash": [1, 4]},
    "unreported": {"color": "var(--quiet)", "strokeWidth": 1.5, "strokeDash": [3, 3]},
    "cell": {"color": "var(--work)", "stroke": "var(--paper)", "strokeWidth": 2},
    "cell_text": {"lineBreak": "\n", "dy": -7, "lineHeight": 15},
    "box": {"stroke": "var(--paper)", "strokeWidth": 1},
    "frame": {"align": "left", "dx": 4, "fontSize": 11.5},
}


# An axis on which only the first row of each lane has a name.
_LANES: Chart = {
    "labelExpr": "split(datum.label, '\\n')[1] == '0' ? split(datum.label, '\\n')[0] : ''",
    "labelColor": "var(--quiet)",
    "labelFontSize": 11,
    "labelOverlap": False,
    "labelLimit": 84,
    "minExtent": 90,
    "maxExtent": 90,
    "ticks": False,
    "domain": False,
    "grid": False,
}


def _rows(size: Size) -> Chart:
    """Return the style of an axis whose labels have several lines: a name and a figure; slides show only the name."""
    shifts = [{"test": f"length(split(datum.value, '\\n')) > {lines}", "value": -7.5 * lines} for lines in (2, 1)]
    return {
        "labelExpr": f"join(slice({LINES}, 0, -1), ' ')" if size.is_slide else LINES,
        "labelOffset": 0 if size.is_slide else {"condition": shifts, "value": 0},
        "labelFontSize": 11 if size.is_narrow else 12,
        "labelLineHeight": 15,
        "labelLimit": 320,
        "labelPadding": 8,
        "ticks": False,
        "grid": False,
    }


TIME = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"


def layer(mark: str, style: str, encoding: Chart, **more: Any) -> Chart:
    """Return a layer of marks with a style of the configuration."""
    return {"mark": {"type": mark, "style": style, **more}, "encoding": encoding}


def quantity(field: str, **more: Any) -> Chart:
    """Return the encoding of a number."""
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Chart:
    """Return the encoding of a name."""
    return {"field": field, "type": "nominal", **more}
