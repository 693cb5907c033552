"""Intervals, ranks, the conclusion, enough rounds, and two results side by side."""

import numpy as np
import pytest
from scipy import stats
from simulated_record import bare_record, record_of, result_of

from common.errors import BadInputError
from common.report.certainty import uncertain
from common.report.compare import check_comparable, refuse_to_mix, sides
from common.report.conclusion import conclusion
from common.report.intervals import differs, mean_interval, ratio_interval, ratio_of_means
from common.report.summary import summarize

ROUNDS = (1, 2, 3)
NOISE = (1.0, 1.004, 0.997)


def three_rounds(*servers: tuple[str, int, float], noise=NOISE, **environment):
    """Servers (name, workers, speed) and the bare case in three rounds, each round as fast as the noise says."""
    records = [bare_record(round_, speed=factor) for round_, factor in zip(ROUNDS, noise, strict=True)]
    for server, workers, speed in servers:
        for round_, factor in zip(ROUNDS, noise, strict=True):
            record = record_of(server, round_, workers=workers, speed=speed * factor, idle_answer_s=0.11)
            record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
            record.machine = None
            records.append(record)
    return result_of(records, **environment)


def test_the_interval_of_a_mean_is_students() -> None:
    values = [26.1, 26.9, 25.8, 26.4]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    interval = mean_interval(values)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert mean_interval([26.1]).low is None
    assert mean_interval([]) is None


def test_the_interval_of_a_ratio_pairs_the_rounds() -> None:
    restless = [(10.0, 5.0), (20.0, 10.1), (40.0, 19.8)]  # the machine was slow, faster, fast
    ratio = ratio_interval(restless)
    assert ratio.mean == pytest.approx(2.0, rel=0.01)
    assert differs(ratio)
    assert not differs(ratio_of_means([10, 20, 40], [5, 10.1, 19.8]))  # unpaired nothing can be said


def test_welchs_interval() -> None:
    new, base = [10.2, 10.4, 10.1], [5.0, 5.2, 5.1]
    low, high = stats.ttest_ind(np.log(new), np.log(base), equal_var=False).confidence_interval(0.95)
    ratio = ratio_of_means(new, base)
    assert (ratio.low, ratio.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert ratio_of_means([2.0, 2.0], [1.0, 1.0]).low == 2.0
    assert ratio_of_means([2.0], [1.0]).low is None


def test_differences_smaller_than_our_accuracy_are_none() -> None:
    assert not differs(ratio_interval([(1.01, 1.0), (1.0101, 1.0), (1.0099, 1.0)]))
    assert differs(ratio_interval([(1.05, 1.0), (1.0501, 1.0), (1.0499, 1.0)]))


def test_ranks_are_shared_where_the_difference_is_noise() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0), ("4_d", 1, 0.8))
    ranks = {case.server: case.rank for case in summarize(result).cases}
    assert ranks == {"3_c": 1, "1_a": 2, "2_b": 2, "4_d": 4}


def test_one_round_ranks_nothing() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    result.records[:] = [record for record in result.records if record.round == 1]
    assert [case.rank for case in summarize(result).cases] == [None, None]
    assert "One round can't tell a difference from noise" in conclusion(summarize(result))[0]


def test_the_conclusion_says_who_is_fastest_what_pings_take_and_what_is_undecided() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0))
    for record in result.records:
        if record.server in ("1_a", "2_b"):
            record.pings.waited_s[:] = [0.4] * 80
    (text,) = conclusion(summarize(result))
    assert text == (
        "3_c is the fastest with 20.0/s, 100 % of what this machine can do at all, 2.00 times the next best. "
        "Pings stay below the 100 ms that one task takes (p99) with 3_c (2.0 ms); with the others they take 400 ms. "
        "The fastest takes 50 MB of memory, the others 25 MB. "
        "Which of 1_a or 2_b does more could not be decided."
    )


def test_the_conclusion_calls_a_tie_a_tie() -> None:
    (text,) = conclusion(summarize(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0))))
    assert text.startswith("No strategy is faster than another beyond the noise: all reach about 10.0/s")


def test_the_conclusion_leaves_out_what_can_not_be_trusted() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_liar", 2, 41.0))
    (text,) = conclusion(summarize(result))
    assert text.endswith("Not compared, because suspect or failed: 3_liar.")
    assert "3_liar is the fastest" not in text


def test_more_rounds_go_where_the_noise_is() -> None:
    calm = three_rounds(("1_a", 1, 1.0))
    assert uncertain(calm) == set()
    restless = three_rounds(("1_a", 1, 1.0), noise=(1.0, 1.2, 0.9))
    assert uncertain(restless) == {("1_a", "primes", 5, "3.11.7")}
    calm.records[:] = [record for record in calm.records if record.round < 3]
    assert uncertain(calm) == {("1_a", "primes", 5, "3.11.7")}


def test_nothing_changed_between_a_result_and_itself() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    for side in sides(result, result):
        assert not side.is_worse
        assert not any(change.is_more_than_noise for change in side.changes)


def test_slower_is_worse_and_faster_is_not() -> None:
    base, slower = three_rounds(("1_a", 1, 1.0)), three_rounds(("1_a", 1, 0.8))
    (side,) = sides(base, slower)
    assert side.is_worse
    assert side.changes[0].is_worse
    assert side.changes[0].text() == "10.0 → 8.00 (-20 %)"
    (side,) = sides(slower, base)
    assert side.changes[0].is_more_than_noise
    assert not side.changes[0].is_worse


def test_more_memory_and_longer_pings_are_worse() -> None:
    base, new = three_rounds(("1_a", 1, 1.0)), three_rounds(("1_a", 1, 1.0))
    for record in new.records:
        record.pings.waited_s[:] = [0.5] * 80
        record.samples.memory_bytes[:] = [2 * size for size in record.samples.memory_bytes]
    (side,) = sides(base, new)
    worse = {change.measure.heading for change in side.changes if change.is_worse}
    assert worse == {"ping p99", "memory"}


def test_a_case_that_fails_now_or_is_gone_is_worse() -> None:
    base = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0))
    new = three_rounds(("1_a", 1, 1.0))
    gone = {side.key[0]: side.is_worse for side in sides(base, new)}
    assert gone == {"1_a": False, "2_b": True}
    assert not any(side.is_worse for side in sides(new, base))  # a new one is no harm


def test_other_machines_tasks_or_users_are_not_compared_unless_told_to() -> None:
    base = three_rounds(("1_a", 1, 1.0))
    other = three_rounds(("1_a", 1, 1.0), cpu_model="another CPU")
    with pytest.raises(BadInputError, match=r"different CPUs \(a CPU and another CPU\); --anyway"):
        check_comparable(base, other, anyway=False)
    check_comparable(base, other, anyway=True)
    check_comparable(base, base, anyway=False)
    for record in other.records:
        record.task = "digest"
    assert "different tasks (primes and digest), different CPUs" in refuse_to_mix(base, other)
