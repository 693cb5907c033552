"""The verdict: each rule fires on what it is for, names both figures, and stays quiet just short of it."""

import pytest
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from verdicts import codes, judged

from under_siege.analysis.report_data import summarize
from under_siege.checks.verdict import RULES, Reason, verdict_of
from under_siege.model.record import Failure, Machine
from under_siege.render import exit_code
from under_siege.stats.rounds_data import Round


def test_an_honest_server_is_ok() -> None:
    for workers in (1, 2):
        case = judged(record_of("1_x", workers=workers))
        assert (case.verdict, case.reasons) == ("ok", [])
        assert case.of_ceiling.mean == pytest.approx(workers / CPUS, rel=0.02)
        assert case.ceiling_per_s == pytest.approx(CPUS / TASK_S, rel=0.02)


def test_above_the_ceiling() -> None:
    record = record_of("1_x", workers=2, speed=41)
    case = judged(record)
    assert case.verdict == "suspect"
    assert "above_ceiling" in codes(case)
    assert (
        "/s is 41.0 times the ceiling of 20.0/s: answers were sent before the work was done" in case.reasons[0].message
    )


def test_a_server_can_not_hide_behind_rounds_that_differ() -> None:
    records = [record_of("1_x", 1, workers=1), record_of("1_x", 2, workers=2, speed=20)]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *records])).cases
    assert "above_ceiling" in codes(case)


def test_an_answer_sooner_than_the_task_takes_alone() -> None:
    for seconds, expected in ((TASK_S * 0.84, ["too_fast"]), (TASK_S * 0.86, [])):
        assert codes(judged(record_of("1_x", idle_answer_s=seconds))) == expected
    case = judged(record_of("1_x", idle_answer_s=0.001))
    assert "an answer came after 1.0 ms, but the task alone takes 100 ms" in case.reasons[0].message


def test_a_check_that_is_answered_too_soon() -> None:
    record = record_of("1_x")
    record.checks.sent_s.append(1.0)
    record.checks.answered_s.append(1.02)
    record.checks.code.append("")
    record.checks.problem.append("")
    assert "too_fast" in codes(judged(record))


def test_a_check_without_an_answer_is_a_request_without_one() -> None:
    record = record_of("1_x")
    for column, value in zip(("sent_s", "answered_s", "code", "problem"), (1.0, 1.5, "no_answer", "none"), strict=True):
        getattr(record.checks, column).append(value)
    case = judged(record)
    assert codes(case) == ["availability"]
    assert "1 of 40 requests got no right answer, such as: none" in case.reasons[0].message


def test_where_right_answers_may_differ_none_is_of_a_wrong_length() -> None:
    assert codes(judged(record_of("1_x", answer_bytes=-1))) == []


def test_an_error_may_be_of_any_length() -> None:
    record = record_of("1_x")
    record.transactions.status[10], record.transactions.size_bytes[10] = 503, 17
    assert codes(judged(record)) == ["availability"]


def test_a_single_answer_may_come_at_the_highest_speed() -> None:
    """The task ran alone while the machine was slow; in the second half of the siege the machine is twice as fast."""
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


def test_less_cpu_than_the_task_needs() -> None:
    record = record_of("1_x")
    record.samples.cpu_s[:] = [value / 10 for value in record.samples.cpu_s]
    record.machine = Machine(total_s=8, busy_s=0.5, steal_s=0)
    case = judged(record)
    assert codes(case) == ["too_cheap"]
    assert "10 ms of CPU for each transaction, but the task needs 100 ms" in case.reasons[0].message


@pytest.mark.parametrize(("late_s", "expected"), [(0.6, ["littles_law"]), (1.2, [])])
def test_where_the_machine_stood_still_nobody_could_ask(late_s: float, expected: list[str]) -> None:
    """Users that waited for three quarters of the time, and a ping that was sent so late."""
    record = record_of("1_x")
    record.transactions.took_s[:] = [0.75 * took_s for took_s in record.transactions.took_s]
    record.pings.sent_s[40] = record.pings.due_s[40] + late_s
    assert [code for code in codes(judged(record)) if code == "littles_law"] == expected


