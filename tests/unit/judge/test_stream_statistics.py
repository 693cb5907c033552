"""Statistics of streams are computed from planted events."""

from typing import Any

import numpy as np
import pytest

from under_siege.judge.estimators import Rows
from under_siege.judge.stream_statistics import StreamStatistics, is_buffered
from under_siege.record.requests import CORRECT, LATE, LOAD, LOST, OPEN, WRONG, Outcome, Requests

LOAD_S = 10.0


def stream(
    sent_s: float, ended_s: float, first_us: int, gaps_us: list[int], outcome: Outcome = CORRECT
) -> dict[str, Any]:
    return {"sent_s": sent_s, "ended_s": ended_s, "outcome": outcome, "events": (first_us, gaps_us)}


def steady(sent_s: float, count: int, gap_us: int, outcome: Outcome = CORRECT) -> dict[str, Any]:
    ended_s = LOAD_S if outcome == OPEN else sent_s + 0.1 + (count - 1) * gap_us / 1e6
    return stream(sent_s, ended_s, 100_000, [gap_us] * (count - 1), outcome)


def of(*streams: dict[str, Any]) -> StreamStatistics:
    requests = Requests()
    for number, row in enumerate(streams):
        requests.add(LOAD, user=number, **row)
    return StreamStatistics(Rows.of(requests, LOAD), LOAD_S)


def test_rates_and_gaps_of_steady_streams() -> None:
    streams = of(*(steady(float(second), 10, 100_000) for second in range(10)))
    assert streams.rate.per_s == pytest.approx(10, rel=0.02)
    assert streams.per_s == pytest.approx(1, rel=0.15)
    assert streams.gaps.percentile(99) == pytest.approx(0.1)
    assert streams.first_events.percentile(50) == pytest.approx(0.1)
    assert streams.at_once == pytest.approx(0.9, rel=0.02)


def test_a_single_pause_is_found_in_the_percentile_of_a_hundred_gaps_and_in_the_maximum() -> None:
    gaps = [10_000] * 98 + [700_000]
    streams = of(stream(0.0, 2.0, 100_000, gaps))
    assert streams.gaps.longest_s() == pytest.approx(0.7)
    assert streams.gaps.percentile(98) == pytest.approx(0.01)
    assert streams.gaps.percentile(99) > 0.3
    assert of(stream(0.0, 2.0, 100_000, [*gaps, 700_000])).gaps.percentile(99) == pytest.approx(0.7)


def test_a_stream_that_stalls_until_the_end_counts_as_a_wait_of_at_least_that_length() -> None:
    streams = of(*(steady(0.0, 3, 100_000, OPEN) for _ in range(4)))
    assert streams.gaps.percentile(99) is None
    assert streams.gaps.longest_s() == pytest.approx(LOAD_S - 0.3)
    nothing = of(stream(2.0, LOAD_S, -1, [], OPEN))
    assert nothing.first_events.longest_s() == pytest.approx(8)
    assert nothing.first_events.percentile(50) is None
    assert nothing.rate.per_s is None


def test_failed_streams_do_not_count() -> None:
    one, failed = steady(1.0, 60, 100_000), steady(1.0, 60, 1_000, LOST)
    assert of(one, failed).rate == of(one).rate


@pytest.mark.parametrize("outcome", [LOST, LATE, WRONG])
def test_the_last_gap_of_a_failed_stream_never_ends(outcome: Outcome) -> None:
    """Let 2 of 100 streams fail after one event: the 99th percentile of the gaps is unknown, the median is not."""
    sound = [steady(0.0, 2, 100_000) for _ in range(98)]
    failed = [stream(0.0, 0.1, 100_000, [], outcome) for _ in range(2)]
    streams = of(*sound, *failed)
    assert streams.gaps.percentile(50) == pytest.approx(0.1)
    assert streams.gaps.percentile(99) is None
    assert streams.gaps.longest_s() == pytest.approx(0.1)


