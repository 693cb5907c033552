"""Simulate comparisons whose true changes are known."""

import msgspec
import numpy as np
from simulated_record import CPUS, result_of
from simulated_results import ROUNDS, SPEED_PROBE, a_record, add_beats, vary

from under_siege.compare.diff import FIGURES, CasePair, Change, MetricChange, ratio_between, tested_together
from under_siege.judge.estimates import estimates
from under_siege.judge.summary import Interval, Latency, Summary
from under_siege.record.case import case_of
from under_siege.record.result import MeasuredSuite, Result

BASE, NEW = "main (1c2d3e4)", "work tree (5f6a7b8 with changes)"


def most_alarms(trials: int) -> float:
    """Return 5 % of the trials plus two standard deviations of the binomial distribution."""
    return 0.05 * trials + 2 * (0.05 * 0.95 * trials) ** 0.5


def compared_cases(
    rng: np.random.Generator, cases: int, changes: dict[tuple[int, int], float], noise: float | None = None
) -> list[CasePair]:
    """Return cases with these true changes (logarithms) by case and figure; without `noise`, its levels are random."""
    labels = {"server": "", "title": "", "task": "primes", "users": 5, "workers": 1, "python": "3.11.7", "rounds": 3}
    known = {"rate_per_s": Interval(1.0), "ping_s": Latency(1, 1, 1, 1), "cpu_s_per_transaction": 1, "memory_bytes": 1}
    summary, found = Summary(**labels, **known), [[] for _ in range(cases)]
    for number, figure in enumerate(FIGURES):
        sizes = [noise or float(np.exp(rng.uniform(np.log(0.003), np.log(0.2)))) for _ in range(cases)]
        truth = [0.0] * cases + [changes.get((place, number), 0.0) for place in range(cases)]
        values = [
            np.exp(rng.normal(mean, size, len(ROUNDS))).tolist() for mean, size in zip(truth, sizes * 2, strict=True)
        ]
        sides = estimates(values)
        for place, (base, new) in enumerate(zip(sides[:cases], sides[cases:], strict=True)):
            change = Change(base, ratio_between(base, len(ROUNDS), new, len(ROUNDS)), 0.0)
            found[place].append(MetricChange(figure, summary, summary, change, is_judged=True))
    names = [case_of(f"{place}_x", {"task": "primes", "users": 5}) for place in range(cases)]
    pairs = [CasePair(name, summary, summary, tuple(each)) for name, each in zip(names, found, strict=True)]
    return tested_together(pairs, 0.0)


def two_revisions(rng: np.random.Generator, factor: float = 1.0, noise: float = 0.04, rounds: int = 8) -> Result:
    """Return a result from a noisy machine: the work tree's rate is `factor` times the base's rate."""
    records = []
    for round_ in range(1, rounds + 1):
        sides = [("bare", CPUS, 1.0, ""), ("shop", 2, 1.0, BASE), ("shop", 2, factor, NEW)]
        for server, workers, rate, revision in sides:
            speed = float(np.exp(rng.normal(0, 0.1)))  # each siege has its own CPU speed
            record = a_record(server, round_, workers, rate * float(np.exp(rng.normal(0, noise))), speed, waits=False)
            if revision:
                record.values["revision"] = revision
                vary(record, rng, noise)
            add_beats(record, speed, workers, rng)
            records.append(record)
    result = result_of(records, speed_probe=SPEED_PROBE)
    return msgspec.structs.replace(result, suite=MeasuredSuite(title="shop", against=BASE))
