"""Verdict rules: each rule raises a flag just beyond its limit but not just within it, and explains the flag."""

import pytest
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from verdicts import codes, judged

from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.verdict_rules import RULES, Reason, verdict_of
from under_siege.lesson.exercise_check import FAULTS, OF_THE_MACHINE
from under_siege.record.record import Failure, Machine, Record, append_row
from under_siege.report import formatted, view_of


def test_an_honest_server_has_the_verdict_ok() -> None:
    for workers in (1, 2):
        case = judged(record_of("1_x", workers=workers))
        assert (case.verdict, case.reasons) == ("ok", [])
        assert case.of_ceiling.mean == pytest.approx(workers / CPUS, rel=0.02)
        assert case.ceiling_per_s == pytest.approx(CPUS / TASK_S, rel=0.02)


def test_a_rate_above_the_ceiling_makes_a_case_suspect() -> None:
    record = record_of("1_x", workers=2, speed=41)
    case = judged(record)
    assert case.verdict == "suspect"
    assert "above_ceiling" in codes(case)
    assert (
        "/s is 41.0 times the ceiling of 20.0/s: the server answered before the work was done, or without doing it"
        in case.reasons[0].message
    )


def test_noisy_rounds_do_not_hide_a_rate_above_the_ceiling() -> None:
    records = [record_of("1_x", 1, workers=1), record_of("1_x", 2, workers=2, speed=20)]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *records])).cases
    assert "above_ceiling" in codes(case)


def test_responses_faster_than_the_task_are_flagged_as_too_fast() -> None:
    for seconds, expected in ((TASK_S * 0.84, ["too_fast"]), (TASK_S * 0.86, [])):
        assert codes(judged(record_of("1_x", idle_answer_s=seconds))) == expected
    case = judged(record_of("1_x", idle_answer_s=0.001))
    assert "a response came after 1.0 ms, but the task alone takes 100 ms" in case.reasons[0].message


def test_response_checks_faster_than_the_task_are_flagged_as_too_fast() -> None:
    record = record_of("1_x")
    record.checks.sent_s.append(1.0)
    record.checks.answered_s.append(1.02)
    record.checks.code.append("")
    record.checks.problem.append("")
    assert "too_fast" in codes(judged(record))


def test_a_response_check_without_a_response_lowers_availability() -> None:
    record = record_of("1_x")
    for column, value in zip(("sent_s", "answered_s", "code", "problem"), (1.0, 1.5, "no_answer", "none"), strict=True):
        getattr(record.checks, column).append(value)
    case = judged(record)
    assert codes(case) == ["availability"]
    assert "1 of 40 requests got no correct response (the first: none)" in case.reasons[0].message


def test_responses_may_have_any_length_if_correct_responses_vary() -> None:
    assert codes(judged(record_of("1_x", answer_bytes=-1))) == []


def test_error_responses_may_have_any_length() -> None:
    record = record_of("1_x")
    record.transactions.status[10], record.transactions.size_bytes[10] = 503, 17
    assert codes(judged(record)) == ["availability"]


def test_a_response_possible_at_the_highest_cpu_speed_is_not_flagged_as_too_fast() -> None:
    """Simulate a machine that is twice as fast in the second half of the siege as during the reference runs."""
    record, bare = record_of("1_x", idle_answer_s=0.45 * TASK_S), bare_record()
    record.alone_wall_s[:] = record.alone_cpu_s[:] = [TASK_S] * 3
    record.alone_at_s[:], record.alone_on_cpu[:] = [-1.0] * 3, [0] * 3
    for place in range(120):
        at_s = 0.05 * place - 2.0
        record.beats.at_s.append(at_s)
        record.beats.cpu.append(0)
        record.beats.took_s.append(15e-6 if at_s < TIME_S / 2 else 7.5e-6)
    assert "too_fast" not in codes(judged(record, bare))
    record.idle_answer_s = 0.4 * TASK_S
    assert "too_fast" in codes(judged(record, bare))


def test_a_tenth_of_the_cpu_time_of_the_task_is_flagged_as_too_cheap() -> None:
    record = record_of("1_x")
    record.samples.cpu_s[:] = [value / 10 for value in record.samples.cpu_s]
    record.machine = Machine(total_s=8, busy_s=0.5, steal_s=0)
    case = judged(record)
    assert codes(case) == ["too_cheap"]
    assert "a transaction used 10 ms of CPU time, but the task needs 100 ms" in case.reasons[0].message


