"""The sheet that charts are drawn on: marks placed in pixels down and in the unit of the data across."""

from dataclasses import dataclass, field
from typing import Any

import altair as alt

from common.report.charts.look import Drawing

Layer = Any  # what Altair's methods return is not typed


@dataclass(frozen=True, slots=True)
class Sheet:
    """Marks on a sheet that is measured in pixels down and in the unit of its data across."""

    width: float
    height: float
    across: alt.Scale
    axis: alt.Axis | None
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of each layer

    def of(self, name: str, rows: list[dict[str, Any]]) -> Layer:
        """A layer; its marks stand in a group of the class `mark-… NAME_marks`."""
        self.rows[name] = rows
        return alt.Chart(alt.NamedData(name), name=name)

    @property
    def x(self) -> alt.X:
        """Across, from the field `x`."""
        return alt.X("x:Q", scale=self.across, axis=self.axis)

    @property
    def y(self) -> alt.Y:
        """Down, from the field `y`."""
        return alt.Y("y:Q", scale=alt.Scale(domain=[self.height, 0], nice=False), axis=None)

    def text(self, name: str, rows: list[dict[str, Any]], at: float | None = None, **style: Any) -> Layer:
        """Texts from the field `text`, at so many pixels from the left, or else where the field `x` says."""
        across: Any = self.x if at is None else alt.XValue(at)
        return self.of(name, rows).mark_text(**style).encode(across, self.y, alt.Text("text:N"))

    def bars(self, name: str, rows: list[dict[str, Any]], *more: Any, **style: Any) -> Layer:
        """Rectangles from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows).mark_rect(**style).encode(self.x, alt.X2("x2:Q"), self.y, alt.Y2("y2:Q"), *more)

    def rules(self, name: str, rows: list[dict[str, Any]], *more: Any, **style: Any) -> Layer:
        """Lines across from `x` to `x2`."""
        return self.of(name, rows).mark_rule(**style).encode(self.x, alt.X2("x2:Q"), self.y, *more)

    def posts(self, name: str, rows: list[dict[str, Any]], *more: Any, **style: Any) -> Layer:
        """Lines down from `y` to `y2`."""
        return self.of(name, rows).mark_rule(**style).encode(self.x, self.y, alt.Y2("y2:Q"), *more)

    def drawn(self, *layers: Layer) -> Drawing:
        """All layers together, the first one at the bottom."""
        return Drawing(alt.layer(*layers).properties(width=self.width, height=self.height), self.rows)
