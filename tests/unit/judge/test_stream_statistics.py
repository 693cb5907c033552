"""Statistics of streams are computed from planted events."""

import numpy as np
import pytest

from under_siege.judge.stream_statistics import StreamStatistics, is_buffered
from under_siege.record.record import Streams

LOAD_S = 10.0


def steady(user: int, sent_s: float, count: int, gap_us: int, outcome: str = "") -> tuple[object, ...]:
    ended_s = LOAD_S if outcome == "open" else sent_s + 0.1 + (count - 1) * gap_us / 1e6
    return user, sent_s, ended_s, 100_000, [gap_us] * (count - 1), outcome


def of(*rows: tuple[object, ...]) -> StreamStatistics:
    return StreamStatistics(Streams(*map(list, zip(*rows, strict=True))), LOAD_S)


def test_rates_and_gaps_of_steady_streams() -> None:
    streams = of(*(steady(0, float(second), 10, 100_000) for second in range(10)))
    assert streams.rate.per_s == pytest.approx(10, rel=0.02)
    assert streams.per_s == pytest.approx(1, rel=0.15)
    assert streams.gaps.percentile(99) == pytest.approx(0.1)
    assert streams.first_events.percentile(50) == pytest.approx(0.1)
    assert streams.at_once == pytest.approx(0.9, rel=0.02)


def test_a_single_pause_is_found_in_the_percentile_of_a_hundred_gaps_and_in_the_maximum() -> None:
    gaps = [10_000] * 99 + [700_000]
    streams = of((0, 0.0, 2.0, 100_000, gaps, ""))
    assert streams.gaps.longest_s() == pytest.approx(0.7)
    assert streams.gaps.percentile(99) == pytest.approx(0.01)
    assert of((0, 0.0, 2.0, 100_000, [*gaps, 700_000], "")).gaps.percentile(99) == pytest.approx(0.7)


def test_a_stream_that_stalls_until_the_end_counts_as_a_wait_of_at_least_that_length() -> None:
    streams = of(*(steady(user, 0.0, 3, 100_000, "open") for user in range(4)))
    assert streams.gaps.percentile(99) is None
    assert streams.gaps.longest_s() == pytest.approx(LOAD_S - 0.3)
    nothing = of((0, 2.0, LOAD_S, -1, [], "open"))
    assert nothing.first_events.longest_s() == pytest.approx(8)
    assert nothing.first_events.percentile(50) is None
    assert nothing.rate.per_s is None


def test_failed_streams_do_not_count() -> None:
    one, failed = steady(0, 1.0, 60, 100_000), steady(1, 1.0, 60, 1_000, "failed")
    assert of(one, failed).rate == of(one).rate


@pytest.mark.parametrize(
    ("name", "events_s", "expected"),
    [
        ("steady", np.arange(1, 51) * 0.02, False),
        ("all at once", 1.0 + np.arange(50) * 1e-5, True),
        ("in groups of ten", np.repeat(np.arange(1, 6) * 0.2, 10) + np.tile(np.arange(10) * 1e-5, 5), True),
        ("fast rows", np.arange(1, 1001) * 5e-4, False),
        ("short", np.arange(1, 51) * 1e-4, False),
        ("random", np.cumsum(np.random.default_rng(1).exponential(0.02, 50)), False),
    ],
)
def test_only_events_that_are_held_back_are_buffered(name: str, events_s: np.ndarray, expected: bool) -> None:
    assert is_buffered(events_s.tolist()) is expected, name
