"""What the lesson ticks on a busy machine is true on a quiet one: simulated, with other programs that come and go."""

import functools
import re

import numpy as np
import pytest
from msgspec.structs import replace
from simulated_record import CPUS, TIME_S, result_of
from simulated_results import ROUNDS, a_record, a_result, suspicious, vary

from common.lesson import claims, noise
from common.lesson.claims import HOLDS, UNDECIDED, found_in, judged
from common.lesson.figures import Seen
from common.lesson.step import Answer, Claim, Page
from common.model.record import Machine

RUNS, SLOTS, NOISE_OF_ROUNDS, FALSE = 60, 12, 0.02, 0.05
# How many other programs there are, and how often each of them computes, in a round of a case: as chance has it.
WEATHERS = {"restless": ((1, 2, 3), (0.0, 0.2, 0.5, 1.0)), "always busy": ((1,), (1.0,)), "crowded": ((2, 3), (0.9,))}
EQUAL, TWICE = (("1_a", 1), ("3_c", 1)), (("1_a", 1), ("3_c", 2))
WRONG = {
    EQUAL: ("more", "less", "at least 1.5 times", "about 2 times"),
    TWICE: ("same", "less", "at most 1.5 times", "at least 3 times"),
}
RIGHT = {EQUAL: "same", TWICE: "more"}


def busy(servers: tuple[tuple[str, int], ...], weather: str, seed: int):
    """Three rounds in which the system shares two CPUs fairly among the server's workers and other programs."""
    rng = np.random.default_rng(seed)
    programs, often = WEATHERS[weather]
    records = []
    for round_ in ROUNDS:
        for server, workers in servers:
            active = rng.binomial(rng.choice(programs), rng.choice(often), SLOTS)
            each = np.minimum(1.0, CPUS / (active + workers))  # of a CPU, for whoever computes
            quality = float(each.mean() * np.exp(rng.normal(0, NOISE_OF_ROUNDS)))
            record = a_record(server, round_, workers, quality, 1.0, waits=False)
            vary(record, rng, NOISE_OF_ROUNDS)
            record.has_ceiling = False
            used = workers * quality + float((active * each).mean())
            record.machine = Machine(total_s=CPUS * TIME_S, busy_s=min(CPUS, used) * TIME_S + 0.1, steal_s=0.0)
            records.append(record)
    return result_of(records)


@functools.cache
def seen(servers: tuple[tuple[str, int], ...], weather: str) -> list[Seen]:
    return [Seen(busy(servers, weather, seed)) for seed in range(RUNS)]


def claim(is_: str) -> Claim:
    return Claim("rate", "3", is_, "1", claim="so it is", says="So it is.", otherwise="It is not.")


def share_of_false(servers: tuple[tuple[str, int], ...], weather: str) -> float:
    """Of the runs in which anything is ticked that is not true, or the truth is denied."""
    wrong = [
        any(judged(claim(one), each).outcome == HOLDS for one in WRONG[servers])
        or judged(claim(RIGHT[servers]), each).outcome not in (HOLDS, UNDECIDED)
        for each in seen(servers, weather)
    ]
    return float(np.mean(wrong))


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("servers", [EQUAL, TWICE], ids=["equal", "twice"])
def test_what_is_not_true_is_hardly_ever_ticked_on_a_busy_machine(
    servers: tuple[tuple[str, int], ...], weather: str
) -> None:
    assert share_of_false(servers, weather) < FALSE


def test_without_the_leeway_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers lose more to another program than one does."""
    monkeypatch.setattr(claims, "_on_a_quiet_machine", lambda between, *_: between)
    assert share_of_false(TWICE, "always busy") > FALSE


def test_what_is_plain_is_told_on_a_busy_machine_too() -> None:
    """Two workers against one, beside one other program: each uses all that it can."""
    found = [judged(claim("more"), each) for each in seen(TWICE, "always busy")]
    assert {one.outcome for one in found} == {HOLDS}
    page = Page("Which?", (Answer("So.", ("so",)),), "A", (replace(claim("more"), name="so"),), result="r")
    sentences = found_in(page, seen(TWICE, "always busy")[0]).sentences
    assert sentences == [(HOLDS, f"So it is. {claims.ON_A_BUSY_MACHINE}")]


def test_why_it_can_not_be_told_is_said_once_and_with_what_is_possible() -> None:
    page = Page("Which?", (Answer("So.", ()),), "A", (claim("same"), claim("more")), result="r")
    found = found_in(page, seen(EQUAL, "crowded")[0])
    assert [re.sub(r"\d+", "N", one) for one in found.reasons] == ["Other programs took up to N % of the CPUs."]
    assert all("times as much is possible" in sentence for _, sentence in found.sentences)


def test_what_is_suspect_bears_out_nothing_on_a_busy_machine_either() -> None:
    result = suspicious(busy(TWICE, "always busy", 1), "3_c")
    assert judged(claim("more"), Seen(result)).outcome == UNDECIDED


def test_the_rate_of_a_task_that_waits_has_a_limit_that_no_other_program_moves() -> None:
    """Whatever else computes, all seats taken all the time is the most that there can be."""
    result = a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0), waits=True)
    for record in result.records:
        record.has_ceiling = False
        record.alone_cpu_s[:] = [0.0] * len(record.alone_cpu_s)
        record.machine = Machine(total_s=CPUS * TIME_S, busy_s=0.95 * CPUS * TIME_S, steal_s=0.0)
    of_two = next(
        noise.slowdown(rounds[0]) for rounds in Seen(result).comparison.rounds if rounds[0].case.server == "3_c"
    )
    assert 1 <= of_two < 1.3


def test_a_ping_may_have_waited_for_the_bench_itself() -> None:
    """By as much as that was late, a ping may be shorter on a quiet machine."""
    [first, *_] = seen(EQUAL, "always busy")[0].comparison.rounds
    weather = seen(EQUAL, "always busy")[0].comparison.weather
    least = noise.leeway("ping_p99_s", 0.002, first, weather)[0]
    assert least < noise.leeway("response_p99_s", 0.002, first, weather)[0]
