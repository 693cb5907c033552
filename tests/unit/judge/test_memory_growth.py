"""Memory that grows with every request, and memory that grows and then settles."""

import numpy as np
import pytest
from rows import places
from simulated_record import TIME_S, record_of

from under_siege.judge.round_statistics import Round, leak_bytes
from under_siege.record.record import Record

START_BYTES = 40e6


def of_memory(memory_bytes: np.ndarray, round_: int = 1) -> Record:
    """Return a record of a siege with these samples of the memory, at equal intervals."""
    record = record_of("1_a", round_)
    record.samples.at_s[:] = np.linspace(0, TIME_S, len(memory_bytes)).tolist()
    record.samples.memory_bytes[:] = memory_bytes.astype(int).tolist()
    return record


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_leak_of_100_kb_with_each_request_is_found_within_20_percent(noise: float) -> None:
    rng = np.random.default_rng(1)
    requests = len(places(record_of("1_a").requests))
    grown = START_BYTES + 100_000 * requests * np.linspace(0, 1, 40)
    rounds = [Round(of_memory(grown * (1 + noise * rng.standard_normal(40) / 10), number)) for number in (1, 2, 3)]
    assert leak_bytes(rounds) == pytest.approx(100_000, rel=0.2)


@pytest.mark.parametrize("shape", ["level", "settles", "steps"])
def test_memory_that_settles_is_not_reported_as_a_leak(shape: str) -> None:
    rng, found = np.random.default_rng(2), 0
    for _ in range(200):
        rounds = []
        for number in (1, 2):
            times = np.linspace(0, 1, 40)
            grown = {"level": 0 * times, "settles": 0.5 * np.log1p(20 * times), "steps": 0.1 * (times > rng.random())}
            noise = np.cumsum(rng.standard_normal(40)) * 0.002
            rounds.append(Round(of_memory(START_BYTES * (1 + grown[shape] + noise), number)))
        found += leak_bytes(rounds) is not None
    assert found <= 2
