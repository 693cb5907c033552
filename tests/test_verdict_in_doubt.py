"""The verdict where machine or ceiling are in doubt: noise makes no liar `ok`, and accuses nobody."""

import math
from collections.abc import Callable

import pytest
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from test_verdict import codes, judged

from common.model.record import Failure, Machine, Record
from common.report.judging.comparison import summarize


def test_what_is_allowed_above_the_ceiling_comes_from_the_ceilings() -> None:
    faster = [record_of("1_x", workers=2, speed=1.2, round_=round_) for round_ in (1, 2)]
    for record in faster:
        record.samples.cpu_s[:] = [value * 1.3 for value in record.samples.cpu_s]
    steady = [bare_record(1), bare_record(2)]
    restless = [bare_record(1), bare_record(2, speed=1.4)]
    for bare, expected in ((steady, ["above_ceiling"]), (restless, ["unsteady_ceiling", "blind"])):
        (case,) = summarize(result_of([*bare, *faster])).cases
        assert codes(case) == expected
    assert case.verdict == "unclear"


@pytest.mark.parametrize(("other_s", "expected"), [(0.0, ["above_ceiling"]), (0.3, ["unsteady_ceiling"])])
def test_what_other_work_took_from_the_ceiling_may_be_had_without_it(other_s: float, expected: list[str]) -> None:
    """Less of it than makes a machine busy."""
    bare, faster = bare_record(), record_of("1_x", workers=2, speed=1.075)
    ours_s = bare.tool_cpu_s + bare.bench_cpu_s
    bare.machine = Machine(total_s=CPUS * TIME_S, busy_s=ours_s + other_s, steal_s=0.0)
    assert codes(judged(faster, bare)) == expected


def test_five_per_cent_more_than_the_ceiling_are_nothing() -> None:
    assert codes(judged(record_of("1_x", workers=2, speed=1.04))) == []


def test_a_ceiling_too_short_to_know_its_noise_has_at_least_that_of_rates() -> None:
    """Three standard deviations of a difference of two, and five per cent, are 18 %."""
    bare = bare_record(load_s=1.0)
    for speed, accused in ((1.16, False), (1.25, True)):
        case = judged(record_of("1_x", workers=2, speed=speed, load_s=1.0), bare)
        assert ("above_ceiling" in codes(case)) == accused, case.of_ceiling


def test_the_shortest_wait_of_the_task_alone_is_its_own() -> None:
    bare = bare_record()
    bare.alone_wall_s[:], bare.alone_cpu_s[:] = [4 * TASK_S, 2 * TASK_S, 3 * TASK_S], [TASK_S] * 3
    assert codes(judged(record_of("1_x", idle_answer_s=1.8 * TASK_S), bare)) == []
    assert "too_fast" in codes(judged(record_of("1_x", idle_answer_s=1.6 * TASK_S), bare))


def contradicts(bare: Record) -> None:
    bare.transactions.took_s[:] = [3 * seconds for seconds in bare.transactions.took_s]


def fails_once(bare: Record) -> None:
    bare.transactions.status[3] = 503


@pytest.mark.parametrize("spoil", [contradicts, fails_once])
def test_a_ceiling_may_be_in_doubt_as_any_case(spoil: Callable[[Record], None]) -> None:
    """Where it is the limit of what is possible, and not only another server."""
    bare = bare_record()
    spoil(bare)
    assert codes(judged(record_of("1_x"), bare)) == ["doubtful_ceiling"]
    record = record_of("1_x")
    record.has_task = False
    assert codes(judged(record, bare)) == []


def test_a_liar_can_not_buy_himself_an_allowance_with_rounds_that_differ() -> None:
    liar = [record_of("1_x", 1, workers=2), record_of("1_x", 2, workers=2, speed=2.0)]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *liar])).cases
    assert case.verdict == "suspect"
    assert "above_ceiling" in codes(case)


def test_a_ceiling_that_was_disturbed_is_named_and_not_the_server() -> None:
    bare = [bare_record(1), bare_record(2), bare_record(3, speed=0.6)]
    (case,) = summarize(result_of([*bare, *(record_of("1_x", round_, workers=2) for round_ in (1, 2, 3))])).cases
    assert codes(case) == ["unsteady_ceiling", "blind"]
    assert case.verdict == "unclear"
    assert "round 3: " in case.reasons[0].message
    assert "something disturbed the ceiling" in case.reasons[0].message


def test_a_busy_machine_comes_first_because_it_explains_the_rest() -> None:
    busy = Machine(total_s=8, busy_s=8, steal_s=0)
    case = judged(record_of("1_x", speed=41, machine=busy))
    assert codes(case)[0] == "busy_machine"
    assert "other work took 49 % of the machine's CPUs" in case.reasons[0].message
    assert case.verdict == "suspect"  # so much more than the ceiling is no matter of noise
    stolen = Machine(total_s=8, busy_s=4.15, steal_s=0.8)
    honest = judged(record_of("1_x", machine=stolen))
    assert (honest.verdict, codes(honest)) == ("unclear", ["busy_machine"])


