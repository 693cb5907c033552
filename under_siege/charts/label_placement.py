"""Place labels next to points without overlaps; labels of close points share a bracket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_DOT = 7.0  # pixels
_CLOSE = (26.0, 14.0)  # pixels across and down; closer points share a bracket
_WIDEST = 160.0  # pixels; larger groups get no bracket
_SHIFTS = (0.0, -6.0, 6.0, -10.0, 10.0, -13.0, 13.0, -18.0, 18.0, -23.0, 23.0)  # up and down from the point
# Pixels across and down: a name closer to another point or bracket than this seems to belong to it.
_APART = (5.0, 18.0)


@dataclass(frozen=True, slots=True)
class Point:
    """A point with a label; in pixels, y downwards."""

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
    """One point, or several that share a bracket, with their names below each other."""

    points: tuple[Point, ...]
    is_left: bool  # left of the points
    names: Box

    @property
    def edge(self) -> float:
        """Return where the names begin, or end if they are on the left."""
        return self.names.x2 if self.is_left else self.names.x


@dataclass(frozen=True, slots=True)
class Room:
    """The sizes of the chart and the letters."""

    left: float
    width: float
    height: float
    line: float  # the height of a line
    letter: float  # the width of a letter


def placed(points: Sequence[Point], room: Room, lines: Sequence[Box] = ()) -> list[Block]:
    """Return a block for each group of close points; groups whose names would overlap are joined.

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
    """Join two groups, sorted from top to bottom, or from left to right if they are side by side."""
    both = [*groups[one], *groups.pop(other)]
    wide, high = (max(side) - min(side) for side in ([point.x for point in both], [point.y for point in both]))
    groups[one] = sorted(both, key=lambda point: (point.x, point.y) if wide > high else (point.y, point.x))


def _to_join(groups: Sequence[Sequence[Point]], blocks: Sequence[Block]) -> tuple[int, int] | None:
    """Return the first two groups that are close to each other, or whose names overlap and that are not far apart."""
    pairs = [(one, other) for other in range(len(groups)) for one in range(other)]
    if not blocks:
        return next((pair for pair in pairs if _are_within(groups, pair, *_CLOSE)), None)
    cover = [pair for pair in pairs if blocks[pair[0]].names.touches(blocks[pair[1]].names)]
    return next((pair for pair in cover if _spread(groups, pair) <= _WIDEST), None)


def _are_within(groups: Sequence[Sequence[Point]], pair: tuple[int, int], across: float, down: float) -> bool:
    one, other = groups[pair[0]], groups[pair[1]]
    return any(abs(a.x - b.x) < across and abs(a.y - b.y) < down for a in one for b in other)


def _spread(groups: Sequence[Sequence[Point]], pair: tuple[int, int]) -> float:
    """Return the largest distance between points of both groups, horizontal or (doubled) vertical."""
    both = [*groups[pair[0]], *groups[pair[1]]]
    sides = [point.x for point in both], [2 * point.y for point in both]
    return max(max(side) - min(side) for side in sides)


def _blocks(
    groups: Sequence[Sequence[Point]], points: Sequence[Point], room: Room, lines: Sequence[Box]
) -> list[Block]:
    """Place each block where it covers the least, larger groups first."""
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


def _cost(block: Block, taken: Sequence[Box], near: Sequence[Box], lines: Sequence[Box], room: Room) -> float:
    box = block.names
    outside = max(0.0, room.left - box.x) + max(0.0, box.x2 - room.width)
    middle = (min(point.y for point in block.points) + max(point.y for point in block.points)) / 2
    shifted = abs((box.y + box.y2) / 2 - middle)
    crossed = sum(map(box.touches, lines))
    covered, odd = sum(map(box.touches, taken)), sum(map(box.touches, near))
    return 1000 * covered + 100 * outside + 80 * odd + 60 * crossed + shifted + 3 * block.is_left


def _label_box(group: Sequence[Point], room: Room, shift: float, *, is_left: bool) -> Box:
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
