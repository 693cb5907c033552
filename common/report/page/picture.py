"""A picture: what it is called, what is to be seen in it, how it is to be read, and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from common.report.charts.frame import Frame
from common.report.charts.look import NARROW, WIDE, Drawing, Look, for_page
from common.report.numbers import unbroken


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that can be drawn in any look."""

    name: str  # of the file that it would be saved as
    title: str  # of its place on the page
    how: str  # to read it
    draw: Callable[[Look], Drawing]
    alternative: str  # in words, for those who can't see it
    on_page: bool = True  # or only in a file of its own
    headline: str = ""  # what is to be seen, computed from what was measured; names may stand in a second line
    conditions: str = ""  # under which that was so

    def alone(self, aspect: str | None = None) -> str:
        """As SVG with its headline and its conditions: for a README, or for a slide of that aspect."""
        title, _, under = (self.headline or self.title).partition("\n")
        frame = Frame(title, self.conditions, aspect, under)
        return frame.around(self.draw(frame.look))


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as it stands on the page, for a desk and for a phone."""

    title: str
    headline: str
    names: str
    how: str
    conditions: str
    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Section:
    """Some pictures under one heading."""

    title: str
    pictures: list[Picture]

    @property
    def figures(self) -> list[Figure]:
        """Drawn for the page."""
        return [_figure(picture) for picture in self.pictures if picture.on_page]


def _figure(picture: Picture) -> Figure:
    wide, narrow = (
        Markup(for_page(picture.draw(look), look, picture.alternative))  # noqa: S704 (escaped there)
        for look in (WIDE, NARROW)
    )
    headline, _, names = unbroken(picture.headline).partition("\n")
    return Figure(picture.title, headline, names, picture.how, picture.conditions, wide, narrow)
