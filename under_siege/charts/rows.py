"""What charts with a row for each case have in common: its name above, its marks below, on one axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from under_siege.analysis.summary import Summary
from under_siege.charts.canvas import Sheet, Words
from under_siege.charts.theme import Look
from under_siege.checks.verdict import OK
from under_siege.report.labels import plain_name, with_file

_LINE, _GAP = 18, 12  # pixels
_AXIS, _NAMES, _FIGURES = 34, 226, 104  # of a slide: above, on the left and on the right
_LETTERS = 36  # there is room for in a name there


@dataclass(frozen=True, slots=True)
class Rows:
    """A row for each case: its name, a figure at the right (or below the name on a phone), its marks below.

    On a slide all three stand in one line.
    """

    cases: Sequence[Summary]
    wanted: float  # pixels for the marks
    look: Look
    best: str = ""  # a figure as `Summary.best` has it: who leads in that has a star

    @property
    def height(self) -> float:
        """Of all rows together."""
        return len(self.cases) * self._step

    @property
    def marks(self) -> float:
        """So many pixels there are for the marks of a row."""
        return max(4.0, min(self.wanted * 1.4, self._step - 5)) if self.look.is_slide else self.wanted

    def top(self, row: int) -> float:
        """Where the marks of a row begin."""
        return row * self._step + (self._head if not self.look.is_slide else (self._step - self.marks) / 2)

    def sheet(self, across: Words, axis: Words) -> Sheet:
        """What they are drawn on."""
        beside = _NAMES + _FIGURES if self.look.is_slide else 20
        return Sheet(self.look.width - beside, self.height, across, axis)

    def leads(self, case: Summary) -> bool:
        """Whether nothing beats it in what is drawn."""
        return self.best in case.best if self.best else False

    @property
    def has_leaders(self) -> bool:
        """Whether anything is beaten at all."""
        return any(map(self.leads, self.cases))

    def texts(self, sheet: Sheet, figures: Sequence[str]) -> list[Words]:
        """The name of each row, what is wrong with it, and its figure."""
        names, told = [], []
        for number, (case, figure) in enumerate(zip(self.cases, figures, strict=True)):
            middle = (number + 0.5) * self._step
            y = (
                (middle, middle)
                if self.look.is_slide
                else (number * self._step + _LINE / 2, self.top(number) - _LINE / 2)
            )
            names.append({"y": y[0], "text": self._name(case), "best": self.leads(case)})
            told.append({"y": y[1], "text": figure})
        return [*self._names(sheet, names), self._figures(sheet, told)]

    def _names(self, sheet: Sheet, names: list[dict[str, object]]) -> list[Words]:
        at, align, dx = (0, "right", -8) if self.look.is_slide else (0, "left", 0)
        style = {"align": align, "dx": dx, "fontSize": self._letters, "color": self.look.ink}
        bold = [row for row in names if row["best"] or not self.look.is_slide]
        rest = [row for row in names if not (row["best"] or not self.look.is_slide)]
        return [
            sheet.text("names", bold, at, fontWeight="bold", **style),
            sheet.text("names_rest", rest, at, **style),
        ]

    def _figures(self, sheet: Sheet, told: list[dict[str, object]]) -> Words:
        at, align = (sheet.width + 8, "left") if self.look.is_slide else (sheet.width, "right")
        at, align = (0, "left") if self.look.is_narrow else (at, align)
        return sheet.text("figures", told, at, align=align, fontSize=min(12.5, self._letters), color=self.look.ink)

    def _name(self, case: Summary) -> str:
        flag = "" if case.verdict == OK else f"  ({case.verdict})"
        star = "★ " if self.leads(case) else ""
        if not self.look.is_slide:
            return f"{star}{with_file(case, self.cases, is_narrow=self.look.is_narrow)}{flag}"
        name = plain_name(case, self.cases)
        most = _LETTERS - len(flag) - len(star)
        return f"{star}{name if len(name) <= most else f'{name[: most - 1]}…'}{flag}"

    @property
    def _letters(self) -> float:
        return min(13.0, self._step * 0.62)

    @property
    def _head(self) -> float:
        return 2 * _LINE if self.look.is_narrow else _LINE

    @property
    def _step(self) -> float:
        if self.look.height is not None:
            return min(46.0, (self.look.height - _AXIS) / max(1, len(self.cases)))
        return self._head + self.wanted + _GAP
