"""Comparisons of two results: better, worse, gone, undecided and incomparable cases."""

import msgspec
import pytest
from rows import set_waits
from simulated_record import result_of
from simulated_results import (
    SERVERS,
    SPEED_PROBE,
    STEADY,
    a_result,
    as_text,
    by_server,
    failing,
    judgements,
    slower,
    suspicious,
)

from common.errors import BadInputError
from under_siege.compare.diff import check_comparable, compare_results, machine_difference
from under_siege.compare.view import conclusion
from under_siege.judge.ranking import summarize
from under_siege.judge.speed_correction import fit_speed_correction
from under_siege.record.result import Result

WILD = (1.2, 0.9, 1.0)


def test_a_result_does_not_differ_from_itself(golden) -> None:
    result = a_result(*SERVERS)
    found = compare_results(result, result)
    assert found.exit_code == 0
    assert {one.fraction for case in found.cases for one in case.changes} == {0.0}
    golden(as_text(found))


def test_slower_cases_are_reported_as_worse_and_faster_cases_as_better(golden) -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(("1_a", 1, 0.8), ("3_c", 2, 1.0), seed=2)
    found = compare_results(base, new)
    assert judgements(found)["1_a"]["rate_per_s"] == "worse"
    assert judgements(found)["3_c"]["rate_per_s"] == "no difference"
    assert found.exit_code == 1
    golden(as_text(found))
    back = compare_results(new, base)
    assert judgements(back)["1_a"]["rate_per_s"] == "better"
    assert by_server(back) == {"1_a": "better", "3_c": "no difference"}
    assert back.exit_code == 0


@pytest.mark.parametrize(
    ("factor", "tolerance", "expected"),
    [
        (0.8, 0.0, "worse"),
        (0.8, 0.1, "worse"),
        (0.8, 0.3, "tolerated"),
        (0.9, 0.1, "tolerated"),  # not significantly more than the tolerance
        (1.2, 0.3, "better"),
        (1.0, 0.1, "no difference"),
    ],
)
def test_a_change_for_the_worse_counts_only_if_it_is_significantly_beyond_the_tolerance(
    factor: float, tolerance: float, expected: str
) -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, factor), seed=2)
    found = compare_results(base, new, tolerance)
    assert judgements(found)["1_a"]["rate_per_s"] == expected
    assert found.exit_code == (expected == "worse")


def test_the_tolerance_applies_to_metrics_that_should_be_low_and_is_shown(golden) -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, 1.0), seed=2)
    for record in new.records:
        record.samples.memory_bytes[:] = [int(1.3 * size) for size in record.samples.memory_bytes]
    assert judgements(compare_results(base, new, 0.2))["1_a"]["memory_bytes"] == "worse"
    tolerated = compare_results(base, new, 0.5)
    assert judgements(tolerated)["1_a"]["memory_bytes"] == "tolerated"
    assert tolerated.exit_code == 0
    golden(as_text(tolerated))


def test_more_memory_and_longer_pings_are_reported_as_worse() -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, 1.0), seed=2)
    for record in new.records:
        set_waits(record.requests, lambda wait_s: 2.0 * wait_s)
        record.samples.memory_bytes[:] = [2 * size for size in record.samples.memory_bytes]
    found = judgements(compare_results(base, new))["1_a"]
    assert found == {**dict.fromkeys(found, "no difference"), "ping_p99_s": "worse", "memory_bytes": "worse"}


def test_the_largest_significant_change_leads_the_conclusion_and_all_others_are_left_out(golden) -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(("1_a", 1, 6.0), ("3_c", 2, 1.0), seed=2)
    for records, times in ((base.records, 100), (new.records, 300)):
        for record in records:
            if record.server == "1_a":
                set_waits(record.requests, lambda wait_s, times=times: times * wait_s)
                record.idle_answer_s = None
    for result in (base, new):
        result.records[:] = [record for record in result.records if not record.is_ceiling]
        for record in result.records:  # a rate above the ceiling is suspect
            record.alone_at_s, record.alone_on_cpu, record.alone_wall_s, record.alone_cpu_s = [], [], [], []
            record.has_task = record.has_ceiling = False
    found = compare_results(base, new)
    assert found.exit_code == 1
    golden(conclusion(found))


def test_changes_smaller_than_the_measurement_accuracy_are_reported_as_no_difference() -> None:
    base, new = (a_result(("1_a", 1, speed), noise=1e-5) for speed in (1.0, 1.015))
    (case,) = compare_results(base, new).cases
    assert case.changes[0].fraction == pytest.approx(0.015, abs=0.001)
    assert case.changes[0].judgement == "no difference"


def of_several(python, quality):
    """Return the records of a server that runs on this Python at `quality` times the expected rate."""
    result = a_result(("1_a", 1, quality))
    for record in result.records:
        record.values["python"] = python
    return result.records