@pytest.mark.parametrize(("late_s", "expected"), [(0.6, ["littles_law"]), (1.2, [])])
def test_a_violation_of_littles_law_is_not_flagged_if_a_machine_stall_explains_it(
    late_s: float, expected: list[str]
) -> None:
    """Let users wait for 75 % of the time, and send one ping `late_s` seconds late."""
    record = record_of("1_x")
    record.transactions.took_s[:] = [0.75 * took_s for took_s in record.transactions.took_s]
    record.pings.sent_s[40] = record.pings.due_s[40] + late_s
    assert [code for code in codes(judged(record)) if code == "littles_law"] == expected


def test_cpu_time_samples_that_lack_an_exited_process_are_ignored() -> None:
    """Reduce the last CPU time, as if workers had exited just before siege did."""
    record = record_of("1_x", workers=2)
    record.samples.cpu_s[-1] -= 4
    case = judged(record)
    assert codes(case) == []
    assert case.cpu_s_per_transaction == pytest.approx(TASK_S, rel=0.1)


@pytest.mark.parametrize(("needed_s", "expected"), [(0.0011, ["too_cheap"]), (0.0009, [])])
def test_cpu_time_below_the_resolution_of_its_clock_is_not_flagged_as_too_cheap(
    needed_s: float, expected: list[str]
) -> None:
    record, bare = record_of("1_x"), bare_record()
    record.samples.cpu_s[:] = [0.0001 * number for number in range(17)]
    record.machine = Machine(total_s=8, busy_s=0.2, steal_s=0)
    bare.alone_cpu_s[:] = [needed_s] * 3
    assert codes(judged(record, bare)) == expected


@pytest.mark.parametrize(("too_soon", "expected"), [(1, []), (2, ["too_fast"])])
def test_one_response_in_twenty_may_be_faster_than_the_task(too_soon: int, expected: list[str]) -> None:
    """Use a record of about 35 responses. If the bench reads one of them late, the next one looks too fast."""
    record = record_of("1_x")
    for place in range(20, 20 + too_soon):
        record.transactions.took_s[place] = 0.02
        record.transactions.finished_s[place] = record.transactions.finished_s[place - 5] + 0.02
    assert [code for code in codes(judged(record)) if code == "too_fast"] == expected


def test_a_task_that_needs_no_cpu_time_is_not_flagged_as_too_cheap() -> None:
    record, bare = record_of("1_x"), bare_record()
    record.samples.cpu_s[:] = [0.001 * number for number in range(17)]
    record.machine = Machine(total_s=8, busy_s=0.2, steal_s=0)
    bare.alone_cpu_s[:] = [0.0, 0.0, 0.0]
    assert codes(judged(record, bare)) == []


@pytest.mark.parametrize(
    ("factor", "message"), [(3.0, "but there are 5 users"), (0.5, "so the tool sent requests too slowly")]
)
def test_too_many_and_too_few_requests_in_flight_violate_littles_law(factor: float, message: str) -> None:
    record = record_of("1_x")
    record.transactions.took_s[:] = [factor * seconds for seconds in record.transactions.took_s]
    case = judged(record)
    assert codes(case) == ["littles_law"]
    assert message in case.reasons[0].message


@pytest.mark.parametrize(("share", "expected"), [(0.92, True), (0.94, False), (1.06, False), (1.08, True)])
def test_a_load_tool_may_deviate_from_littles_law_by_7_percent(share: float, expected: bool) -> None:
    """Allow 5 % for differences between rates and 2 % for siege's rounding."""
    record = record_of("1_x")
    spans = Round(record).spans
    inside = sum(record.transactions.took_s) / float(spans.ended_s[spans.last].sum())
    record.transactions.took_s[:] = [share / inside * seconds for seconds in record.transactions.took_s]
    assert ("littles_law" in codes(judged(record))) == expected


def test_a_violation_of_littles_law_is_not_flagged_if_requests_were_lost() -> None:
    record = record_of("1_x", socket_failures=1)
    record.transactions.took_s[:] = [seconds / 2 for seconds in record.transactions.took_s]
    assert codes(judged(record)) == ["availability"]


