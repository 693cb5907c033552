"""Physical limits: cases that exceed a limit are `suspect`, and cases that might exceed it are `unclear`.

Noise alone makes no case `suspect`.
"""

import math

import pytest
from rows import keep_first
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from verdicts import codes, judged

from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import COMPUTES, DOES_BOTH, _kind_of_task
from under_siege.record.record import Failure, LimitUsage, Machine, Record

ROUNDS = (1, 2)


def two_rounds(*records: Record) -> list[str]:
    """Return the codes of the flags that a server gets if the ceiling was measured in two rounds."""
    (case,) = summarize(result_of([*map(bare_record, ROUNDS), *records])).cases
    return codes(case)


def rounds_of(**values) -> list[Record]:
    """Return two rounds of a server that uses as much CPU time as its task needs."""
    return [record_of("1_x", round_, **values) for round_ in ROUNDS]


def with_cpu(share: float, records: list[Record]) -> list[Record]:
    """Multiply the CPU times of the records by `share`, and return the records."""
    for record in records:
        record.samples.cpu_s[:] = [1 + (value - 1) * share for value in record.samples.cpu_s]
        record.machine = None
    return records


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, []), (1.1, []), (1.25, ["unverified"]), (1.5, ["above_ceiling"])]
)
def test_rates_far_above_the_ceiling_are_flagged(speed: float, expected: list[str]) -> None:
    assert two_rounds(*with_cpu(speed * 1.1, rounds_of(workers=2, speed=speed))) == expected


@pytest.mark.parametrize(("share", "expected"), [(1.0, []), (0.95, []), (0.8, ["unverified"]), (0.6, ["too_cheap"])])
def test_cpu_time_far_below_that_of_the_task_is_flagged_as_unverified_or_too_cheap(
    share: float, expected: list[str]
) -> None:
    assert two_rounds(*with_cpu(share, rounds_of())) == expected


def test_noise_of_the_ceiling_does_not_change_the_verdict_of_slow_servers() -> None:
    bare = [bare_record(1), bare_record(2, speed=0.8)]
    (case,) = summarize(result_of([*bare, *rounds_of()])).cases
    assert case.verdict == "ok"


def test_a_ceiling_slowed_down_in_one_round_makes_no_case_suspect() -> None:
    bare = [bare_record(1), bare_record(2), bare_record(3, speed=0.6)]
    honest = [record_of("1_x", round_, workers=2) for round_ in (1, 2, 3)]
    (case,) = summarize(result_of([*bare, *honest])).cases
    assert case.verdict != "suspect"


def test_a_round_without_a_ceiling_uses_the_ceilings_of_other_rounds() -> None:
    records = [record_of("1_x", round_) for round_ in (1, 2, 3)]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *records])).cases
    assert (case.verdict, case.ceiling_per_s) == ("ok", pytest.approx(CPUS / TASK_S, rel=0.02))


def test_cpu_use_of_other_programs_and_steal_time_do_not_change_the_verdict() -> None:
    for machine in (Machine(8, 4.9, 0.0), Machine(8, 4.15, 0.8), Machine(8, 8, 0)):
        records = rounds_of()
        for record in records:
            record.machine = machine
        assert two_rounds(*records) == []


def test_a_case_without_samples_of_cpu_time_is_not_flagged_as_too_cheap() -> None:
    record = record_of("1_x")
    record.samples.at_s[:] = [0.0] * len(record.samples.at_s)
    case = judged(record)
    assert case.cpu_s_per_transaction is None
    assert "too_cheap" not in codes(case)


def test_rules_that_need_no_ceiling_are_applied_even_without_a_ceiling() -> None:
    record = record_of("1_x", tool_unknown=1, tool_unknown_lines=["?"])
    record.alone_wall_s[:] = record.alone_cpu_s[:] = [TASK_S] * 3
    (case,) = summarize(result_of([record])).cases
    assert codes(case) == ["unknown_lines", "no_ceiling"]
    assert (case.ceiling_per_s, case.of_ceiling) == (None, None)


def test_a_case_is_flagged_as_unverified_if_the_task_has_no_reference_runs() -> None:
    bare = bare_record()
    for column in (bare.alone_wall_s, bare.alone_cpu_s):
        column.clear()
    case = judged(record_of("1_x"), bare)
    assert codes(case) == ["unverified"]


