"""Many runs on a simulated machine, and what they gave beside what is true."""

from dataclasses import dataclass, field

import numpy as np
from simulated_machine import SIEGE_S, SLOW, USERS, WORK_S, Server, SimulatedMachine, restless

from common.report.figures.weather import Weather
from common.report.judging.comparison import Comparison, summarize

COMPUTING = (Server("1_a", 1), Server("2_b", 1), Server("3_c", 2), Server("4_d", 2), Server("5_e", 2))
WAITING = (Server("1_a", 2, waits=True), Server("2_b", 2, waits=True), Server("3_c", 4, waits=True))


@dataclass
class Study:
    """What many runs on a simulated machine gave."""

    covered: list[float] = field(default_factory=list)  # for each run, the share of intervals of rates with the truth
    shares_covered: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)  # of the ceiling, as multiples of the true ones
    uncorrected: list[float] = field(default_factory=list)
    told_apart: int = 0  # runs in which equal servers have different ranks
    verdicts: list[str] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)


def studied(
    speeds,
    servers: tuple[Server, ...],
    rounds: int,
    beside: float,
    runs: int,
    *,
    also_uncorrected: bool = True,
    siege_s: float = SIEGE_S,
) -> Study:
    """So many runs, each with a seed of its own."""
    found = Study()
    for seed in range(runs):
        machine = SimulatedMachine(speeds, seed, beside, siege_s=siege_s)
        result = machine.result(servers, rounds)
        comparison = summarize(result)
        _add(found, comparison, servers, machine.mean_speed if speeds is not restless else (1 + SLOW) / 2, beside)
        if also_uncorrected:
            plain = Weather([*comparison.ceiling_rounds, *comparison.rounds], corrected=False)
            for of_case, server in zip(comparison.rounds, servers, strict=True):
                share = sum(plain.of_ceiling(one) for one in of_case) / len(of_case)
                found.uncorrected.append(share / true_share(server, beside))
    return found


def true_share(server: Server, beside: float) -> float:
    return server.workers / (USERS if server.waits else 2) / (beside if server.workers == 1 else 1)


def _add(found: Study, comparison: Comparison, servers: tuple[Server, ...], mean_speed: float, beside: float) -> None:
    rates, shares, ranks = [], [], {}
    for case, rounds, server in zip(comparison.cases, comparison.rounds, servers, strict=True):
        speed = 1 if server.waits else mean_speed * (beside if server.workers > 1 else 1)
        rates.append(case.rate_per_s.low <= server.workers / WORK_S * speed <= case.rate_per_s.high)
        share = true_share(server, beside)
        shares.append(case.of_ceiling.low <= share <= case.of_ceiling.high)
        found.shares.append(case.of_ceiling.mean / share)
        found.verdicts.append(case.verdict)
        found.coefficients.append(comparison.weather.coefficient(rounds[0]))
        ranks.setdefault(server.workers, set()).add(case.rank)
    found.covered.append(float(np.mean(rates)))
    found.shares_covered.append(float(np.mean(shares)))
    found.told_apart += any(len(of_equals) > 1 for of_equals in ranks.values())
