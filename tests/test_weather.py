"""A machine that changes its speed, simulated: what is corrected for it is right, and what needs no correction is left.

Simulations with fixed seeds; what is counted may differ from its expectation by what so many samples allow.
`scripts/simulate_weather` counts over more runs.
"""

import functools
import math

import numpy as np
import pytest
from command import called
from simulated_machine import Server, SimulatedMachine, drifting, quiet, restless
from weather_study import COMPUTING, WAITING, Study, studied

from common.model.record import save
from common.model.validity import faults
from common.report.dressing import dressed
from common.report.figures.control import Windows
from common.report.figures.rounds import Round
from common.report.figures.speed import speeds_of
from common.report.judging.comparison import summarize

RUNS = 12
LIES = ("answers_at_once", "does_a_third", "uses_no_cpu")


@functools.cache
def study(speeds, servers: tuple[Server, ...], beside: float = 1.0, runs: int = RUNS) -> Study:
    """Done once for all that is claimed of it."""
    asked_uncorrected = beside == 1.0 and speeds is not drifting
    return studied(speeds, servers, 3, beside, runs, also_uncorrected=asked_uncorrected)


@pytest.mark.parametrize("speeds", [quiet, restless, drifting])
def test_intervals_cover_the_truth_in_any_weather(speeds) -> None:
    """93 to 97 % over thousands; those of a run have the error of the usual speed, or of the ceiling, in common."""
    found = study(speeds, COMPUTING)
    least = 0.95 - 3 * (0.05 * 0.95 / RUNS) ** 0.5
    assert np.mean(found.covered) > least
    assert np.mean(found.shares_covered) > least


@pytest.mark.parametrize("speeds", [quiet, restless, drifting])
def test_equal_servers_are_told_apart_in_few_runs_in_any_weather(speeds) -> None:
    assert study(speeds, COMPUTING).told_apart <= 0.05 * RUNS + 2 * (0.05 * 0.95 * RUNS) ** 0.5


def test_what_the_weather_did_is_taken_out() -> None:
    found = study(restless, COMPUTING)
    assert np.std(found.shares) < np.std(found.uncorrected) / 3
    assert np.mean(found.shares) == pytest.approx(1, abs=0.01)
    assert np.mean(found.coefficients) == pytest.approx(1, abs=0.1)


def test_on_a_quiet_machine_nothing_gets_worse() -> None:
    found = study(quiet, COMPUTING)
    assert np.std(found.shares) < 1.05 * np.std(found.uncorrected)
    assert set(found.verdicts) == {"ok"}


def test_a_task_that_waits_is_not_corrected() -> None:
    found = study(restless, WAITING, runs=8)
    assert set(found.coefficients) == {0.0}
    assert found.shares == found.uncorrected


def test_honest_servers_are_not_accused_in_any_weather() -> None:
    for speeds in (quiet, restless, drifting):
        verdicts = study(speeds, COMPUTING).verdicts
        assert "suspect" not in verdicts
        assert verdicts.count("ok") > 0.95 * len(verdicts)


def test_a_busy_sibling_of_ones_own_is_the_truth_of_a_strategy_and_no_weather() -> None:
    """Two who compute slow each other down to 0.62: one alone reaches 0.81 of the ceiling, and not a half."""
    for speeds in (quiet, restless):
        found = study(speeds, COMPUTING, beside=0.62, runs=10)
        assert np.mean(found.shares) == pytest.approx(1, abs=0.02)
        assert np.mean(found.shares_covered) > 0.75


@pytest.mark.parametrize("speeds", [quiet, restless, drifting])
def test_no_weather_makes_a_liar_ok_or_an_honest_server_beside_it_suspect(speeds) -> None:
    liars = tuple(Server(lie, 2, slower=1 / 3 if lie == "does_a_third" else 1.0) for lie in LIES)
    for seed in range(3):
        result = SimulatedMachine(speeds, seed).result((*COMPUTING[:3], *liars), rounds=2)
        for record in result.records:
            if record.server == "answers_at_once":
                record.idle_answer_s = 0.001
            elif record.server == "uses_no_cpu":
                record.samples.cpu_s[:] = [1 + (used_s - 1) / 20 for used_s in record.samples.cpu_s]
        *honest, _, _, _ = cases = summarize(result).cases
        for case in cases:
            assert (case.verdict == "suspect") == (case not in honest), (case.server, case.reasons)


def test_the_speed_is_that_of_the_cpus_that_worked() -> None:
    """CPU 0 is twice as fast as CPU 1, and the server is on CPU 0 alone."""
    result = SimulatedMachine(quiet, 1).result((Server("1_a", 1),), rounds=1)
    record = next(record for record in result.records if record.server == "1_a")
    record.beats.took_s[:] = [0.001 if cpu == 0 else 0.002 for cpu in record.beats.cpu]
    record.cpu_times.busy_s[0] = list(record.cpu_times.at_s)
    record.cpu_times.busy_s[1] = [0.0] * len(record.cpu_times.at_s)
    speeds = speeds_of(record)
    assert speeds.mean(0, 4) == pytest.approx(1000, rel=0.02)
    assert speeds.highest(0, 4) == pytest.approx(1000)
    assert speeds.at(2.0, 1) == pytest.approx(500)
    assert speeds.load_beside(0, 4) == pytest.approx(0, abs=0.05)
    record.cpu_times.busy_s.clear()  # where it isn't known who was busy, all count the same
    assert speeds_of(record).mean(0, 4) == pytest.approx(750, rel=0.01)