def test_a_ceiling_that_failed_or_has_no_rate_is_treated_as_missing(golden) -> None:
    bare = bare_record()
    keep_first(bare, 2)
    case = judged(record_of("1_x"), bare)
    failed = judged(record_of("1_x"), bare_record(failure=Failure("died", "no memory")))
    assert (failed.verdict, codes(failed)) == ("unclear", ["no_ceiling"])
    golden(case.reasons[0].message, failed.reasons[0].message)


def test_the_io_wait_of_a_task_is_that_of_its_shortest_reference_run() -> None:
    bare = bare_record()
    bare.alone_wall_s[:], bare.alone_cpu_s[:] = [4 * TASK_S, 2 * TASK_S, 3 * TASK_S], [TASK_S] * 3
    assert codes(judged(record_of("1_x", idle_answer_s=1.8 * TASK_S), bare)) == []
    assert "too_fast" in codes(judged(record_of("1_x", idle_answer_s=1.6 * TASK_S), bare))


def test_pauses_that_a_quota_causes_are_no_io_wait() -> None:
    bare = bare_record()
    bare.alone_wall_s[:], bare.alone_cpu_s[:] = [2 * TASK_S] * 3, [TASK_S] * 3
    for shared, expected, kind in ((False, ["too_fast"], DOES_BOTH), (True, [], COMPUTES)):
        bare.limits = LimitUsage(cpus=0.5, is_shared=shared, periods=40, throttled_periods=30)
        server = record_of("1_x", idle_answer_s=1.1 * TASK_S, limits=bare.limits)
        assert codes(judged(server, bare)) == expected
        assert _kind_of_task([[Round(bare)]]) is kind


def test_the_task_duration_is_taken_from_the_nearest_reference_runs() -> None:
    """Make one of two rounds slow, like its reference runs; then give it the response time of the fast round."""
    slow = record_of("1_x", 1, speed=0.5, idle_answer_s=2.2 * TASK_S)
    fast = record_of("1_x", 2, idle_answer_s=1.1 * TASK_S)
    for record, took_s in ((slow, 2 * TASK_S), (fast, TASK_S)):
        record.alone_wall_s[:] = record.alone_cpu_s[:] = [took_s, took_s * 1.01, took_s * 0.99]
    (case,) = summarize(result_of([bare_record(1, speed=0.5), bare_record(2), slow, fast])).cases
    assert "too_fast" not in codes(case)
    slow.idle_answer_s = 1.1 * TASK_S  # as in the fast round
    (case,) = summarize(result_of([bare_record(1, speed=0.5), bare_record(2), slow, fast])).cases
    assert "too_fast" in codes(case)


@pytest.mark.parametrize(
    ("differ", "answered_s", "expected"), [(0.1, 0.58 * TASK_S, ["too_fast"]), (0.1, 0.6 * TASK_S, [])]
)
def test_a_larger_spread_of_reference_runs_allows_faster_responses(
    differ: float, answered_s: float, expected: list[str]
) -> None:
    """Allow responses in 41 % less time: three standard errors of three runs are 26 %, and 15 % are added."""
    bare = bare_record()
    bare.alone_wall_s[:] = bare.alone_cpu_s[:] = [TASK_S * math.exp(times * differ) for times in (-1, 0, 1)]
    assert codes(judged(record_of("1_x", idle_answer_s=answered_s), bare)) == expected


@pytest.mark.parametrize(
    ("other_s", "answered_s", "is_suspect"), [(0.0, 0.12, True), (2.0, 0.12, False), (2.0, 0.02, True)]
)
def test_the_shortest_possible_response_time_excludes_waits_of_reference_runs_on_a_busy_machine(
    other_s, answered_s, is_suspect
) -> None:
    """On a busy machine, reference runs wait for a CPU, which looks like I/O wait of the task."""
    record = record_of("1_x", idle_answer_s=answered_s)
    bare = bare_record()
    for one in (record, bare):
        one.alone_wall_s[:], one.alone_cpu_s[:] = [2 * TASK_S] * 3, [TASK_S] * 3
    record.machine = Machine(CPUS * TIME_S, min(CPUS * TIME_S, record.machine.busy_s + other_s), 0.0)
    assert ("too_fast" in codes(judged(record, bare))) == is_suspect


def test_a_very_wide_confidence_interval_of_the_rate_is_flagged() -> None:
    records = [record_of("1_x", 1, speed=0.3), record_of("1_x", 2, speed=1.0)]
    for record in records:
        record.samples.cpu_s[:] = [value * 4 for value in record.samples.cpu_s]
        record.machine, record.idle_answer_s = None, 1.0
    assert "wide_interval" in two_rounds(*records)
