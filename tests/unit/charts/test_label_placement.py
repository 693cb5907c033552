"""Names beside points: none covers another, and those of points close to each other share a bracket."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from under_siege.charts.scatter import Box, Point, Room, placed

ROOM = Room(50, 700, 300, 15, 6.5)


def test_a_label_is_beside_its_point() -> None:
    (block,) = placed([Point(200, 100, "process pool")], ROOM)
    assert 0 < block.names.x - 200 < 20
    assert block.names.y < 100 < block.names.y2


def test_a_label_at_the_edge_is_on_the_other_side() -> None:
    (block,) = placed([Point(690, 100, "process pool")], ROOM)
    assert block.is_left
    assert block.names.x2 < 690


def test_close_points_share_a_bracket_in_order() -> None:
    points = [Point(200, 110, "lower"), Point(205, 100, "upper"), Point(500, 100, "far away")]
    blocks = placed(points, ROOM)
    assert sorted([point.text for point in block.points] for block in blocks) == [["far away"], ["upper", "lower"]]


def test_distant_points_never_share_a_bracket() -> None:
    points = [Point(200 + 165.0 * number, 100, "a name as long as the way to the next one") for number in range(3)]
    assert len(placed(points, ROOM)) == 3


def test_a_single_label_keeps_its_distance_from_a_bracket() -> None:
    names = ["thread pool", "one request at a time", "a plain def", "event loop itself"]
    close = [Point(600 + 5 * number, 200, name) for number, name in enumerate(names)]
    blocks = placed([*close, Point(430, 195, "event loop in slices")], ROOM)
    bracket, single = sorted(blocks, key=lambda block: -len(block.points))
    assert len(bracket.points) == 4
    assert not single.names.touches(bracket.names.wider(8, 5))


def test_a_label_is_nearest_to_its_own_point() -> None:
    first, second = placed([Point(300, 100, "loop in slices"), Point(360, 122, "greenlets")], ROOM)
    assert not first.names.touches(Box(353, 115, 367, 129).wider(5, 18))
    assert not second.names.touches(Box(293, 93, 307, 107).wider(5, 18))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(60, 690), st.floats(5, 295)), min_size=1, max_size=12))
def test_each_point_has_one_label_within_the_chart(places: list[tuple[float, float]]) -> None:
    points = [Point(x, y, f"strategy {number}") for number, (x, y) in enumerate(places)]
    blocks = placed(points, ROOM)
    assert sorted(point.text for block in blocks for point in block.points) == sorted(point.text for point in points)
    for block in blocks:
        assert block.names.y >= 0
    for one, other in itertools.combinations(blocks, 2):
        assert not set(one.points) & set(other.points)
