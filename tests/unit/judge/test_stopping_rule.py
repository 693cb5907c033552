"""Which cases get another round: those that may be the best, until they are known well enough."""

import pytest
from noise_study import POOLS, raced
from simulated_record import TIME_S, bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.judge.stopping_rule import Decision, wanted
from under_siege.record.case import Case, case_of
from under_siege.record.requests import CORRECT, Requests
from under_siege.record.result import Required, Result

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)


def rounds_of(*servers: tuple[str, int, float, int], noise: tuple[float, ...] = NOISE) -> Result:
    """Return the rounds of servers (name, workers, speed, number of rounds) and of the ceiling."""
    most = max(count for *_, count in servers)
    records = [bare_record(round_, speed=noise[round_ - 1]) for round_ in range(1, most + 1)]
    for server, workers, speed, count in servers:
        for round_ in range(1, count + 1):
            record = record_of(server, round_, workers=workers, speed=speed * noise[round_ - 1])
            record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
            record.machine = None
            records.append(record)
    return result_of(records)


def unverified(result: Result, server: str) -> Result:
    """Lower the server's CPU time, so that its case is unclear but not suspect."""
    for record in result.records:
        if record.server == server:
            record.samples.cpu_s[:] = [value * 0.72 for value in record.samples.cpu_s]
    return result


def case_named(server: str) -> Case:
    return case_of(server, {"task": "primes", "users": 5, "python": "3.11.7"})


def names(decision: Decision) -> list[str]:
    return [case.server for case in decision.cases]


def test_after_the_first_round_only_cases_near_the_best_are_measured_again_the_fastest_first() -> None:
    result = rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 0.9, 1), ("4_d", 2, 1.0, 1), ("5_e", 2, 0.6, 1))
    assert names(wanted(result)) == ["4_d", "3_c"]


def test_cases_that_may_be_the_best_get_at_least_three_rounds() -> None:
    for count in (1, 2):
        decision = wanted(rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 1.0, count)))
        assert names(decision) == ["3_c"]
        assert decision.undecided == [case_named("3_c")]
    decision = wanted(rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 1.0, 3)))
    assert "3_c" not in names(decision)
    assert not decision.undecided


def test_other_cases_get_a_second_round_only_after_those_that_may_be_the_best() -> None:
    assert names(wanted(rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 1.0, 3)))) == ["1_a"]
    assert names(wanted(rounds_of(("1_a", 1, 1.0, 2), ("3_c", 2, 1.0, 3)))) == []


def test_cases_that_may_be_the_best_are_measured_until_they_are_alike_and_precise() -> None:
    noisy = (1.0, 1.15, 0.9)
    decision = wanted(rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 1.0, 3), ("4_d", 2, 0.96, 3), noise=noisy))
    assert set(names(decision)) == {"3_c", "4_d"}
    assert set(decision.undecided) == set(decision.cases)
    assert wanted(rounds_of(("3_c", 2, 1.0, 3), ("4_d", 2, 1.0, 3))) == Decision([], [])


def test_an_unclear_case_is_measured_again_if_it_may_be_the_best_and_otherwise_three_times() -> None:
    fast = unverified(rounds_of(("1_a", 1, 1.0, 1), ("3_c", 2, 1.0, 4)), "3_c")
    assert summarize(fast).cases[1].verdict == "unclear"
    assert names(wanted(fast)) == ["3_c"]
    slow = unverified(rounds_of(("1_a", 1, 1.0, 2), ("3_c", 2, 1.0, 3)), "1_a")
    assert names(wanted(slow)) == ["1_a"]
    assert names(wanted(unverified(rounds_of(("1_a", 1, 1.0, 3), ("3_c", 2, 1.0, 3)), "1_a"))) == []


def test_a_case_with_an_undecided_requirement_gets_another_round() -> None:
    result = rounds_of(("1_a", 1, 1.0, 3), ("3_c", 2, 1.0, 3))
    result.requirements.append(Required("rate >= 10/s"))
    assert names(wanted(result)) == ["1_a"]


@pytest.mark.parametrize(("kind", "ceiling_per_s"), [("recorded", 18.0), ("noisy", 10.0)])
def test_a_default_run_on_a_slow_and_noisy_machine_recommends_a_pool(kind: str, ceiling_per_s: float) -> None:
    races = raced(range(1), kind, ceiling_per_s)
    assert set(races.recommended) <= POOLS
    assert not races.wrong_ranks
    assert max(races.half_widths) < 0.1


@pytest.mark.parametrize(("answers", "is_wanted"), [(40, True), (4, False)])
def test_a_case_without_a_rate_is_measured_again_if_it_answered_as_many_requests_as_the_best(
    answers: int, is_wanted: bool
) -> None:
    """A siege is too short for a rate if some requests take much longer than most."""
    result = rounds_of(("3_c", 2, 1.0, 3), ("4_d", 2, 1.0, 1))
    for record in result.records:
        if record.server == "4_d":
            pings = record.requests.only("ping")
            record.requests = Requests()
            for user in range(record.users):
                sent_s = 0.0
                for took_s in (*[0.11] * answers, 0.6 * TIME_S):
                    record.requests.add("load", user=user, due_s=sent_s, sent_s=sent_s, ended_s=sent_s + took_s,
                                        status=200, size_bytes=4, outcome=CORRECT)  # fmt: skip
                    sent_s += took_s
            for row in range(len(pings)):
                record.requests.add("ping", due_s=pings.due_s[row], sent_s=pings.sent_s[row],
                                    ended_s=pings.ended_s[row], status=200, outcome=CORRECT)  # fmt: skip
    (case,) = [each for each in summarize(result).cases if each.server == "4_d"]
    assert (case.verdict, case.rate_per_s) == ("unclear", None), case.reasons
    assert (case.case in wanted(result).undecided) == is_wanted
