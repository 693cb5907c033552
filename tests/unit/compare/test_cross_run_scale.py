"""Comparing results from different days: correct for the speed of the machine."""

import msgspec
import pytest
from simulated_results import SERVERS, SLOW, a_result, as_text, by_server, judgements, slower

from under_siege.analysis.report_data import summarize
from under_siege.compare.diff import compare_results
from under_siege.stats.speed_correction import SpeedCorrection
from under_siege.subprocess_scripts import cpu_speed_loop

STEADY, WILD = (1.0, 1.0, 1.0), (1.2, 0.9, 1.0)


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
@pytest.mark.parametrize("speeds", [STEADY, WILD], ids=["steady", "wild"])
def test_a_slower_machine_makes_no_case_worse(speeds, waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=speeds, waits=waits)
    new = a_result(*SERVERS, seed=2, speeds=slower(speeds), waits=waits)
    for found in (compare_results(base, new), compare_results(new, base)):
        assert found.has_common_speed
        assert {case.judgement for case in found.cases} == {"no difference"}
        assert found.exit_code == 0
        (rate, *_) = found.cases[0].changes
        assert abs(rate.fraction) < 0.05
        if not waits:
            assert rate.values[0] / rate.values[1] == pytest.approx(1.4 if found.base is base else SLOW, rel=0.1)
            assert "times as fast now as before; the changes in % are speed-adjusted" in as_text(found, 1000)


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
def test_a_regression_is_found_on_a_slower_machine(waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=WILD, waits=waits)
    new = a_result(("1_a", 1, 0.7), ("3_c", 2, 1.0), seed=2, speeds=slower(WILD), waits=waits)
    found = judgements(compare_results(base, new))
    assert found["1_a"]["rate_per_s"] == "worse"
    assert found["3_c"]["rate_per_s"] == "no difference"


@pytest.mark.parametrize("factor", [1.4, 2.2])
def test_pings_slower_by_the_speed_of_the_machine_are_no_difference(factor) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    new = a_result(*SERVERS, seed=2, speeds=slower(STEADY))
    for record in new.records:
        record.pings.waited_s[:] = [factor * wait for wait in record.pings.waited_s]
    ping = compare_results(base, new).cases[0].changes[1]
    assert ping.fraction == pytest.approx(factor - 1, rel=0.1)
    assert ping.judgement == ("worse" if factor == 2.2 else "no difference")


def test_speed_differences_within_noise_are_not_corrected() -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY, noise=1e-4)
    new = a_result(*SERVERS, seed=2, speeds=(1.01,) * 3, waits=True, noise=1e-4)
    new.records[:] = [
        msgspec.structs.replace(record, beats=other.beats)
        for record, other in zip(base.records, new.records, strict=True)
    ]
    for case in compare_results(base, new).cases:
        assert case.speed_ratio == pytest.approx(1.01, abs=0.003)
        assert case.changes[0].fraction == pytest.approx(0, abs=0.001)


OTHERS = ({"speed_probe": "3.14.0 500+1500"}, {"speed_probe": ""}, {"cpu_model": "another CPU"})


@pytest.mark.parametrize("other", OTHERS, ids=["other work", "unknown", "other CPU"])
def test_samples_of_different_speed_probes_are_not_compared(other) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    found = compare_results(base, a_result(*SERVERS, seed=2, speeds=slower(STEADY), **other))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "worse", "3_c": "worse"}
    assert "The speed of the machine in the two runs can't be compared" in as_text(found)


def test_samples_of_unknown_speed_probes_are_not_compared() -> None:
    result = a_result(*SERVERS, seed=1, speeds=STEADY, speed_probe="")
    assert not compare_results(result, result).has_common_speed


def test_results_without_speed_samples_are_compared_unadjusted() -> None:
    found = compare_results(a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2, speeds=STEADY))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "no difference", "3_c": "no difference"}


def test_the_load_of_servers_does_not_affect_the_speed_correction() -> None:
    """Almost all servers left a CPU idle on the fast day, and hardly any on the slow day."""
    idle, busy = ("1_a", "2_b", "4_d", "5_e"), ("3_c", "6_f", "7_g")
    base = summarize(a_result(*((name, 1, 1.0) for name in idle), speeds=STEADY))
    new = summarize(a_result(("1_a", 1, 1.0), *((name, 2, 1.0) for name in busy), seed=2, speeds=slower(STEADY)))
    correction = SpeedCorrection([*base.ceiling_rounds, *base.rounds], beside=[*new.ceiling_rounds, *new.rounds])
    (bare,), (server, *_) = base.ceiling_rounds, base.rounds
    assert correction.speed(bare[0]) == pytest.approx(correction.speed(server[0]), rel=0.01)


def test_the_environment_records_the_speed_probe() -> None:
    import platform

    from under_siege.environments.machine import describe_environment

    assert describe_environment([]).speed_probe == f"{platform.python_version()} {cpu_speed_loop.WORK}"