def test_a_look_at_the_cpu_time_that_lacks_a_process_does_not_count() -> None:
    """Workers may be ended at the very moment when siege leaves, with what they had used."""
    record = record_of("1_x", workers=2)
    record.samples.cpu_s[-1] -= 4
    case = judged(record)
    assert codes(case) == []
    assert case.cpu_s_per_transaction == pytest.approx(TASK_S, rel=0.1)


@pytest.mark.parametrize(("needed_s", "expected"), [(0.0011, ["too_cheap"]), (0.0009, [])])
def test_less_than_the_clock_of_the_cpu_can_tell_is_not_too_cheap(needed_s: float, expected: list[str]) -> None:
    record, bare = record_of("1_x"), bare_record()
    record.samples.cpu_s[:] = [0.0001 * number for number in range(17)]
    record.machine = Machine(total_s=8, busy_s=0.2, steal_s=0)
    bare.alone_cpu_s[:] = [needed_s] * 3
    assert codes(judged(record, bare)) == expected


@pytest.mark.parametrize(("too_soon", "expected"), [(1, []), (2, ["too_fast"])])
def test_one_line_in_twenty_may_have_been_read_late(too_soon: int, expected: list[str]) -> None:
    """What came before it then looks slow, and it looks fast; here of some 35."""
    record = record_of("1_x")
    for place in range(20, 20 + too_soon):
        record.transactions.took_s[place] = 0.02
        record.transactions.finished_s[place] = record.transactions.finished_s[place - 5] + 0.02
    assert [code for code in codes(judged(record)) if code == "too_fast"] == expected


def test_a_task_that_hardly_computes_can_not_be_too_cheap() -> None:
    record, bare = record_of("1_x"), bare_record()
    record.samples.cpu_s[:] = [0.001 * number for number in range(17)]
    record.machine = Machine(total_s=8, busy_s=0.2, steal_s=0)
    bare.alone_cpu_s[:] = [0.0, 0.0, 0.0]
    assert codes(judged(record, bare)) == []


@pytest.mark.parametrize(
    ("factor", "complaint"), [(3.0, "but there are 5 users"), (0.5, "did not ask as often as it could")]
)
def test_figures_that_contradict_littles_law_in_either_direction(factor: float, complaint: str) -> None:
    record = record_of("1_x")
    record.transactions.took_s[:] = [factor * seconds for seconds in record.transactions.took_s]
    case = judged(record)
    assert codes(case) == ["littles_law"]
    assert complaint in case.reasons[0].message


@pytest.mark.parametrize(("share", "expected"), [(0.92, True), (0.94, False), (1.06, False), (1.08, True)])
def test_figures_of_a_tool_may_contradict_each_other_by_seven_per_cent(share: float, expected: bool) -> None:
    """Five by which rates differ, and two by which siege rounds."""
    record = record_of("1_x")
    spans = Round(record).spans
    inside = sum(record.transactions.took_s) / float(spans.ended_s[spans.last].sum())
    record.transactions.took_s[:] = [share / inside * seconds for seconds in record.transactions.took_s]
    assert ("littles_law" in codes(judged(record))) == expected


def test_what_was_lost_may_be_what_a_user_waited_for() -> None:
    record = record_of("1_x", socket_failures=1)
    record.transactions.took_s[:] = [seconds / 2 for seconds in record.transactions.took_s]
    assert codes(judged(record)) == ["availability"]


@pytest.mark.parametrize(("answers", "expected"), [(4, False), (5, True)])
def test_from_few_answers_no_mean_is_taken(answers: int, expected: bool) -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[answers:]
    record.transactions.took_s[:] = [3 * seconds for seconds in record.transactions.took_s]
    assert ("littles_law" in codes(judged(record))) == expected


@pytest.mark.parametrize(("rounds", "expected"), [(3, False), (4, True)])
def test_a_user_is_stuck_once_the_others_have_come_round_four_times(rounds: int, expected: bool) -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[5 * rounds :]
    record.values["users"] = 7
    assert ("littles_law" in codes(judged(record, bare_record(users=7)))) == expected


