"""Claims are decided correctly on a simulated machine that is busy with other programs."""

import functools

import numpy as np
import pytest
from msgspec.structs import replace
from simulated_record import CPUS, TIME_S, result_of
from simulated_results import ROUNDS, SPEED_PROBE, a_record, add_beats, suspicious, vary

from under_siege.lesson.claims import HOLDS, UNDECIDED, ResultView, decide, decide_question
from under_siege.lesson.step import Choice, Claim, Question
from under_siege.record.record import Machine

RUNS, SLOTS, NOISE_OF_ROUNDS, FALSE = 60, 12, 0.02, 0.05
# Possible numbers of other programs, and possible shares of a round during which each of them computes.
LOADS = {"restless": ((1, 2, 3), (0.0, 0.2, 0.5, 1.0)), "always busy": ((1,), (1.0,)), "crowded": ((2, 3), (0.9,))}
EQUAL, TWICE = (("1_a", 1), ("3_c", 1)), (("1_a", 1), ("3_c", 2))
ALIKE, MORE = (">= 0.83", "<= 1.2"), (">= 1.1",)
WRONG = {
    EQUAL: ((">= 1.1",), ("<= 0.91",), (">= 1.5",), (">= 1.5", "<= 2.6")),
    TWICE: (ALIKE, ("<= 0.91",), ("<= 1.5",), (">= 3",)),
}
RIGHT = {EQUAL: ALIKE, TWICE: MORE}


def busy(servers: tuple[tuple[str, int], ...], load: str, seed: int):
    """Simulate three rounds in which each server's workers and other programs share two CPUs fairly."""
    rng = np.random.default_rng(seed)
    programs, often = LOADS[load]
    records = []
    for round_ in ROUNDS:
        for server, workers in servers:
            active = rng.binomial(rng.choice(programs), rng.choice(often), SLOTS)
            each = np.minimum(1.0, CPUS / (active + workers))  # CPU share of each running process
            quality = float(each.mean() * np.exp(rng.normal(0, NOISE_OF_ROUNDS)))
            record = a_record(server, round_, workers, quality, 1.0, waits=False)
            vary(record, rng, NOISE_OF_ROUNDS)
            record.has_ceiling = False
            add_beats(record, 1.0, workers, rng)
            at_s = np.array(record.samples.at_s)
            record.samples.waited_s[:] = (workers * (1 - each.mean()) * (at_s - at_s[0])).tolist()
            record.samples.processes[:] = [workers] * len(at_s)
            used = workers * quality + float((active * each).mean())
            record.machine = Machine(total_s=CPUS * TIME_S, busy_s=min(CPUS, used) * TIME_S + 0.1, steal_s=0.0)
            records.append(record)
    return result_of(records, speed_probe=SPEED_PROBE)


@functools.cache
def seen(servers: tuple[tuple[str, int], ...], load: str) -> list[ResultView]:
    return [ResultView(busy(servers, load, seed)) for seed in range(RUNS)]


def claim(limits: tuple[str, ...]) -> Claim:
    requires = tuple(f"rate {limit} of base" for limit in limits)
    return Claim("3", requires, "1", claim="so it is", says="So it is.", otherwise="It is not.")


def share_of_false(servers: tuple[tuple[str, int], ...], load: str) -> float:
    """Return the share of runs in which a false claim is accepted or a true claim is rejected."""
    wrong = [
        any(decide(claim(one), each).outcome == HOLDS for one in WRONG[servers])
        or decide(claim(RIGHT[servers]), each).outcome not in (HOLDS, UNDECIDED)
        for each in seen(servers, load)
    ]
    return float(np.mean(wrong))


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("servers", [EQUAL, TWICE], ids=["equal", "twice"])
def test_claims_are_rarely_decided_wrongly_on_a_busy_machine(servers: tuple[tuple[str, int], ...], load: str) -> None:
    assert share_of_false(servers, load) < FALSE


def test_a_claim_about_a_large_effect_is_decided_on_a_busy_machine() -> None:
    found = [decide(claim(MORE), each) for each in seen(TWICE, "always busy")]
    assert {one.outcome for one in found} == {HOLDS}
    page = Question("Which?", (Choice("So.", ("so",)),), "A", (replace(claim(MORE), name="so"),), result="r")
    assert decide_question(page, seen(TWICE, "always busy")[0]).sentences == [(HOLDS, "So it is.")]


def test_a_suspect_case_does_not_decide_a_claim_on_a_busy_machine() -> None:
    result = suspicious(busy(TWICE, "always busy", 1), "3_c")
    assert decide(claim(MORE), ResultView(result)).outcome == UNDECIDED
