"""Verdict rules: each rule raises a flag just beyond its limit but not just within it, and explains the flag."""

import pytest
from formatted import formatted
from rows import add_check, fail, keep_first, places, set_status, waits_of, without
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from verdicts import codes, judged

from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.verdict_rules import RULES, Reason, verdict_of
from under_siege.lesson.exercise_check import FAULTS, OF_THE_MACHINE
from under_siege.record.record import Failure, Machine, Record
from under_siege.record.requests import CORRECT, LOAD, LOST, OPEN, PING, WRONG, Outcome, close_loop
from under_siege.report import view_of


def test_an_honest_server_has_the_verdict_ok() -> None:
    for workers in (1, 2):
        case = judged(record_of("1_x", workers=workers))
        assert (case.verdict, case.reasons) == ("ok", [])
        assert case.of_ceiling.mean == pytest.approx(workers / CPUS, rel=0.02)
        assert case.ceiling_per_s == pytest.approx(CPUS / TASK_S, rel=0.02)


def with_check(record: Record, sent_s: float, ended_s: float, outcome: Outcome = CORRECT, problem: str = "") -> Record:
    """Add a response check to the record, and return the record."""
    add_check(record, sent_s, ended_s, outcome, problem)
    return record


def first_responses(record: Record, count: int) -> Record:
    """Keep only the first responses of the record, and return the record."""
    keep_first(record, count)
    return record


def scaled(record: Record, factor: float) -> Record:
    """Multiply the response times that the load tool reports, and return the record."""
    requests = record.requests
    for index in places(requests):
        requests.sent_s[index] = requests.ended_s[index] - factor * (requests.ended_s[index] - requests.sent_s[index])
    return record


def with_status(status: int, size_bytes: int) -> Record:
    record = record_of("1_x")
    set_status(record, status, [10], size_bytes)
    return record


def of_cpu(share: float) -> Record:
    """Return a record of a server that used this share of the CPU time that its task needs."""
    record = record_of("1_x", machine=Machine(total_s=8, busy_s=0.5, steal_s=0))
    record.samples.cpu_s[:] = [value * share for value in record.samples.cpu_s]
    return record


def beside(used_s: float) -> Record:
    """Return a record of a server beside a load tool that used this CPU time of 8 s."""
    return record_of("1_x", tool_cpu_s=used_s, machine=Machine(total_s=8, busy_s=4.1 + used_s, steal_s=0))


def with_unanswered_ping() -> Record:
    record = record_of("1_x")
    fail(record.requests, 3, LOST, "not answered")
    return record


FLAGS = {
    "nothing": (record_of("1_x"), []),
    "41 times the ceiling": (record_of("1_x", workers=2, speed=41), ["above_ceiling", "too_fast", "too_cheap"]),
    "response in 84 % of the task's duration": (record_of("1_x", idle_answer_s=TASK_S * 0.84), ["too_fast"]),
    "response in 86 % of the task's duration": (record_of("1_x", idle_answer_s=TASK_S * 0.86), []),
    "check faster than the task": (with_check(record_of("1_x"), 1.0, 1.02), ["too_fast"]),
    "check cut off by the end of the load": (with_check(record_of("1_x"), 1.0, 4.0, OPEN), []),
    "check without a response": (with_check(record_of("1_x"), 1.0, 1.5, LOST, "none"), ["availability"]),
    "correct responses of any length": (record_of("1_x", answer_bytes=-1), []),
    "error of another length": (with_status(503, 17), ["availability"]),
    "lost request, too few in flight": (scaled(record_of("1_x", unlisted_losses=1), 0.5), ["availability"]),
    "a tenth of the CPU time": (of_cpu(0.1), ["too_cheap"]),
    "too many requests in flight": (scaled(record_of("1_x"), 3.0), ["littles_law"]),
    "too few requests in flight": (scaled(record_of("1_x"), 0.5), ["littles_law"]),
    "11.2 % of the CPU time for the load": (beside(0.8), ["generator"]),
    "9 % of the CPU time for the load": (beside(0.6), []),
    "unanswered ping": (with_unanswered_ping(), ["pings"]),
    "unknown lines": (record_of("1_x", tool_unknown=2, tool_unknown_lines=["what is this"]), ["unknown_lines"]),
    "two responses": (first_responses(record_of("1_x"), 2), ["too_short"]),
}


@pytest.mark.parametrize("name", FLAGS)
def test_each_rule_raises_and_explains_its_flag(name: str, golden) -> None:
    record, expected = FLAGS[name]
    case = judged(record)
    assert codes(case) == expected
    golden(*(reason.message for reason in case.reasons))


def test_noisy_rounds_do_not_hide_a_rate_above_the_ceiling() -> None:
    records = [record_of("1_x", 1, workers=1), record_of("1_x", 2, workers=2, speed=20)]
    (case,) = summarize(result_of([bare_record(1), bare_record(2), *records])).cases
    assert "above_ceiling" in codes(case)