def test_cases_match_only_if_their_values_on_all_axes_are_equal() -> None:
    base = result_of(of_several("3.11.7", 1.0) + of_several("3.14.0", 1.0), speed_probe=SPEED_PROBE)
    new = result_of(of_several("3.11.7", 0.5) + of_several("3.14.0", 1.0), speed_probe=SPEED_PROBE)
    found = compare_results(base, new)
    assert {case.case.python: case.judgement for case in found.cases} == {"3.11.7": "worse", "3.14.0": "no difference"}
    one = summarize(new).cases[0]
    for name, value in (("server", "2_b"), ("task", "digest"), ("users", 6), ("python", "3"), ("parameters", {"n": 1})):
        assert msgspec.structs.replace(one, **{name: value}).case != one.case
    assert msgspec.structs.replace(one, rounds=9, title="another").case == one.case


def test_failed_or_missing_cases_set_exit_code_1_but_new_cases_do_not(golden) -> None:
    both = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0))
    one = a_result(("1_a", 1, 1.0))
    sides = ((both, one), (one, both), (both, failing(a_result(*SERVERS), "1_a")))
    gone, appeared, failed = (compare_results(*pair) for pair in sides)
    assert (by_server(gone), gone.exit_code) == ({"1_a": "no difference", "2_b": "gone"}, 1)
    assert (by_server(appeared), appeared.exit_code) == ({"1_a": "no difference", "2_b": "new"}, 0)
    assert (by_server(failed)["1_a"], failed.exit_code) == ("failed", 1)
    golden(as_text(gone), as_text(failed))
    assert by_server(compare_results(failing(a_result(("1_a", 1, 1.0)), "1_a"), one)) == {"1_a": "better"}


def test_a_case_that_failed_before_is_failed_if_it_fails_again_and_undecided_if_it_is_missing() -> None:
    failed = failing(a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0)), "2_b")
    found = compare_results(failed, failed)
    assert (by_server(found)["2_b"], found.exit_code) == ("failed", 1)
    without = compare_results(failed, a_result(("1_a", 1, 1.0)))
    assert (by_server(without)["2_b"], without.exit_code) == ("undecided", 3)


@pytest.mark.parametrize(("suspect_now", "factor"), [(True, 0.5), (False, 2.0)])
def test_suspect_cases_are_never_reported_as_better_or_worse(suspect_now, factor, golden) -> None:
    base, new = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0)), a_result(("1_a", 1, factor), ("2_b", 1, 1.0), seed=2)
    suspicious(new if suspect_now else base, "1_a")
    found = compare_results(base, new)
    assert (found.cases[0].base.verdict, found.cases[0].new.verdict) == (
        ("ok", "suspect") if suspect_now else ("suspect", "ok")
    )
    assert set(judgements(found)["1_a"].values()) == {None}
    assert by_server(found)["1_a"] == "undecided"
    assert found.exit_code == 3
    golden(as_text(found))


def one_round(result: Result) -> Result:
    result.records[:] = [record for record in result.records if record.round == 1]
    return result


def test_comparisons_with_a_single_round_are_undecided() -> None:
    base = a_result(("1_a", 1, 1.0))
    for new in (one_round(a_result(("1_a", 1, 1.0))), one_round(a_result(("1_a", 1, 0.2)))):
        found = compare_results(base, new)
        assert set(judgements(found)["1_a"].values()) == {"undecided"}
        assert found.exit_code == 3
        assert {change.smallest_visible for change in found.cases[0].changes} == {None}


def test_memory_values_measured_as_pss_and_as_rss_are_not_compared() -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, 1.0), seed=2)
    for record in new.records:
        record.memory_kind = "rss" if record.memory_kind else ""
    assert judgements(compare_results(base, new))["1_a"]["memory_bytes"] == "undecided"


def test_the_smallest_detectable_change_grows_with_the_noise() -> None:
    calm, restless = (
        compare_results(*(a_result(*SERVERS, seed=seed, noise=noise) for seed in (1, 2))) for noise in (0.003, 0.03)
    )
    sizes = [[case.changes[0].smallest_visible for case in found.cases] for found in (calm, restless)]
    assert 0.02 <= min(sizes[0]) <= max(sizes[0]) < 0.04 < min(sizes[1])


def refusal(base: Result, new: Result, *, force: bool) -> str:
    with pytest.raises(BadInputError) as refused:
        check_comparable(base, new, force=force)
    return str(refused.value)


def with_value(name: str, value: object) -> Result:
    result = a_result(("1_a", 1, 1.0), cpu_model="another CPU")
    for record in result.records:
        record.values[name] = value
    return result


