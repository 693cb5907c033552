"""What charts with a row for each case have in common: its name above, its marks below, on one axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from common.report.charts.look import Look
from common.report.charts.sheet import Layer, Sheet
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import label

_LINE, _GAP = 18, 12  # pixels


@dataclass(frozen=True, slots=True)
class Rows:
    """A row for each case: its name, a figure at the right (or below the name on a phone), its marks below."""

    cases: Sequence[Summary]
    marks: float  # pixels
    look: Look

    @property
    def height(self) -> float:
        """Of all rows together."""
        return len(self.cases) * self._step

    def top(self, row: int) -> float:
        """Where the marks of a row begin."""
        return row * self._step + self._head

    def sheet(self, across: alt.Scale, axis: alt.Axis) -> Sheet:
        """What they are drawn on."""
        return Sheet(self.look.width - 20, self.height, across, axis)

    def texts(self, sheet: Sheet, figures: Sequence[str]) -> list[Layer]:
        """The name of each row, what is wrong with it, and its figure."""
        names, told = [], []
        for number, (case, figure) in enumerate(zip(self.cases, figures, strict=True)):
            flag = "" if case.verdict == OK else f"  ({case.verdict})"
            names.append({"y": number * self._step + _LINE / 2, "text": label(case, self.cases) + flag})
            told.append({"y": self.top(number) - _LINE / 2, "text": figure})
        at, align = (0, "left") if self.look.is_narrow else (sheet.width, "right")
        return [
            sheet.text("names", names, 0, align="left", fontSize=13, fontWeight="bold", color=self.look.ink),
            sheet.text("figures", told, at, align=align, fontSize=12.5, color=self.look.ink),
        ]

    @property
    def _head(self) -> float:
        return 2 * _LINE if self.look.is_narrow else _LINE

    @property
    def _step(self) -> float:
        return self._head + self.marks + _GAP