@pytest.mark.parametrize(("answers", "expected"), [(4, False), (5, True)])
def test_littles_law_is_checked_only_with_five_or_more_responses(answers: int, expected: bool) -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[answers:]
    record.transactions.took_s[:] = [3 * seconds for seconds in record.transactions.took_s]
    assert ("littles_law" in codes(judged(record))) == expected


@pytest.mark.parametrize(("rounds", "expected"), [(3, False), (4, True)])
def test_a_user_without_responses_is_flagged_once_the_other_users_have_four_each(rounds: int, expected: bool) -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[5 * rounds :]
    record.values["users"] = 7
    assert ("littles_law" in codes(judged(record, bare_record(users=7)))) == expected


def test_stuck_users_make_a_case_suspect() -> None:
    stuck = record_of("1_x")
    stuck.values["users"], bare = 7, bare_record(users=7)
    case = judged(stuck, bare)
    assert codes(case) == ["littles_law"]
    assert "2 of 7 users never got a response" in case.reasons[0].message


def test_a_short_siege_does_not_violate_littles_law() -> None:
    slow = record_of("1_x", speed=0.25, users=25, idle_answer_s=0.5)
    slow.samples.cpu_s[:] = [value * 4 for value in slow.samples.cpu_s]
    slow.machine = None
    assert "littles_law" not in codes(judged(slow, bare_record(users=25)))


def test_failed_requests_are_flagged_and_lower_availability() -> None:
    errors = record_of("1_x")
    errors.transactions.status[10] = 503
    case = judged(errors)
    assert codes(case) == ["availability"]
    assert "1 of 39 requests got no correct response" in case.reasons[0].message
    assert case.availability_pct == pytest.approx(100 * 38 / 39)
    refused = record_of("1_x", socket_failures=39)
    assert judged(refused).availability_pct == pytest.approx(50)


def test_a_load_generator_that_takes_cpu_time_from_the_server_is_flagged() -> None:
    case = judged(record_of("1_x", tool_cpu_s=0.8, machine=Machine(total_s=8, busy_s=4.9, steal_s=0)))
    assert codes(case) == ["generator"]
    assert "siege and the bench used 11.2 % of the machine's CPU time" in case.reasons[0].message
    less = record_of(
        "1_x", tool_cpu_s=0.6, machine=Machine(total_s=8, busy_s=4.7, steal_s=0)
    )  # 9 % including the bench
    assert codes(judged(less)) == []


def test_unanswered_pings_are_flagged() -> None:
    record = record_of("1_x")
    record.pings.problem[3] = "not answered"
    assert codes(judged(record)) == ["pings"]


def test_unknown_output_lines_of_siege_are_flagged() -> None:
    case = judged(record_of("1_x", tool_unknown=2, tool_unknown_lines=["what is this"]))
    assert codes(case) == ["unknown_lines"]
    assert "siege printed 2 lines in an unknown format; the first: what is this" in case.reasons[0].message


def test_a_siege_that_is_too_short_is_flagged_and_has_no_rate() -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[2:]
    assert "too_short" in codes(judged(record))
    assert judged(record).rate_per_s is None


def test_an_honest_server_is_not_suspect_if_few_users_of_the_ceiling_got_a_response() -> None:
    ceiling = bare_record(users=30)
    answers = ceiling.transactions
    count = len(answers.user)
    answers.user[:] = [number % 20 for number in range(count)]
    answers.finished_s[:] = [0.9 * (1 + number // 20) for number in range(count)]
    answers.took_s[:] = [0.9] * count
    case = judged(record_of("1_x", workers=2, users=30, speed=3), ceiling)
    assert "too_short" in codes(case)
    assert "above_ceiling" not in codes(case)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: setattr(record, "failure", Failure("died", "it died")),
        lambda record: record.transactions.size_bytes.__setitem__(5, 0),
        lambda record: record.transactions.status.__setitem__(slice(None), [503] * len(record.transactions.status)),
        lambda record: [
            record.checks.sent_s.append(1.0),
            record.checks.answered_s.append(1.5),
            record.checks.code.append("wrong_answer"),
            record.checks.problem.append("it is wrong"),
        ],
    ],
    ids=["died", "wrong size", "only errors", "wrong check"],
)
def test_a_failed_case_has_one_reason_and_no_figures(spoil) -> None:
    record = record_of("1_x")
    spoil(record)
    case = judged(record)
    assert case.verdict == "failed"
    assert len(case.reasons) == 1
    assert (case.rate_per_s, case.of_ceiling, case.response_s, case.ping_s, case.rank) == (None,) * 5