def test_a_response_possible_at_the_highest_cpu_speed_is_not_flagged_as_too_fast() -> None:
    """Simulate a machine that is twice as fast in the second half of the siege as during the reference runs."""
    record, bare = record_of("1_x", idle_answer_s=0.45 * TASK_S), bare_record()
    record.alone_wall_s[:] = record.alone_cpu_s[:] = [TASK_S] * 3
    record.alone_at_s[:], record.alone_on_cpu[:] = [-1.0] * 3, [0] * 3
    for place in range(120):
        at_s = 0.05 * place - 2.0
        record.speed_samples.at_s.append(at_s)
        record.speed_samples.cpu.append(0)
        record.speed_samples.took_s.append(15e-6 if at_s < TIME_S / 2 else 7.5e-6)
    assert "too_fast" not in codes(judged(record, bare))
    record.idle_answer_s = 0.4 * TASK_S
    assert "too_fast" in codes(judged(record, bare))


@pytest.mark.parametrize(("late_s", "expected"), [(0.6, ["littles_law"]), (1.2, [])])
def test_a_violation_of_littles_law_is_not_flagged_if_a_machine_stall_explains_it(
    late_s: float, expected: list[str]
) -> None:
    """Let users wait for 75 % of the time, and send one ping `late_s` seconds late."""
    record = scaled(record_of("1_x"), 0.75)
    ping = places(record.requests, PING)[40]
    record.requests.sent_s[ping] = record.requests.due_s[ping] + late_s
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
    requests, answers = record.requests, places(record.requests)
    for number in range(20, 20 + too_soon):
        requests.sent_s[answers[number]] = requests.ended_s[answers[number - 5]]
        requests.ended_s[answers[number]] = requests.sent_s[answers[number]] + 0.02
    assert [code for code in codes(judged(record)) if code == "too_fast"] == expected


def test_a_task_that_needs_no_cpu_time_is_not_flagged_as_too_cheap() -> None:
    record, bare = record_of("1_x"), bare_record()
    record.samples.cpu_s[:] = [0.001 * number for number in range(17)]
    record.machine = Machine(total_s=8, busy_s=0.2, steal_s=0)
    bare.alone_cpu_s[:] = [0.0, 0.0, 0.0]
    assert codes(judged(record, bare)) == []


@pytest.mark.parametrize(("share", "expected"), [(0.92, True), (0.94, False), (1.06, False), (1.08, True)])
def test_a_load_tool_may_deviate_from_littles_law_by_7_percent(share: float, expected: bool) -> None:
    """Allow 5 % for differences between rates and 2 % for siege's rounding."""
    record = record_of("1_x")
    spans = Round(record).spans
    inside = sum(waits_of(record.requests, LOAD)) / float(spans.ended_s[spans.last].sum())
    assert ("littles_law" in codes(judged(scaled(record, share / inside)))) == expected


@pytest.mark.parametrize(("answers", "expected"), [(4, False), (5, True)])
def test_littles_law_is_checked_only_with_five_or_more_responses(answers: int, expected: bool) -> None:
    record = scaled(first_responses(record_of("1_x"), answers), 3)
    assert ("littles_law" in codes(judged(record))) == expected


@pytest.mark.parametrize(("rounds", "expected"), [(3, False), (4, True)])
def test_a_user_without_responses_is_flagged_once_the_other_users_have_four_each(rounds: int, expected: bool) -> None:
    record = first_responses(record_of("1_x"), 5 * rounds)
    record.values["users"] = 7
    assert ("littles_law" in codes(judged(record, bare_record(users=7)))) == expected


def test_a_short_siege_does_not_violate_littles_law() -> None:
    slow = record_of("1_x", speed=0.25, users=25, idle_answer_s=0.5)
    slow.samples.cpu_s[:] = [value * 4 for value in slow.samples.cpu_s]
    slow.machine = None
    assert "littles_law" not in codes(judged(slow, bare_record(users=25)))


def with_other_work(record: Record, share: float) -> Record:
    """Let other programs use this share of all CPU time, and return the record."""
    total_s = CPUS * TIME_S
    record.machine = Machine(total_s=total_s, busy_s=TIME_S + 0.15 + share * total_s, steal_s=0.0)
    return record


def test_a_rate_is_unclear_if_other_programs_had_most_of_the_cpu_time() -> None:
    for others, expected in ((0.3, []), (0.6, ["busy_machine"])):
        record = with_other_work(record_of("1_x"), others)
        assert [code for code in codes(judged(record)) if code == "busy_machine"] == expected


@pytest.mark.parametrize(("others", "expected"), [(0.0, True), (0.4, False)])
def test_a_tool_that_the_machine_delays_is_not_accused(others: float, expected: bool) -> None:
    record = with_other_work(scaled(record_of("1_x"), 0.5), others)
    assert ("littles_law" in codes(judged(record))) == expected


def test_failed_requests_are_flagged_and_lower_availability() -> None:
    errors = record_of("1_x")
    set_status(errors, 503, [10])
    case = judged(errors)
    assert codes(case) == ["availability"]
    assert case.availability_pct == pytest.approx(100 * 38 / 39)
    refused = record_of("1_x", unlisted_losses=39)
    assert judged(refused).availability_pct == pytest.approx(50)