def test_users_that_are_stuck_while_others_are_served() -> None:
    stuck = record_of("1_x")
    stuck.values["users"], bare = 7, bare_record(users=7)
    case = judged(stuck, bare)
    assert codes(case) == ["littles_law"]
    assert "2 of 7 users never got an answer" in case.reasons[0].message


def test_a_siege_that_ends_before_most_have_an_answer_contradicts_nothing() -> None:
    slow = record_of("1_x", speed=0.25, users=25, idle_answer_s=0.5)
    slow.samples.cpu_s[:] = [value * 4 for value in slow.samples.cpu_s]
    slow.machine = None
    assert "littles_law" not in codes(judged(slow, bare_record(users=25)))


def test_less_than_full_availability() -> None:
    errors = record_of("1_x")
    errors.transactions.status[10] = 503
    case = judged(errors)
    assert codes(case) == ["availability"]
    assert "1 of 39 requests got no right answer" in case.reasons[0].message
    assert case.availability_pct == pytest.approx(100 * 38 / 39)
    refused = record_of("1_x", socket_failures=39)
    assert judged(refused).availability_pct == pytest.approx(50)


def test_a_starved_generator() -> None:
    case = judged(record_of("1_x", tool_cpu_s=0.8, machine=Machine(total_s=8, busy_s=4.9, steal_s=0)))
    assert codes(case) == ["generator"]
    assert "siege and the bench took 11 % of the machine's CPUs" in case.reasons[0].message
    less = record_of("1_x", tool_cpu_s=0.6, machine=Machine(total_s=8, busy_s=4.7, steal_s=0))  # with the bench 9 %
    assert codes(judged(less)) == []


def test_pings_without_an_answer() -> None:
    record = record_of("1_x")
    record.pings.problem[3] = "not answered"
    assert codes(judged(record)) == ["pings"]


def test_lines_of_siege_that_are_not_known() -> None:
    case = judged(record_of("1_x", tool_unknown=2, tool_unknown_lines=["what is this"]))
    assert codes(case) == ["unknown_lines"]
    assert "siege printed 2 lines that are not known; the first: what is this" in case.reasons[0].message


def test_a_siege_that_was_too_short() -> None:
    record = record_of("1_x")
    for name in record.transactions.__struct_fields__:
        del getattr(record.transactions, name)[2:]
    assert "too_short" in codes(judged(record))
    assert judged(record).rate_per_s is None


def test_an_honest_server_is_not_accused_when_few_users_of_the_ceiling_had_an_answer() -> None:
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
    ids=["died", "wrong bytes", "no transaction", "wrong check"],
)
def test_a_failure_has_no_numbers(spoil) -> None:
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


def test_every_rule_has_a_code_of_its_own_and_its_verdict() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert verdict_of([Reason(rule.code, "")]) == rule.verdict in ("suspect", "unclear")
    assert verdict_of([Reason("died", "")]) == "failed"
    assert verdict_of([Reason("unverified", ""), Reason("too_fast", "")]) == "suspect"
    assert verdict_of([]) == "ok"


def test_the_harnesss_own_requests_are_work_done() -> None:
    alone, checked = record_of("1_x"), record_of("1_x")
    for second in (1.0, 2.0, 3.0):
        checked.checks.sent_s.append(second)
        checked.checks.answered_s.append(second + 0.5)
        checked.checks.code.append("")
        checked.checks.problem.append("")
    more = judged(checked).rate_per_s.mean - judged(alone).rate_per_s.mean
    assert more == pytest.approx(3 / (TIME_S - 0.5), rel=0.15)


def test_the_exit_code_is_that_of_the_gravest_verdict() -> None:
    fine, flawed = record_of("1_x"), record_of("2_x", socket_failures=1)
    failed, unclear = record_of("3_x", failure=Failure("died", "it died")), record_of("4_x", users=6)
    assert exit_code(result_of([bare_record(), fine])) == 0
    assert exit_code(result_of([bare_record(), fine, flawed])) == 3
    assert exit_code(result_of([bare_record(), fine, unclear])) == 3  # there is no ceiling for six users
    assert exit_code(result_of([bare_record(), fine, flawed, failed])) == 1
