"""The sheet that charts are drawn on: marks placed in pixels down and in the unit of the data across."""

from dataclasses import dataclass, field
from typing import Any

from under_siege.charts.theme import Drawing

Words = dict[str, Any]  # of Vega-Lite: a mapping that becomes a part of the specification as it is


def quantity(field: str, **more: Any) -> Words:
    """From numbers in that field."""
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Words:
    """From names in that field."""
    return {"field": field, "type": "nominal", **more}


def either(test: str, value: Any, otherwise: Any) -> Words:
    """One value where the test holds for the row, else the other."""
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def layer(data: str, mark: str, encoding: Words, **style: Any) -> Words:
    """Marks of a kind, one for each row of that data, or one through all of them."""
    return {"data": {"name": data}, "mark": {"type": mark, **style}, "encoding": encoding}


Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Marks on a sheet that is measured in pixels down and in the unit of its data across."""

    width: float
    height: float
    across: Words  # the scale
    axis: Words | None
    rows: dict[str, Rows] = field(default_factory=dict)  # of each layer

    def of(self, name: str, rows: Rows, mark: str, encoding: Words, **style: Any) -> Words:
        """A layer; its marks stand in a group of the class `mark-… NAME_marks`."""
        self.rows[name] = rows
        return {"name": name, **layer(name, mark, encoding, **style)}

    @property
    def x(self) -> Words:
        """Across, from the field `x`."""
        return quantity("x", scale=self.across, axis=self.axis)

    @property
    def y(self) -> Words:
        """Down, from the field `y`."""
        return quantity("y", scale={"domain": [self.height, 0], "nice": False}, axis=None)

    def text(self, name: str, rows: Rows, at: float | None = None, **style: Any) -> Words:
        """Texts from the field `text`, at so many pixels from the left, or else where the field `x` says."""
        across = self.x if at is None else {"value": at}
        return self.of(name, rows, "text", {"x": across, "y": self.y, "text": kind("text")}, **style)

    def bars(self, name: str, rows: Rows, more: Words | None = None, **style: Any) -> Words:
        """Rectangles from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rect", {**self._across, **self._down, **(more or {})}, **style)

    def rules(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines across from `x` to `x2`."""
        return self.of(name, rows, "rule", {**self._across, "y": self.y}, **style)

    def posts(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines down from `y` to `y2`."""
        return self.of(name, rows, "rule", {"x": self.x, **self._down}, **style)

    def segments(self, name: str, rows: Rows, **style: Any) -> Words:
        """Lines from `x`, `y` to `x2`, `y2`."""
        return self.of(name, rows, "rule", {**self._across, **self._down}, **style)

    @property
    def _across(self) -> Words:
        return {"x": self.x, "x2": {"field": "x2"}}

    @property
    def _down(self) -> Words:
        return {"y": self.y, "y2": {"field": "y2"}}

    def drawn(self, *layers: Words) -> Drawing:
        """All layers together, the first one at the bottom."""
        return Drawing({"layer": list(layers), "width": self.width, "height": self.height}, self.rows)