@pytest.mark.parametrize("force", [False, True])
def test_results_with_different_tasks_or_users_are_never_compared(force, golden) -> None:
    base, other = a_result(("1_a", 1, 1.0)), with_value("task", "digest")
    pairs = [
        (base, other),
        (result_of(base.records + other.records), base),
        (base, with_value("users", 50)),
        (base, result_of([])),
    ]
    golden(*(refusal(*pair, force=force) for pair in pairs))


OF_ANOTHER_MACHINE = [
    {"cpu_model": "another"},
    {"usable_cpus": 4},
    {"cpu_limit": 1.5},
    {"load_cpus": 1},
    {"memory_bytes": 16 * 10**9},
]


@pytest.mark.parametrize("environment", OF_ANOTHER_MACHINE, ids=str)
def test_results_of_different_machines_are_compared_only_on_request(environment, golden) -> None:
    base, other = a_result(("1_a", 1, 1.0)), a_result(("1_a", 1, 1.0), **environment)
    check_comparable(base, other, force=True)
    golden(refusal(base, other, force=False))


def test_results_of_machines_with_slightly_different_memory_sizes_are_comparable() -> None:
    base, similar = a_result(("1_a", 1, 1.0)), a_result(("1_a", 1, 1.0), memory_bytes=8_000_004_096)
    check_comparable(base, similar, force=False)
    assert machine_difference(base, similar) == ""


@pytest.mark.parametrize("waits", [False, True], ids=["CPU-bound", "I/O-bound"])
@pytest.mark.parametrize("speeds", [STEADY, WILD], ids=["steady speed", "varying speed"])
def test_no_case_is_reported_as_worse_because_the_machine_was_slower(speeds, waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=speeds, waits=waits)
    new = a_result(*SERVERS, seed=2, speeds=slower(speeds), waits=waits)
    for found in (compare_results(base, new), compare_results(new, base)):
        assert found.has_common_speed
        assert {case.changes[0].judgement for case in found.cases} == {"no difference"}
        assert found.exit_code != 1
        assert abs(found.cases[0].changes[0].fraction) < 0.06


@pytest.mark.parametrize("waits", [False, True], ids=["CPU-bound", "I/O-bound"])
def test_a_regression_is_detected_on_a_slower_machine(waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=WILD, waits=waits)
    new = a_result(("1_a", 1, 0.6), ("3_c", 2, 1.0), seed=2, speeds=slower(WILD), waits=waits)
    found = judgements(compare_results(base, new))
    assert found["1_a"]["rate_per_s"] == "worse"
    assert found["3_c"]["rate_per_s"] == "no difference"


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "no difference"), (1.4, "undecided"), (2.2, "worse")])
def test_slower_pings_on_a_slower_machine_are_worse_only_if_the_speed_cannot_explain_it(factor, expected) -> None:
    base = a_result(*SERVERS, seed=1)
    new = a_result(*SERVERS, seed=2, speeds=slower(STEADY))
    for records, times in ((base.records, 100), (new.records, 100 * factor)):
        for record in records:
            set_waits(record.requests, lambda wait_s, times=times: times * wait_s)
    change = compare_results(base, new).cases[0].changes[1]
    assert (change.judgement, change.may_be_due_to_speed) == (expected, expected == "undecided")


OTHERS = ({"speed_probe": "3.14.0 500+1500"}, {"speed_probe": ""}, {"cpu_model": "another CPU"})


@pytest.mark.parametrize("other", OTHERS, ids=["other probe", "unknown probe", "other CPU"])
def test_only_memory_is_judged_if_the_speeds_are_not_comparable(other) -> None:
    found = compare_results(a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2, speeds=slower(STEADY), **other))
    assert not found.has_common_speed
    judged = judgements(found)["1_a"]
    assert judged == {**dict.fromkeys(judged, "undecided"), "memory_bytes": "no difference"}


def test_the_number_of_cpus_that_servers_leave_idle_does_not_affect_the_speed_correction() -> None:
    """Compare a fast result, whose servers all leave a CPU idle, with a slow result, in which only one server does."""
    idle, busy = ("1_a", "2_b", "4_d", "5_e"), ("3_c", "6_f", "7_g")
    base = summarize(a_result(*((name, 1, 1.0) for name in idle), speeds=STEADY))
    new = summarize(a_result(("1_a", 1, 1.0), *((name, 2, 1.0) for name in busy), seed=2, speeds=slower(STEADY)))
    correction = fit_speed_correction([*base.ceiling_rounds, *base.rounds], beside=[*new.ceiling_rounds, *new.rounds])
    (bare,), (server, *_) = base.ceiling_rounds, base.rounds
    assert correction.rounds[bare[0]].speed == pytest.approx(correction.rounds[server[0]].speed, rel=0.01)