@pytest.mark.parametrize("outcome", [LOST, LATE, WRONG])
def test_the_first_event_of_a_failed_stream_counts_as_a_wait_without_an_end(outcome: Outcome) -> None:
    streams = of(*(stream(0.0, 3.0, first_us, [], outcome) for first_us in (-1, 100_000)), steady(0.0, 2, 100_000))
    assert streams.first_events.answered.tolist() == [False, False, True]
    assert streams.first_events.percentile(50) is None
    early = [stream(0.0, 3.0, 1_000, [], outcome) for _ in range(4)]
    assert of(*early, *(steady(0.0, 2, 100_000) for _ in range(6))).first_events.percentile(90) is None


def test_a_first_event_includes_the_time_by_which_the_client_sent_the_request_late() -> None:
    late = stream(1.0, 2.0, 100_000, []) | {"due_s": 0.6}
    assert of(late).first_events.percentile(50) == pytest.approx(0.5)


@pytest.mark.parametrize(("lasts_s", "late_s", "users"), [(3.0, 2.0, 20), (4.0, 3.2, 40)])
def test_streams_whose_first_event_comes_late_do_not_bias_the_rate(lasts_s: float, late_s: float, users: int) -> None:
    """Let the users begin together, so that no event arrives in the first seconds of the load."""
    rows = []
    for begun_s in np.arange(users) * lasts_s / users:
        for sent_s in np.arange(begun_s, LOAD_S, lasts_s):
            gaps_us = [round((lasts_s - late_s) / 10 * 1e6)] * 9
            arrived = int(np.clip((LOAD_S - sent_s - late_s) / (gaps_us[0] / 1e6), -1, 9))
            outcome = CORRECT if sent_s + lasts_s <= LOAD_S else OPEN
            first_us = round(late_s * 1e6) if arrived >= 0 and sent_s + late_s <= LOAD_S else -1
            rows.append(stream(sent_s, min(sent_s + lasts_s, LOAD_S), first_us, gaps_us[: max(0, arrived)], outcome))
    streams = of(*rows)
    assert streams.rate.per_s == pytest.approx(10 * users / lasts_s, rel=0.04)
    assert streams.at_once == pytest.approx(users * (lasts_s - late_s) / lasts_s, rel=0.05)


def test_streams_longer_than_the_load_have_no_rate_unless_their_events_arrive_evenly() -> None:
    late = of(*(stream(0.0, LOAD_S, 8_000_000, [50_000] * 20, OPEN) for _ in range(5)))
    assert late.rate.per_s is None
    assert "load.events" in late.rate.too_short
    even = of(*(stream(0.0, LOAD_S, 10_000 * number, [100_000] * 98, OPEN) for number in range(1, 11)))
    assert even.rate.per_s == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(
    ("name", "events_s", "expected"),
    [
        ("steady", np.arange(1, 51) * 0.02, False),
        ("all at once", 1.0 + np.arange(50) * 1e-5, True),
        ("in groups of ten", np.repeat(np.arange(1, 6) * 0.2, 10) + np.tile(np.arange(10) * 1e-5, 5), True),
        ("fast rows", np.arange(1, 1001) * 5e-4, False),
        ("short", np.arange(1, 51) * 1e-4, False),
        ("ten tokens 20 ms apart after 2 s of thinking", 2.0 + np.arange(10) * 0.02, False),
        ("a pause of 5 s", np.concatenate((np.arange(1, 26) * 0.02, 5.5 + np.arange(25) * 0.02)), False),
        ("three events in each step", np.repeat(np.arange(1, 31) * 0.05, 3) + np.tile(np.arange(3) * 1e-5, 30), False),
        ("random", np.cumsum(np.random.default_rng(1).exponential(0.02, 50)), False),
    ],
)
def test_only_events_that_are_held_back_are_buffered(name: str, events_s: np.ndarray, expected: bool) -> None:
    assert is_buffered(events_s.tolist()) is expected, name