@pytest.mark.parametrize(
    ("other", "stolen", "expected"),
    [(0.045, 0.0, []), (0.055, 0.0, ["busy_machine"]), (0.0, 0.018, []), (0.0, 0.022, ["busy_machine"])],
)
def test_a_machine_is_busy_beyond_a_twentieth_of_other_work_or_a_fiftieth_that_is_stolen(
    other: float, stolen: float, expected: list[str]
) -> None:
    record = record_of("1_x", tool_cpu_s=0.2, bench_cpu_s=0.3)
    ours_s = TIME_S + record.tool_cpu_s + record.bench_cpu_s
    total_s = CPUS * TIME_S
    record.machine = Machine(total_s, busy_s=ours_s + other * total_s, steal_s=stolen * total_s)
    assert codes(judged(record)) == expected


def test_what_the_services_of_a_suite_compute_is_no_other_work() -> None:
    beside = Machine(total_s=8, busy_s=5.1, steal_s=0)
    assert codes(judged(record_of("1_x", machine=beside)))[0] == "busy_machine"
    assert codes(judged(record_of("1_x", machine=beside, services_cpu_s=1.0))) == []


def test_looks_at_the_server_that_were_all_at_one_moment_tell_nothing_of_its_cpu() -> None:
    record = record_of("1_x")
    record.samples.at_s[:] = [0.0] * len(record.samples.at_s)
    case = judged(record)
    assert case.cpu_s_per_transaction is None
    assert "too_cheap" not in codes(case)


def test_without_a_ceiling_the_other_rules_still_hold() -> None:
    (case,) = summarize(result_of([record_of("1_x", tool_unknown=1, tool_unknown_lines=["?"])])).cases
    assert codes(case) == ["unknown_lines", "no_ceiling", "blind"]
    assert (case.ceiling_per_s, case.of_ceiling) == (None, None)


def test_a_ceiling_that_was_too_short_is_none() -> None:
    bare = bare_record()
    for name in bare.transactions.__struct_fields__:
        del getattr(bare.transactions, name)[2:]
    case = judged(record_of("1_x"), bare)
    assert codes(case)[0] == "no_ceiling"
    assert "the ceiling has no rate: " in case.reasons[0].message


def test_without_a_ceiling_or_with_one_in_doubt_nothing_is_ok() -> None:
    record, failed = record_of("1_x"), bare_record(failure=Failure("died", "no memory"))
    case = judged(record, failed)
    assert (case.verdict, codes(case)) == ("unclear", ["no_ceiling"])
    assert "the ceiling failed: no memory" in case.reasons[0].message
    doubtful = bare_record(machine=Machine(total_s=8, busy_s=8, steal_s=0))
    doubtful.machine = Machine(total_s=8, busy_s=1, steal_s=4)
    case = judged(record_of("1_x"), doubtful)
    assert (case.verdict, codes(case)) == ("unclear", ["doubtful_ceiling"])
    assert "its ceiling is itself in doubt: other work took" in case.reasons[0].message


def test_how_long_the_task_takes_alone_is_taken_beside_the_case() -> None:
    """Of two rounds one was slow, with the runs around it: neither is too fast, and an answer from a cache is."""
    slow = record_of("1_x", 1, speed=0.5, idle_answer_s=2.2 * TASK_S)
    fast = record_of("1_x", 2, idle_answer_s=1.1 * TASK_S)
    for record, took_s in ((slow, 2 * TASK_S), (fast, TASK_S)):
        record.alone_wall_s[:] = record.alone_cpu_s[:] = [took_s, took_s * 1.01, took_s * 0.99]
    slow.samples.cpu_s[:] = [1 + number / 4 for number in range(17)]
    (case,) = summarize(result_of([bare_record(1, speed=0.5), bare_record(2), slow, fast])).cases
    assert "too_fast" not in codes(case)
    assert "too_cheap" not in codes(case)
    slow.idle_answer_s = 1.1 * TASK_S  # as soon as in the fast round
    (case,) = summarize(result_of([bare_record(1, speed=0.5), bare_record(2), slow, fast])).cases
    assert "too_fast" in codes(case)


def test_one_slow_run_makes_no_rule_blind() -> None:
    bare = bare_record()
    bare.alone_wall_s[:], bare.alone_cpu_s[:] = [TASK_S, TASK_S * 9, TASK_S], [TASK_S, TASK_S * 9, TASK_S]
    assert codes(judged(record_of("1_x"), bare)) == []
    assert "too_fast" in codes(judged(record_of("1_x", idle_answer_s=0.001), bare))