@pytest.mark.parametrize("odd_s", [0.1, 0.0])
def test_a_beat_that_was_interrupted_or_not_counted_by_its_clock_does_not_count(odd_s: float) -> None:
    result = SimulatedMachine(quiet, 1, noise_of_beats=0.0).result((Server("1_a", 1),), rounds=1)
    record = result.records[0]
    record.beats.took_s[:] = [0.001] * len(record.beats.took_s)
    before = speeds_of(record).mean(0, 4)
    record.beats.took_s[41] = odd_s  # the speed is told from those of odd numbers
    assert speeds_of(record).mean(0, 4) == pytest.approx(before)
    assert list(faults(result)) == []
    record.beats.took_s[60:64] = [odd_s] * 4  # of both CPUs: not even their medians are right any more
    assert 0 < speeds_of(record).mean(0, 4) < math.inf


def test_older_results_have_no_speed_and_are_not_corrected() -> None:
    result = SimulatedMachine(restless, 1).result(COMPUTING, rounds=3)
    for record in result.records:
        for column in (record.beats.at_s, record.beats.cpu, record.beats.took_s):
            column.clear()
    for case in summarize(result).cases:
        assert (case.speed, case.rate_at_usual_speed_per_s) == (None, None)
        assert case.rate_per_s.low < case.rate_per_s.mean < case.rate_per_s.high


def test_the_speed_of_a_case_is_told_as_a_multiple_of_the_usual_one() -> None:
    comparison = summarize(SimulatedMachine(restless, 2).result(COMPUTING, rounds=3))
    speeds = [case.speed for case in (*comparison.ceilings, *comparison.cases)]
    assert np.mean([speed.mean for speed in speeds]) == pytest.approx(1, abs=0.02)
    for speed in speeds:
        assert speed.lowest <= speed.mean <= speed.highest
    assert max(speed.highest for speed in speeds) / min(speed.lowest for speed in speeds) == pytest.approx(
        1.75, rel=0.1
    )


def test_the_speed_of_a_short_siege_lies_between_its_lowest_and_its_highest() -> None:
    """Two moments that are alike, slow where one ends and the other begins, which counts most for a rate."""
    (record,) = SimulatedMachine(quiet, 1, noise_of_beats=0.0).result((Server("1_a", 1),), rounds=1).records[1:]
    record.load_s = 1.1
    record.beats.took_s[:] = [0.002 if 0.5 < at_s < 0.9 else 0.001 for at_s in record.beats.at_s]
    one = Round(record)
    moments = one.speeds.moments(*one.steady_part)
    assert len(moments) == 2
    assert one.speed < moments.min()
    lowest, highest = one.lowest_and_highest
    assert lowest == one.speed
    assert highest == moments.max()


def test_a_case_of_another_kind_has_a_coefficient_of_its_own() -> None:
    rng = np.random.default_rng(1)
    speeds = [rng.normal(0, 0.1, 12) for _ in range(6)]
    values = [speed + rng.normal(0, 0.01, 12) for speed in speeds[:5]]
    waits = rng.normal(0, 0.01, 12)
    found = Windows(speeds, [*values, waits]).coefficients()
    assert [one.value for one in found[:5]] == pytest.approx([1] * 5, abs=0.1)
    assert found[5].value == 0
    assert {one.value for one in Windows(speeds[:2], [waits, values[0] * 0]).coefficients()} == {0.0}
    assert Windows([], []).coefficients() == []
    assert Windows([np.empty(0)], [np.empty(0)]).coefficients()[0].value == 0


@pytest.mark.usefixtures("undrawn")
def test_what_the_weather_was_and_what_was_corrected_is_said_in_every_dress() -> None:
    result = SimulatedMachine(restless, 2).result(COMPUTING[2:4], rounds=2)
    for dress in ("table", "markdown", "html"):
        said, plain = (" ".join(dressed(result, dress, corrected=one).split()) for one in (True, False))
        assert "its speed changed by a factor of up to 1." in said
        assert "at the machine" in said
        assert "at usual" in said
        assert "corrected by up to" in said
        assert "corrected by up to" not in plain
        assert "at usual" not in plain
    calm = SimulatedMachine(quiet, 2).result(COMPUTING, rounds=3)
    assert "its speed changed" not in dressed(calm, "table")


def test_report_shows_the_difference_that_the_correction_makes(tmp_path) -> None:
    path = tmp_path / "r.json"
    save(SimulatedMachine(restless, 2).result(COMPUTING, rounds=3), path)
    corrected, plain = (called("report", str(path), *words).stdout for words in ((), ("--uncorrected",)))
    assert "corrected by up to" in corrected
    assert "corrected by up to" not in plain


def test_a_case_that_is_in_doubt_on_a_restless_machine_is_told_the_likely_cause() -> None:
    result = SimulatedMachine(restless, 2).result(COMPUTING[:1], rounds=2)
    for record in result.records:
        for column in (record.alone_at_s, record.alone_wall_s, record.alone_cpu_s, record.alone_on_cpu):
            column.clear()
    (case,) = summarize(result).cases
    assert (case.verdict, [reason.code for reason in case.reasons]) == ("unclear", ["unsteady_machine", "blind"])
    assert "the speed of this machine changed by a factor of" in case.reasons[0].message
