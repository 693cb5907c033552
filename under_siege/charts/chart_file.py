"""Write one chart to a file, with its title above and the conditions of the measurement below."""

import re
import textwrap
from dataclasses import dataclass, replace
from typing import NamedTuple

import vl_convert

from common.errors import BadInputError
from under_siege.charts import canvas
from under_siege.charts.canvas import FILE, FONT, Drawing, Look, escaped
from under_siege.formatting import unbroken

# Width and height in pixels, and the magnification that makes a slide readable from the last row.
ASPECTS = {"16:9": (1280, 720, 1.8), "4:3": (1024, 768, 1.6), "1:1": (900, 900, 1.7)}
_EDGE = 14  # pixels
_LETTER, _BOLD_LETTER, _SMALL_LETTER = 0.56, 0.67, 0.53  # approximate width of a letter as a share of its height
_TITLE, _BELOW = 1.25, 1.45  # height of a line as a multiple of the height of its letters


class _Text(NamedTuple):
    """Lines of text in one style."""

    lines: list[str]
    size: float  # height of the letters in pixels
    step: float  # between lines, in pixels
    style: str

    @property
    def height(self) -> float:
        return self.step * len(self.lines)

    def drawn(self, first: float) -> str:
        """Return the lines as SVG, the first one this many pixels from the top."""
        family = FONT.replace("'", "&apos;")
        style = f'font-family="{family}" font-size="{self.size:g}px" {self.style}'
        return "".join(
            f'<text x="{_EDGE}" y="{first + self.step * index:.1f}" {style}>{escaped(line)}</text>'
            for index, line in enumerate(self.lines)
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """The texts around a chart, and the size of the whole image."""

    title: str
    below: str
    aspect: str | None = None  # aspect ratio of a slide; None: as high as needed
    under: str = ""  # a list of names below the title, in smaller letters

    @property
    def look(self) -> Look:
        if self.aspect is None:
            return FILE
        width, height = self._size
        return replace(FILE, width=int(width - 2 * _EDGE), height=height - (self._head + self._foot))

    def around(self, drawing: Drawing) -> str:
        """Return the chart with its texts as SVG."""
        svg = canvas.as_svg(drawing, self.look)
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


def as_png(svg: str, *, is_slide: bool) -> bytes:
    """Return the image as PNG, with more pixels than the SVG for sharp text."""
    png: bytes = vl_convert.svg_to_png(svg, scale=1.5 if is_slide else 2)
    return png


def check_aspect(aspect: str | None) -> None:
    """Raise BadInputError unless it is None or one of ASPECTS."""
    if aspect is not None and aspect not in ASPECTS:
        raise BadInputError(f"--aspect {aspect!r} is unknown; expected one of {', '.join(ASPECTS)}")
