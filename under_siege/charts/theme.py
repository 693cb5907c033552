"""The look of every chart: its colours and width, and how it becomes SVG or PNG."""

import re
from dataclasses import dataclass, fields, replace
from typing import Any

import vl_convert

_VERSION = "6.4"  # of Vega-Lite
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
        """Whether it is for a phone."""
        return self.width < 500 and not self.is_slide

    @property
    def is_slide(self) -> bool:
        """Whether it is to be read from the last row: few words, large, the winner first."""
        return self.height is not None


FILE = Look()
# On a page the style sheet decides, so that one picture does for light and dark.
_NAMES = [field.name for field in fields(Look) if field.type is str]
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
    """As it may stand in a tag or between two."""
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