def test_a_failure_in_one_round_fails_the_case() -> None:
    records = [record_of("1_x", 1), record_of("1_x", 2, failure=Failure("died", "it died"))]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *records])).cases
    assert case.verdict == "failed"
    assert case.reasons[0].message == "round 2: it died"


def test_a_ceiling_without_a_server_needs_no_proof_of_its_work() -> None:
    """Give the rounds of the ceiling such different rates and CPU times that a server would be unclear."""
    speeds = (0.5, 1.0, 2.0)
    records = [bare_record(number, speed) for number, speed in enumerate(speeds, 1)]
    records += [record_of("1_a", number, speed=speed) for number, speed in enumerate(speeds, 1)]
    comparison = summarize(result_of(records))
    assert "unverified" in codes(comparison.cases[0])
    assert not {"unverified", "above_ceiling", "too_cheap"} & set(codes(comparison.ceilings[0]))


@pytest.mark.parametrize("dress", ["table", "markdown"])
def test_flags_call_a_ceiling_without_a_server_the_ceiling(dress: str) -> None:
    records = [record_of("1_a"), bare_record()]
    records[1].tool_unknown, records[1].tool_unknown_lines[:] = 1, ["a line"]
    text = " ".join(formatted(result_of(records), dress).split())
    assert "ceiling: siege printed 1 line in an unknown format" in text
    assert "bare" not in text


def test_every_rule_has_a_unique_code_and_a_verdict() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert verdict_of([Reason(rule.code, "")]) == rule.verdict in ("suspect", "unclear")
    assert verdict_of([Reason("died", "")]) == "failed"
    assert verdict_of([Reason("unverified", ""), Reason("too_fast", "")]) == "suspect"
    assert verdict_of([]) == "ok"


def test_response_checks_are_included_in_the_rate() -> None:
    alone, checked = record_of("1_x"), record_of("1_x")
    for second in (1.0, 2.0, 3.0):
        checked.checks.sent_s.append(second)
        checked.checks.answered_s.append(second + 0.5)
        checked.checks.code.append("")
        checked.checks.problem.append("")
    more = judged(checked).rate_per_s.mean - judged(alone).rate_per_s.mean
    assert more == pytest.approx(3 / (TIME_S - 0.5), rel=0.15)


def test_the_worst_verdict_sets_the_exit_code() -> None:
    fine, flawed = record_of("1_x"), record_of("2_x", socket_failures=1)
    failed, unclear = record_of("3_x", failure=Failure("died", "it died")), record_of("4_x", users=6)
    assert view_of(result_of([bare_record(), fine])).exit_code == 0
    assert view_of(result_of([bare_record(), fine, flawed])).exit_code == 3
    assert view_of(result_of([bare_record(), fine, unclear])).exit_code == 3  # the ceiling had only five users
    assert view_of(result_of([bare_record(), fine, flawed, failed])).exit_code == 1


def test_the_exercises_explain_every_reason_for_a_verdict() -> None:
    assert {rule.code for rule in RULES} <= {*OF_THE_MACHINE, *FAULTS}
    depends = {"no_transactions"}  # the cause depends on whether the server answered at all
    assert set(OF_THE_MACHINE) & set(FAULTS) == depends


def paced(took_s: float, users: int = 4) -> Record:
    """Return the record of users who send a request each second, with the same response time each."""
    record = record_of("1_paced", users=users, parameters={"pause": "1s"})
    columns = record.transactions
    for column in (columns.finished_s, columns.took_s, columns.user, columns.status, columns.size_bytes):
        column.clear()
    for user in range(users):
        for number in range(4):
            append_row(columns, number + 0.9, took_s, 200, 4, user)
    return record


def test_users_who_pause_do_not_contradict_littles_law() -> None:
    assert "littles_law" not in codes(judged(paced(0.2)))
    assert "littles_law" in codes(judged(paced(1.8)))
