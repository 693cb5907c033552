"""A picture in a file of its own: its title above it, and under which conditions it was measured below it."""

import re
import textwrap
from dataclasses import dataclass, replace

import vl_convert

from common.errors import BadInputError
from under_siege.charts import canvas
from under_siege.charts.canvas import FILE, FONT, Drawing, Look, escaped
from under_siege.formatting import unbroken

# Pixels, and how many times as large as in a file everything is, so that it can be read from the last row.
ASPECTS = {"16:9": (1280, 720, 1.8), "4:3": (1024, 768, 1.6), "1:1": (900, 900, 1.7)}
_EDGE = 14  # pixels
_LETTER, _BOLD_LETTER, _SMALL_LETTER = 0.56, 0.67, 0.53  # the width of a letter as a part of its height, about
_TITLE, _BELOW = 1.25, 1.45  # the height of a line, as multiples of that of its letters


@dataclass(frozen=True, slots=True)
class Frame:
    """What is said of a picture outside of it, and how large both are together."""

    title: str
    below: str
    aspect: str | None = None  # of a slide; a file is as high as it takes
    under: str = ""  # the title, in smaller letters: whose names belong to it

    @property
    def look(self) -> Look:
        if self.aspect is None:
            return FILE
        width, height = self._size
        used = self._head + self._foot
        return replace(FILE, width=int(width - 2 * _EDGE), height=height - used)

    def around(self, drawing: Drawing) -> str:
        svg = canvas.as_svg(drawing, self.look)
        inner_width, inner_height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)"', svg[:400])[:2])
        width, height = self._size if self.aspect else (inner_width + 2 * _EDGE, 0.0)
        width, height = round(width), round(height or self._head + inner_height + self._foot)
        room = (width - 2 * _EDGE, height - self._head - self._foot)
        fits = min(1.0 if self.aspect is None else 1.3, room[0] / inner_width, room[1] / inner_height)
        left = _EDGE + (room[0] - fits * inner_width) / 2 * (self.aspect is not None)
        placed = (
            f'x="{left:.1f}" y="{self._head:.1f}" width="{fits * inner_width:.1f}" height="{fits * inner_height:.1f}"'
        )
        inner = re.sub(r' width="[\d.]+" height="[\d.]+"', f" {placed}", svg, count=1)
        shown = ASPECTS[self.aspect][2] if self.aspect else 1.0
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1" '
            f'width="{shown * width:.0f}" height="{shown * height:.0f}" viewBox="0 0 {width} {height}">'
            f'<rect width="100%" height="100%" fill="{FILE.paper}"/>'
            f"{self._title()}{inner}{self._below(height)}</svg>\n"
        )

    @property
    def _size(self) -> tuple[float, float]:
        width, height, enlarged = ASPECTS[self.aspect or "16:9"]
        return width / enlarged, height / enlarged

    @property
    def _letters(self) -> tuple[float, float]:
        return (19.0, 10.5) if self.aspect else (17.0, 11.5)

    def _lines(self, text: str, size: float, letter: float = _LETTER) -> list[str]:
        width = (self._size[0] if self.aspect else FILE.width) - 2 * _EDGE
        return textwrap.wrap(unbroken(text), int(width / (letter * size)))

    @property
    def _head(self) -> float:
        lines = self._lines(self.title, self._letters[0], _BOLD_LETTER)
        return _EDGE + _TITLE * self._letters[0] * len(lines) + (6 if lines else 0) + self._under_px

    @property
    def _under_px(self) -> float:
        return _BELOW * self._names * len(self._lines(self.under, self._names, _SMALL_LETTER))

    @property
    def _names(self) -> float:
        return 12.0 if self.aspect else 12.5

    @property
    def _foot(self) -> float:
        lines = self._lines(self.below, self._letters[1])
        return _EDGE * 0.8 + _BELOW * self._letters[1] * len(lines)

    def _title(self) -> str:
        size = self._letters[0]
        lines = self._lines(self.title, size, _BOLD_LETTER)
        style = f'font-size="{size:g}px" font-weight="bold" fill="{FILE.ink}"'
        first = self._head - self._under_px + self._names * 0.8
        names = self._lines(self.under, self._names, _SMALL_LETTER)
        below = _texts(names, first, _BELOW * self._names, self._style(self._names))
        return _texts(lines, _EDGE + size * 0.8, _TITLE * size, style) + below

    def _below(self, height: float) -> str:
        size = self._letters[1]
        lines = self._lines(self.below, size)
        first = height - _EDGE * 0.6 - _BELOW * size * (len(lines) - 1)
        return _texts(lines, first, _BELOW * size, self._style(size))

    @staticmethod
    def _style(size: float) -> str:
        return f'font-size="{size:g}px" fill="{FILE.quiet}"'


def as_png(svg: str, *, is_slide: bool) -> bytes:
    """The picture as PNG, finer than the SVG says."""
    png: bytes = vl_convert.svg_to_png(svg, scale=1.5 if is_slide else 2)
    return png


def check_aspect(aspect: str | None) -> None:
    """Raises BadInputError if there are no slides of that shape."""
    if aspect is not None and aspect not in ASPECTS:
        raise BadInputError(f"--aspect {aspect!r} is not known: expected one of {', '.join(ASPECTS)}")


def _texts(lines: list[str], first: float, step: float, style: str) -> str:
    family = FONT.replace("'", "&apos;")
    return "".join(
        f'<text x="{_EDGE}" y="{first + step * place:.1f}" font-family="{family}" {style}>{escaped(line)}</text>'
        for place, line in enumerate(lines)
    )
