"""Draw throughput against cost or ping latency, as points with labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from under_siege import formatting
from under_siege.judge.case_names import plain_name, short
from under_siege.judge.summary import Interval, Summary
from under_siege.judge.verdict_rules import OK
from under_siege.show.canvas import Drawing, Sheet, Theme, either
from under_siege.show.columns import NO_SERVER

_DOT = 7.0  # half of the width of a point in pixels
_CLOSE = (26.0, 14.0)  # points within these distances (horizontal and vertical, in pixels) share a bracket
# Maximum `_spread`, in pixels, of groups that are joined because their names overlap, or because they are ambiguous.
_WIDEST, _WIDEST_AMBIGUOUS = 160.0, 80.0
# Vertical offsets to try for names, in pixels.
_SHIFTS = (0.0, -6.0, 6.0, -10.0, 10.0, -13.0, 13.0, -18.0, 18.0, -23.0, 23.0)
# A name within these distances (horizontal and vertical, in pixels) of another point seems to belong to it.
_APART = (5.0, 18.0)

_HEIGHT, _LINE, _LETTER = 340, 15.0, 6.5  # height of the plot and of a line of text, and width of a letter, in pixels
_LEFT, _FOOT = 54, 40  # margins for the axes, in pixels
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A point with a label. Positions are in pixels, and y increases downwards."""

    x: float
    y: float
    text: str
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    x: float
    y: float
    x2: float
    y2: float

    def wider(self, across: float, down: float) -> Box:
        return Box(self.x - across, self.y - down, self.x2 + across, self.y2 + down)

    def touches(self, other: Box) -> bool:
        return self.x < other.x2 and other.x < self.x2 and self.y < other.y2 and other.y < self.y2