def test_an_honest_server_is_not_suspect_if_few_users_of_the_ceiling_got_a_response() -> None:
    ceiling = bare_record(users=30)
    without(ceiling, LOAD)
    for number in range(80):
        ended_s = 0.9 * (1 + number // 20)
        ceiling.requests.add(
            LOAD, user=number % 20, sent_s=ended_s - 0.9, ended_s=ended_s, status=200, size_bytes=4, outcome=CORRECT
        )
    close_loop(ceiling.requests, 30, TIME_S)
    case = judged(record_of("1_x", workers=2, users=30, speed=3), ceiling)
    assert "too_short" in codes(case)
    assert "above_ceiling" not in codes(case)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: setattr(record, "failure", Failure("died", "it died")),
        lambda record: set_status(record, 200, [5], size_bytes=0),
        lambda record: set_status(record, 503),
        lambda record: with_check(record, 1.0, 1.5, WRONG, "it is wrong"),
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
    assert (case.verdict, codes(case)) == ("failed", ["died"])


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
    records = [record_of("1_a"), bare_record(tool_unknown=1, tool_unknown_lines=["a line"])]
    text = formatted(result_of(records), dress)
    assert "a line" in text
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
        with_check(checked, second, second + 0.5)
    more = judged(checked).rate_per_s.mean - judged(alone).rate_per_s.mean
    assert more == pytest.approx(3 / (TIME_S - 0.5), rel=0.15)


def test_the_worst_verdict_sets_the_exit_code() -> None:
    fine, flawed = record_of("1_x"), record_of("2_x", unlisted_losses=1)
    failed, unclear = record_of("3_x", failure=Failure("died", "it died")), record_of("4_x", users=6)
    assert view_of(result_of([bare_record(), fine])).exit_code == 0
    assert view_of(result_of([bare_record(), fine, flawed])).exit_code == 3
    assert view_of(result_of([bare_record(), fine, unclear])).exit_code == 3  # the ceiling had only five users
    assert view_of(result_of([bare_record(), fine, flawed, failed])).exit_code == 1


def test_the_exercises_explain_every_reason_for_a_verdict() -> None:
    of_arrivals = {"overload"}  # the load of exercises has users, who wait for responses
    assert {rule.code for rule in RULES} - of_arrivals <= {*OF_THE_MACHINE, *FAULTS}
    depends = {"no_transactions"}  # the cause depends on whether the server answered at all
    assert set(OF_THE_MACHINE) & set(FAULTS) == depends


def paced(took_s: float, users: int = 4) -> Record:
    """Return the record of users who send a request each second, with the same response time each."""
    record = first_responses(record_of("1_paced", users=users, parameters={"pause": "1s"}), 0)
    for user in range(users):
        for number in range(4):
            ended_s = number + 0.9
            record.requests.add(
                LOAD, user=user, sent_s=ended_s - took_s, ended_s=ended_s, status=200, size_bytes=4, outcome=CORRECT
            )
    return record


def test_users_who_pause_do_not_contradict_littles_law() -> None:
    assert "littles_law" not in codes(judged(paced(0.2)))
    assert "littles_law" in codes(judged(paced(1.8)))


def arriving(per_s: int, served_per_s: float, time_s: float = 15.0) -> Record:
    """Return the record of so many arrivals a second at a server that works on one request at a time."""
    arrivals = {"arrivals": f"{per_s}/s"}
    record = record_of("1_open", load_s=time_s, has_ceiling=False, has_task=False, parameters=arrivals)
    without(record, LOAD)
    free_s = 0.0
    for number in range(int(per_s * time_s)):
        due_s = number / per_s
        free_s = max(due_s, free_s) + 1 / served_per_s
        if free_s <= time_s:
            record.requests.add(
                LOAD, user=number, sent_s=due_s, ended_s=free_s, status=200, size_bytes=4, outcome=CORRECT
            )
        else:
            record.requests.add(LOAD, user=number, sent_s=due_s, ended_s=time_s, outcome=OPEN)
    return record


@pytest.mark.parametrize(
    ("per_s", "served_per_s", "expected"), [(40, 20, ["overload"]), (24, 20, ["overload"]), (40, 41, [])]
)
def test_a_server_that_answers_less_than_arrives_is_overloaded(
    per_s: int, served_per_s: float, expected: list[str]
) -> None:
    (case,) = summarize(result_of([arriving(per_s, served_per_s)])).cases
    assert codes(case) == expected
    assert case.rate_per_s.mean == pytest.approx(min(served_per_s, per_s), rel=0.03)
    assert case.availability_pct == 100
    if expected:
        assert case.response_s.p99 is None  # reports show a lower bound
    else:
        assert case.response_s.p99 == pytest.approx(1 / served_per_s, rel=0.001)


def test_the_message_about_an_overload_says_how_much_arrived_and_was_answered(golden) -> None:
    (case,) = summarize(result_of([arriving(40, 20)])).cases
    golden(*(reason.message for reason in case.reasons))
