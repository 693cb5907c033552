"""Comparing two results of different days: how fast the machine was is taken out, as far as figures follow it."""

import msgspec
import pytest
from simulated_results import SERVERS, SLOW, a_result, as_text, by_server, judgements, slower

from under_siege.analysis.report_data import summarize
from under_siege.compare.diff import compared
from under_siege.stats.speed_correction import SpeedCorrection
from under_siege.subprocess_scripts import cpu_speed_loop

STEADY, WILD = (1.0, 1.0, 1.0), (1.2, 0.9, 1.0)


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
@pytest.mark.parametrize("speeds", [STEADY, WILD], ids=["steady", "wild"])
def test_a_slow_day_makes_nothing_worse(speeds, waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=speeds, waits=waits)
    new = a_result(*SERVERS, seed=2, speeds=slower(speeds), waits=waits)
    for found in (compared(base, new), compared(new, base)):
        assert found.has_common_speed
        assert {case.judgement for case in found.cases} == {"no difference"}
        assert found.exit_code == 0
        (rate, *_) = found.cases[0].changes
        assert abs(rate.fraction) < 0.05
        if not waits:
            assert rate.values[0] / rate.values[1] == pytest.approx(1.4 if found.base is base else SLOW, rel=0.1)
            assert "times as fast now as before; as far as a figure follows that" in as_text(found, 1000)


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
def test_what_got_worse_on_a_slow_day_is_still_found(waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=WILD, waits=waits)
    new = a_result(("1_a", 1, 0.7), ("3_c", 2, 1.0), seed=2, speeds=slower(WILD), waits=waits)
    found = judgements(compared(base, new))
    assert found["1_a"]["rate_per_s"] == "worse"
    assert found["3_c"]["rate_per_s"] == "no difference"


@pytest.mark.parametrize("factor", [1.4, 2.2])
def test_pings_that_may_wait_for_slow_tasks_have_the_benefit_of_the_doubt(factor) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    new = a_result(*SERVERS, seed=2, speeds=slower(STEADY))
    for record in new.records:
        record.pings.waited_s[:] = [factor * wait for wait in record.pings.waited_s]
    ping = compared(base, new).cases[0].changes[1]
    assert ping.fraction == pytest.approx(factor - 1, rel=0.1)
    assert ping.judgement == ("worse" if factor == 2.2 else "no difference")


def test_what_is_no_more_than_the_noise_of_the_beats_is_not_taken_out() -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY, noise=1e-4)
    new = a_result(*SERVERS, seed=2, speeds=(1.01,) * 3, waits=True, noise=1e-4)
    new.records[:] = [
        msgspec.structs.replace(record, beats=other.beats)
        for record, other in zip(base.records, new.records, strict=True)
    ]
    for case in compared(base, new).cases:
        assert case.speed_ratio == pytest.approx(1.01, abs=0.003)
        assert case.changes[0].fraction == pytest.approx(0, abs=0.001)


OTHERS = ({"speed_probe": "3.14.0 500+1500"}, {"speed_probe": ""}, {"cpu_model": "another CPU"})


@pytest.mark.parametrize("other", OTHERS, ids=["other work", "unknown", "other CPU"])
def test_beats_of_another_metronome_are_not_compared(other) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    found = compared(base, a_result(*SERVERS, seed=2, speeds=slower(STEADY), **other))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "worse", "3_c": "worse"}
    assert "How fast the machine was can't be compared" in as_text(found)


def test_beats_of_two_metronomes_that_nobody_knows_are_not_compared() -> None:
    result = a_result(*SERVERS, seed=1, speeds=STEADY, speed_probe="")
    assert not compared(result, result).has_common_speed


def test_results_without_beats_are_compared_as_they_are() -> None:
    found = compared(a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2, speeds=STEADY))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "no difference", "3_c": "no difference"}


def test_another_day_is_not_taken_for_the_load_that_servers_make() -> None:
    """On the fast day nearly all servers left a CPU idle, on the slow one hardly any."""
    idle, busy = ("1_a", "2_b", "4_d", "5_e"), ("3_c", "6_f", "7_g")
    base = summarize(a_result(*((name, 1, 1.0) for name in idle), speeds=STEADY))
    new = summarize(a_result(("1_a", 1, 1.0), *((name, 2, 1.0) for name in busy), seed=2, speeds=slower(STEADY)))
    correction = SpeedCorrection([*base.ceiling_rounds, *base.rounds], beside=[*new.ceiling_rounds, *new.rounds])
    (bare,), (server, *_) = base.ceiling_rounds, base.rounds
    assert correction.speed(bare[0]) == pytest.approx(correction.speed(server[0]), rel=0.01)


def test_the_environment_says_which_metronome_it_was() -> None:
    import platform

    from under_siege.environments.machine import describe_environment

    assert describe_environment([]).speed_probe == f"{platform.python_version()} {cpu_speed_loop.WORK}"
