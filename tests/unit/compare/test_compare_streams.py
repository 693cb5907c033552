"""Comparisons of streams: with whole responses, and between runs at different CPU speeds."""

import numpy as np
import pytest
from rows import keep_first, places
from simulated_results import SLOW, a_result, judgements

from common.errors import BadInputError
from under_siege.compare.diff import check_comparable, compare_results
from under_siege.record.requests import LOAD
from under_siege.record.result import Result

EVENTS, GAP_S, FIRST_S = 20, 0.004, 0.01


def streams(seed: int, speed: float = 1.0) -> Result:
    """Return a result of streams whose events are CPU work, on a machine of this speed."""
    result, rng = a_result(("1_a", 1, 1.0), seed=seed, speeds=(speed,) * 3), np.random.default_rng(seed)
    for record in result.records:
        if record.is_ceiling:
            continue
        keep_first(record, len(places(record.requests)))
        requests = record.requests
        record.stream, record.has_ceiling, record.has_task = "sse", False, False
        record.alone_at_s, record.alone_wall_s, record.alone_cpu_s, record.alone_on_cpu = [], [], [], []
        requests.first_us.extend([-1] * len(requests))
        requests.gaps_us.extend([] for _ in range(len(requests)))
        for index in places(requests, LOAD):
            jitter = rng.uniform(0.98, 1.02, EVENTS)
            requests.first_us[index] = int(1e6 * FIRST_S / speed * jitter[0])
            requests.gaps_us[index] = (1e6 * GAP_S / speed * jitter[1:]).astype(int).tolist()
    result.records[:] = [record for record in result.records if not record.is_ceiling]
    return result


def test_streams_are_not_compared_with_whole_responses() -> None:
    with pytest.raises(BadInputError, match=r"kinds of responses \(sse and whole responses\)"):
        check_comparable(streams(1), a_result(("1_a", 1, 1.0)), force=True)
    check_comparable(streams(1), streams(2), force=False)


@pytest.mark.parametrize("back", [False, True])
def test_gaps_that_a_slower_cpu_explains_are_undecided(back: bool) -> None:
    pair = [streams(1), streams(2, speed=SLOW)]
    found = compare_results(*(reversed(pair) if back else pair))
    judged = judgements(found)["1_a"]
    assert (judged["first_event_p99_s"], judged["gap_p99_s"]) == ("undecided", "undecided")
    assert found.exit_code == 3


def test_equal_gaps_at_the_same_cpu_speed_do_not_differ() -> None:
    judged = judgements(compare_results(streams(1), streams(2)))["1_a"]
    assert (judged["first_event_p99_s"], judged["gap_p99_s"]) == ("no difference", "no difference")
