"""Reports on simulated servers of known rates: intervals and ranks are right, and only dishonest servers are suspect.

Seeds are fixed. These tests simulate only a few runs, so counts may differ from their expected values;
`scripts/study_noise.py` simulates hundreds of runs.
"""

import functools

import numpy as np
import pytest
from noise_study import BESIDE_LIARS, DISHONEST, HONEST, POOLS, Study, raced, studied
from noisy_machine import NoisyMachine, Server

from under_siege.judge.ranking import summarize
from under_siege.measure.racing import LIMITS_S

RUNS = {"quiet": 6, "drifting": 8, "noisy": 12}
SHIFTED = tuple(one for one in HONEST if one.name in ("2_async", "3_threads", "4_pool"))


@functools.cache
def study(kind: str) -> Study:
    return studied(range(RUNS[kind]), kind)


@pytest.mark.parametrize("kind", RUNS)
def test_almost_all_honest_servers_are_ok_and_intervals_of_ratios_contain_the_true_ratio(kind: str) -> None:
    # The intervals of a run share their noise; 400 runs give a coverage of 95 to 97 %.
    assert 0.88 < np.mean(study(kind).covered) <= 1
    verdicts = study(kind).verdicts
    assert verdicts["suspect"] == study(kind).undecided_runs == 0
    assert verdicts["ok"] >= 0.98 * verdicts.total()


def test_equal_servers_share_the_first_rank_and_slower_servers_are_detected() -> None:
    quiet, noisy = study("quiet"), study("noisy")
    assert quiet.told_apart == 0
    assert noisy.told_apart <= 1
    assert noisy.found["20_percent_slower"] >= RUNS["noisy"] - 1
    assert noisy.found["10_percent_slower"] >= RUNS["noisy"] / 2
    assert quiet.found["10_percent_slower"] == RUNS["quiet"]


def test_the_median_half_width_of_intervals_is_below_6_percent_on_a_noisy_machine_and_2_on_a_quiet_one() -> None:
    assert np.median(study("noisy").half_widths) < 0.06
    assert np.median(study("quiet").half_widths) < 0.02


def test_automatic_rounds_detect_a_20_percent_slower_server_within_the_time_limit() -> None:
    found = studied(range(4), rounds=None)
    assert found.found["20_percent_slower"] == 4
    assert found.undecided_runs == found.told_apart == 0
    assert max(found.seconds) < LIMITS_S[1] + 15  # the last case may exceed the limit
    quiet = studied(range(1), "quiet", rounds=None)
    assert quiet.seconds[0] <= LIMITS_S[0]


@pytest.mark.parametrize("kind", ["recorded", "noisy"])
@pytest.mark.parametrize("ceiling_per_s", [10.0, 18.0, 27.0])
def test_default_runs_recommend_a_pool_on_slow_and_noisy_machines(kind: str, ceiling_per_s: float) -> None:
    races = raced(range(6), kind, ceiling_per_s)
    assert set(races.recommended) <= POOLS
    assert races.wrong_ranks == 0
    assert np.quantile(races.half_widths, 0.9) < 0.06
    assert max(races.seconds) < LIMITS_S[1] + 15


@pytest.mark.parametrize("kind", ["quiet", "noisy"])
def test_dishonest_servers_are_never_ok_and_honest_ones_never_suspect(kind: str) -> None:
    found = studied(range(6), kind, (*BESIDE_LIARS, *DISHONEST))
    assert set(found.of_dishonest) == {one.name for one in DISHONEST}
    for name, verdicts in found.of_dishonest.items():
        assert verdicts["ok"] == 0, name
        assert verdicts["suspect"] >= 4, name
    assert found.verdicts["suspect"] == 0


def test_no_server_is_falsely_accused_if_the_task_alone_ran_at_another_speed_than_the_sieges() -> None:
    """In about half of these runs, the speed probe sees too little of the difference to explain it."""
    honest = studied(range(24), "shifting", SHIFTED)
    assert honest.verdicts["suspect"] == 0
    assert honest.verdicts["ok"] >= 0.95 * honest.verdicts.total()
    found = studied(range(8), "shifting", (*SHIFTED, *DISHONEST))
    assert found.verdicts["suspect"] == 0
    for name, verdicts in found.of_dishonest.items():
        assert verdicts["ok"] == 0, name


def test_the_effect_of_a_busy_sibling_cpu_is_not_corrected() -> None:
    """If two busy CPUs slow each other down to 62 %, a server on one CPU reaches 81 % of the ceiling."""
    shares = []
    for seed in range(6):
        machine = NoisyMachine(seed, "quiet", beside_a_busy_cpu=0.62)
        comparison = summarize(machine.run((Server("1_a"), Server("2_b", 2)), rounds=3))
        shares.append(comparison.cases[0].of_ceiling.mean / (1 / 1.24))
    assert np.mean(shares) == pytest.approx(1, abs=0.05)