def test_where_noise_hides_every_lie_nothing_is_ok() -> None:
    bare = bare_record()
    took_s = [TASK_S * factor for factor in (0.3, 0.6, 1.0, 1.7, 3.0)]
    bare.alone_wall_s[:] = bare.alone_cpu_s[:] = took_s
    case = judged(record_of("1_x"), bare)
    assert (case.verdict, codes(case), case.rank) == ("unclear", ["blind"], None)
    assert "too noisy to tell the truth from a lie: an answer in " in case.reasons[0].message
    assert case.rate_per_s is not None


@pytest.mark.parametrize(
    ("differ", "answered_s", "expected"),
    [
        (0.1, 0.58 * TASK_S, ["too_fast"]),  # three standard deviations of the mean of three runs, and 15 %, are 41 %
        (0.1, 0.6 * TASK_S, []),
        (0.13, TASK_S, []),  # 48 %
        (0.142, TASK_S, ["blind"]),  # 51 %
    ],
)
def test_how_far_runs_differ_says_what_can_be_seen(differ: float, answered_s: float, expected: list[str]) -> None:
    bare = bare_record()
    bare.alone_wall_s[:] = bare.alone_cpu_s[:] = [TASK_S * math.exp(times * differ) for times in (-1, 0, 1)]
    assert codes(judged(record_of("1_x", idle_answer_s=answered_s), bare)) == expected


@pytest.mark.parametrize(("other", "expected"), [(0.19, []), (0.21, ["blind"])])
def test_a_quarter_more_than_the_ceiling_has_to_be_seen(other: float, expected: list[str]) -> None:
    """Here by what other work took from it, beside the 5 % by which rates differ anyway."""
    bare = bare_record()
    busy_s = bare.tool_cpu_s + bare.bench_cpu_s + other * CPUS * TIME_S
    bare.machine = Machine(CPUS * TIME_S, busy_s, steal_s=0.0)
    assert codes(judged(record_of("1_x"), bare)) == ["doubtful_ceiling", *expected]


@pytest.mark.parametrize(("slow_for", "expected"), [(1.2, ["blind"]), (1.35, ["unsteady_machine", "blind"])])
def test_a_machine_is_unsteady_if_its_speed_changes_by_a_quarter(slow_for: float, expected: list[str]) -> None:
    bare, record = bare_record(), record_of("1_x")
    for one in (bare, record):
        for place in range(80):
            at_s = 0.05 * place
            one.beats.at_s.append(at_s)
            one.beats.cpu.append(0)
            one.beats.took_s.append(15e-6 * (slow_for if at_s > TIME_S / 2 else 1.0))
    assert "unsteady_machine" not in codes(judged(record, bare))  # nothing is in doubt that it would explain
    bare.alone_wall_s.clear()
    bare.alone_cpu_s.clear()
    assert codes(judged(record, bare)) == expected


def test_without_knowing_what_the_task_takes_nothing_is_ok() -> None:
    bare = bare_record()
    for column in (bare.alone_wall_s, bare.alone_cpu_s):
        column.clear()
    assert codes(judged(record_of("1_x"), bare)) == ["blind"]


@pytest.mark.parametrize(
    ("other_s", "answered_s", "accused"), [(0.0, 0.12, True), (2.0, 0.12, False), (2.0, 0.02, True)]
)
def test_beside_other_work_only_what_is_sooner_than_the_cpu_allows_is_too_fast(other_s, answered_s, accused) -> None:
    """There the task alone had to wait for a CPU, as if it waited itself."""
    record = record_of("1_x", idle_answer_s=answered_s)
    bare = bare_record()
    for one in (record, bare):
        one.alone_wall_s[:], one.alone_cpu_s[:] = [2 * TASK_S] * 3, [TASK_S] * 3
    total_s = record.machine.total_s
    record.machine = Machine(total_s, min(total_s, record.machine.busy_s + other_s), 0.0)
    (case,) = summarize(result_of([bare, record])).cases
    assert ("too_fast" in {reason.code for reason in case.reasons}) == accused
    assert ("busy_machine" in {reason.code for reason in case.reasons}) == (other_s > 0)


@pytest.mark.parametrize(("slow_for", "verdict"), [(1.0, "suspect"), (1.8, "unclear")])
def test_a_siege_too_short_to_know_its_noise_knows_that_of_the_machine(slow_for: float, verdict: str) -> None:
    """Half of a ceiling of one second was measured at another speed."""
    bare, above = bare_record(load_s=1.0), record_of("1_x", workers=2, speed=1.25, load_s=1.0)
    for record in (bare, above):
        for place in range(30):
            at_s = 0.05 * place - 0.2
            record.beats.at_s.append(at_s)
            record.beats.cpu.append(0)
            record.beats.took_s.append(15e-6 * (slow_for if at_s > 0.5 else 1.0))
    (case,) = summarize(result_of([bare, above])).cases
    assert case.verdict == verdict