@dataclass(frozen=True, slots=True)
class Block:
    """One point, or several that share a bracket, with their names in a column."""

    points: tuple[Point, ...]
    is_left: bool  # whether names are to the left of the points
    names: Box

    @property
    def edge(self) -> float:
        """Return the horizontal position where names begin, or where they end if they are on the left."""
        return self.names.x2 if self.is_left else self.names.x


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The size of the chart and of its letters."""

    left: float
    width: float
    height: float
    line: float  # line height
    letter: float  # letter width


def placed(points: Sequence[Point], room: PlotArea, lines: Sequence[Box] = ()) -> list[Block]:
    """Place the names of each group of close points in a block; join groups that can be confused.

    Args:
        lines: lines that names should not cross if there is room elsewhere.
    """
    groups = [[point] for point in points]
    while (pair := _to_join(groups, [])) is not None:
        _join(groups, *pair)
    while True:
        blocks = _blocks(groups, points, room, lines)
        pair = _to_join(groups, blocks)
        if pair is None:
            return blocks
        _join(groups, *pair)


def _join(groups: list[list[Point]], one: int, other: int) -> None:
    """Join two groups, and sort the points from top to bottom or, if the group is wide, from left to right."""
    both = [*groups[one], *groups.pop(other)]
    wide, high = (max(side) - min(side) for side in ([point.x for point in both], [point.y for point in both]))
    groups[one] = sorted(both, key=lambda point: (point.x, point.y) if wide > high else (point.y, point.x))


def _to_join(groups: Sequence[Sequence[Point]], blocks: Sequence[Block]) -> tuple[int, int] | None:
    """Return which two groups to join, if any: close ones or, once blocks are placed, ones that can be confused."""
    pairs = [(one, other) for other in range(len(groups)) for one in range(other)]
    if not blocks:
        return next((pair for pair in pairs if _are_within(groups, pair, *_CLOSE)), None)
    for pair in pairs:
        one, other = (blocks[number] for number in pair)
        widest = _WIDEST if one.names.touches(other.names) else _WIDEST_AMBIGUOUS if _is_ambiguous(one, other) else 0.0
        if _spread(groups, pair) < widest:
            return pair
    return None


def _is_ambiguous(one: Block, other: Block) -> bool:
    """Return whether the names of a block seem to belong to a point of the other block."""
    sides = ((one, other.points), (other, one.points))
    return any(block.names.touches(_dot(point).wider(*_APART)) for block, points in sides for point in points)


def _are_within(groups: Sequence[Sequence[Point]], pair: tuple[int, int], across: float, down: float) -> bool:
    one, other = groups[pair[0]], groups[pair[1]]
    return any(abs(a.x - b.x) < across and abs(a.y - b.y) < down for a in one for b in other)


def _spread(groups: Sequence[Sequence[Point]], pair: tuple[int, int]) -> float:
    """Return the width of both groups together, or twice their height if that is more."""
    both = [*groups[pair[0]], *groups[pair[1]]]
    sides = [point.x for point in both], [2 * point.y for point in both]
    return max(max(side) - min(side) for side in sides)


def _blocks(
    groups: Sequence[Sequence[Point]], points: Sequence[Point], room: PlotArea, lines: Sequence[Box]
) -> list[Block]:
    """Place each block where it overlaps the least, starting with the largest groups."""
    found: dict[int, Block] = {}
    for place in sorted(range(len(groups)), key=lambda number: -len(groups[number])):
        group = groups[place]
        dots = [_dot(point) for point in points if point not in group]
        taken = dots + [block.names for block in found.values()]
        brackets = [block.names.wider(8.0, _APART[0]) for block in found.values() if len(block.points) > 1]
        near = [*brackets, *(dot.wider(*_APART) for dot in dots)] if len(group) == 1 else []
        candidates = [
            Block(tuple(group), is_left, _label_box(group, room, away, is_left=is_left))
            for is_left in (False, True)
            for away in _SHIFTS
        ]
        found[place] = min(candidates, key=lambda block: _cost(block, taken, near, lines, room))
    return [found[place] for place in range(len(groups))]


def _cost(block: Block, taken: Sequence[Box], near: Sequence[Box], lines: Sequence[Box], room: PlotArea) -> float:
    box = block.names
    outside = max(0.0, room.left - box.x) + max(0.0, box.x2 - room.width)
    middle = (min(point.y for point in block.points) + max(point.y for point in block.points)) / 2
    shifted = abs((box.y + box.y2) / 2 - middle)
    crossed = sum(map(box.touches, lines))
    covered, odd = sum(map(box.touches, taken)), sum(map(box.touches, near))
    return 1000 * covered + 100 * outside + 80 * odd + 60 * crossed + shifted + 3 * block.is_left


def _label_box(group: Sequence[Point], room: PlotArea, shift: float, *, is_left: bool) -> Box:
    wide = max(room.letter * (1.12 if point.is_best else 1.0) * len(point.text) for point in group)
    high = room.line * len(group)
    away = _DOT + 7 + 8 * (len(group) > 1)
    middle = (min(point.y for point in group) + max(point.y for point in group)) / 2
    top = min(max(0.0, middle - high / 2 + shift * (1 if len(group) == 1 else 2.5)), max(0.0, room.height - high))
    if is_left:
        edge = min(point.x for point in group) - away
        return Box(edge - wide, top, edge, top + high)
    edge = max(point.x for point in group) + away
    return Box(edge, top, edge + wide, top + high)


def _dot(point: Point) -> Box:
    return Box(point.x - _DOT, point.y - _DOT, point.x + _DOT, point.y + _DOT)


@dataclass(frozen=True, slots=True)
class CostAxis:
    """The horizontal axis, on which lower values are better."""

    value: Callable[[Summary], float | None]
    text: Callable[[float], str]
    title: str
    best: str  # metric name, as in `Summary.best`
    is_logarithmic: bool = False
    edges: Callable[[Summary], tuple[float | None, float | None]] = lambda _: (None, None)

    def span(self, cases: Sequence[Summary]) -> tuple[float, float]:
        values = [value for case in cases if (value := self.value(case))]
        edges = [edge for case in cases for edge in self.edges(case) if edge and edge != math.inf]
        if self.is_logarithmic:
            return min([*values, *edges]) * 0.7, max([*values, *edges]) * 1.4
        return 0.0, 1.15 * max(values)

    def share(self, value: float, span: tuple[float, float]) -> float:
        low, high = span
        if self.is_logarithmic:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def ticks(self, span: tuple[float, float]) -> list[float]:
        if self.is_logarithmic:
            powers = range(math.ceil(math.log10(span[0])), math.floor(math.log10(span[1])) + 1)
            return [10.0**power for power in powers]
        return formatting.ticks(span[1], 6)


class _Scatter:
    def __init__(self, cases: Sequence[Summary], across: CostAxis, ceiling: Summary | None, theme: Theme) -> None:
        self.theme, self.across, self.ceiling = theme, across, ceiling
        self.cases = [case for case in cases if across.value(case) and case.usual_rate_per_s]
        self.width, self.height = theme.width - _LEFT - 12.0, (theme.height or _HEIGHT + _FOOT) - _FOOT
        self.span = across.span(self.cases)
        rates = [case.usual_rate_per_s for case in self.cases if case.verdict == OK] or [1.0]
        limit = [_edges(ceiling.rate_per_s)[1] or ceiling.usual_rate_per_s] if ceiling else []
        self.most = 1.12 * max([*rates, *limit])

    def x(self, value: float) -> float:
        return _LEFT + self.width * min(1.0, max(0.0, self.across.share(value, self.span)))

    def y(self, rate: float) -> float:
        return self.height * (1 - min(rate, self.most) / self.most)

    def is_best(self, case: Summary) -> bool:
        return case.rank == 1 and self.across.best in case.best

    def blocks(self) -> list[Block]:
        room = PlotArea(_LEFT, _LEFT + self.width, self.height, _LINE, _LETTER)
        at, _, texts = self.limit()
        lines = [Box(row["x"] - 1, row["y2"] - 1, row["x2"] + 1, row["y"] + 1) for row in (*self.intervals(), *at)]
        lines += [Box(row["x"] - _LETTER * len(row["text"]), row["y"] - 8, row["x"], row["y"] + 8) for row in texts]
        return placed([self._point(case) for case in self.cases], room, lines)

    def _point(self, case: Summary) -> Point:
        value = self.across.value(case)
        assert value is not None
        name = plain_name(case, self.cases)
        if self.theme.is_narrow:
            if short(case.server).isdecimal():  # the file name is shorter: `4 processexecutor`
                name = name.replace(plain_name(case, self.cases), case.server.replace("_async_", " ").replace("_", " "))
            name = name if len(name) <= 17 else f"{name[:16]}…"
        elif not self.theme.is_slide and name != case.server:
            name = f"{name} ({short(case.server)})"
        flag = "" if case.verdict == OK else f" ({case.verdict})"
        star = "★ " if self.is_best(case) else ""
        figure = "" if self.theme.is_slide else f": {self.across.text(value)}"
        text = f"{star}{name}{flag}{figure}"
        return Point(self.x(value), self.y(case.usual_rate_per_s), text, self.is_best(case))

    def dots(self) -> list[Row]:
        ranked = any(case.rank == 1 for case in self.cases)
        return [
            {
                "x": self.x(self.across.value(case) or 0),
                "y": self.y(case.usual_rate_per_s),
                "strong": case.rank == 1 or not ranked,
            }
            for case in self.cases
        ]

    def intervals(self) -> list[Row]:
        rows = []
        for case, dot in zip(self.cases, self.dots(), strict=True):
            low, high = self.across.edges(case)
            if low and high and high != math.inf:
                rows.append({"x": self.x(low), "x2": self.x(high), "y": dot["y"], "y2": dot["y"]})
            low, high = _edges(case.rate_per_s)
            if low is not None and high is not None:
                rows.append({"x": dot["x"], "x2": dot["x"], "y": self.y(max(0.0, low)), "y2": self.y(high)})
        return rows

    def grid(self) -> tuple[list[Row], list[Row], list[Row]]:
        lines: list[Row] = []
        below, left = [], []
        for value in self.across.ticks(self.span):
            lines.append({"x": self.x(value), "x2": self.x(value), "y": 0, "y2": self.height})
            below.append({"x": self.x(value), "y": self.height + 12, "text": self.across.text(value) if value else "0"})
        for rate in formatting.ticks(self.most, 5):
            lines.append({"x": _LEFT, "x2": _LEFT + self.width, "y": self.y(rate), "y2": self.y(rate)})
            left.append({"x": _LEFT - 6, "y": self.y(rate), "text": f"{rate:,g}"})
        return lines, below, left

    def limit(self) -> tuple[list[Row], list[Row], list[Row]]:
        if self.ceiling is None or self.ceiling.rate_per_s is None:
            return [], [], []
        at, (low, high) = self.y(self.ceiling.usual_rate_per_s), _edges(self.ceiling.rate_per_s)
        across = {"x": _LEFT, "x2": _LEFT + self.width}
        band = [{**across, "y": self.y(high), "y2": self.y(low)}] if low is not None and high is not None else []
        source = "without a server" if self.ceiling.server == NO_SERVER else f"with {self.ceiling.server}"
        text = "ceiling" if self.theme.is_narrow else f"ceiling: the same load {source}"
        return (
            [{**across, "y": at, "y2": at}],
            band,
            [{"x": _LEFT + self.width - 4, "y": self.y(high or self.ceiling.usual_rate_per_s) - 8, "text": text}],
        )


def scatter(cases: Sequence[Summary], across: CostAxis, ceiling: Summary | None, theme: Theme) -> Drawing:
    """Draw throughput against a cost, with a labelled point for each case; cases that are best in both get a star."""
    drawn = _Scatter(cases, across, ceiling, theme)
    blocks = drawn.blocks()
    width = theme.width - 4
    sheet = Sheet(width, drawn.height + _FOOT, {"domain": [0, width], "nice": False}, None)
    lines, below, left = drawn.grid()
    at, band, texts = drawn.limit()
    titles = [
        {"x": _LEFT + drawn.width / 2, "y": drawn.height + 30, "text": f"← {across.title}: less is better"},
    ]
    strong = either("datum.strong", theme.work, theme.mute)
    bold: dict[str, Any] = {"color": theme.ink, "fontSize": 12}
    small: dict[str, Any] = {"color": theme.quiet, "fontSize": 11}
    return sheet.drawn(
        sheet.segments("grid", lines, color=theme.grid),
        sheet.bars("ceiling_interval", band, color=theme.limit, opacity=0.12),
        sheet.segments("ceiling", at, color=theme.limit, strokeWidth=2, strokeDash=[5, 3]),
        sheet.text("ceiling_label", texts, align="right", color=theme.ink, fontSize=11),
        sheet.segments("intervals", drawn.intervals(), color=theme.quiet, strokeWidth=1.2),
        sheet.of("points", drawn.dots(), "circle", {"x": sheet.x, "y": sheet.y, "color": strong}, size=130, opacity=1),
        sheet.segments("brackets", list(_brackets(blocks)), color=theme.quiet, strokeWidth=1.2),
        *(
            sheet.text(
                f"{halo}names_{side}_{'best' if best else 'rest'}",
                _names(blocks, is_left=side == "left", is_best=best),
                align="right" if side == "left" else "left",
                fontWeight="bold" if best else "normal",
                **style,
            )
            for side in ("left", "right")
            for best in (True, False)
            for halo, style in (("halo_", {**bold, "stroke": theme.paper, "strokeWidth": 4}), ("", bold))
        ),
        sheet.text("below", below, **small),
        sheet.text("left", left, align="right", **small),
        sheet.text("titles", titles, **small),
        sheet.text("upright", [{"x": 10, "y": drawn.height / 2, "text": _upright(theme)}], angle=270, **small),
    )


def _upright(theme: Theme) -> str:
    return "responses per second: more is better →" if not theme.is_slide else "responses per second →"


def _brackets(blocks: Sequence[Block]) -> Iterator[Row]:
    for block in blocks:
        if len(block.points) < 2:
            continue
        x, tick = (block.names.x2 + 4, 5) if block.is_left else (block.names.x - 4, -5)
        top, bottom = min(point.y for point in block.points) - 7, max(point.y for point in block.points) + 7
        top, bottom = min(top, block.names.y + 2), max(bottom, block.names.y2 - 2)
        yield {"x": x, "x2": x, "y": top, "y2": bottom}
        for y in (top, bottom):
            yield {"x": x, "x2": x + tick, "y": y, "y2": y}


def _names(blocks: Sequence[Block], *, is_left: bool, is_best: bool) -> list[Row]:
    return [
        {"x": block.edge, "y": block.names.y + _LINE * (line + 0.5), "text": point.text}
        for block in blocks
        for line, point in enumerate(block.points)
        if block.is_left == is_left and point.is_best == is_best
    ]


def _edges(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def memory_chart(cases: Sequence[Summary], theme: Theme) -> Drawing:
    """Draw throughput against memory."""
    across = CostAxis(_memory_bytes, formatting.megabytes, "memory", "memory_bytes")
    return scatter(cases, across, None, theme)


def tradeoff_chart(cases: Sequence[Summary], ceiling: Summary | None, theme: Theme) -> Drawing:
    """Draw throughput against the 99th percentile of ping latency."""
    across = CostAxis(_ping_p99_s, formatting.seconds, "ping p99", "ping_p99_s", True, _ping_edges)
    return scatter(cases, across, ceiling, theme)


def _memory_bytes(case: Summary) -> float | None:
    return case.memory_bytes


def _ping_p99_s(case: Summary) -> float | None:
    return None if case.ping_s is None else case.ping_s.p99 or case.ping_s.max


def _ping_edges(case: Summary) -> tuple[float | None, float | None]:
    return (None, None) if case.ping_s is None else (case.ping_s.p99_low, case.ping_s.p99_high)
