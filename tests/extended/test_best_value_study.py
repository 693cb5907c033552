"""Best-value markers in many simulated results: the best cases are rarely unmarked, and worse ones rarely marked."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from noisy_machine import NoisyMachine, Server

from under_siege.judge.estimates import weighted_estimates
from under_siege.judge.metrics import METRICS, PING_TOLERANCE_S
from under_siege.judge.ranking import leaders, summarize

RUNS = 20
PINGED = (
    *(Server(f"{number}_equal", 2, ping_s=1.0) for number in (1, 2, 3)),
    Server("4_twice", 2, ping_s=2.0),
    Server("5_tenfold", 2, ping_s=10.0),
)


@pytest.mark.parametrize("equal", [11, 5, 2])
@pytest.mark.parametrize("differing", [0.0, 0.5, 1.0])
def test_an_equally_good_case_is_marked_in_at_least_90_of_100_simulated_results(equal: int, differing: float) -> None:
    """Simulate eleven cases: `equal` of them are equally good, and the others are twice as bad.

    `differing` is the standard deviation of the logarithms of the cases' noise levels.
    """
    rng, marks = np.random.default_rng(equal), []
    truth = np.where(np.arange(11) < equal, 0.0, np.log(2))
    for _ in range(100):
        own = 0.05 * np.exp(differing * rng.standard_normal(11))
        values = truth[:, None] + rng.standard_normal((11, 2)) * own[:, None]
        found = weighted_estimates([[(value, 0.0) for value in row] for row in values.tolist()])
        stars = leaders([1] * 11, found, [one.mean for one in found], METRICS["response_p50_s"])
        if any(stars):  # otherwise, no case is significantly worse
            marks.append(stars)
        heights = list(zip(np.exp(values.mean(axis=1)), stars, strict=True))
        unlucky = min((height for height, star in heights if not star), default=np.inf)
        assert all(height <= unlucky * 1.02 for height, star in heights if star)
    if equal < 11:
        assert np.mean(marks, axis=0)[:equal].min() >= 0.9
        assert np.mean(marks, axis=0)[equal:].max() <= 0.02


@pytest.mark.parametrize("kind", ["quiet", "noisy"])
@pytest.mark.parametrize(("ping_s", "more_s"), [(0.006, PING_TOLERANCE_S), (0.1, 0.0)])
def test_pings_that_take_twice_as_long_are_hardly_ever_marked_and_equal_ones_nearly_always(
    kind: str, ping_s: float, more_s: float
) -> None:
    """Simulate the delays of this kind of machine; below 20 ms, the slower pings also take 20 ms more."""
    servers = [replace(one, ping_s=one.ping_s * ping_s + more_s * (one.ping_s > 1)) for one in PINGED]
    marks: Counter[str] = Counter()
    for seed in range(RUNS):
        for case in summarize(NoisyMachine(seed, kind).run(servers, rounds=2)).cases:
            marks[case.server] += "ping_p99_s" in case.best
    assert marks["4_twice"] <= 0.05 * RUNS  # 1 % of 800 runs
    assert marks["5_tenfold"] == 0
    assert min(marks[f"{number}_equal"] for number in (1, 2, 3)) >= 0.9 * RUNS
