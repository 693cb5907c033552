"""Evaluate reports on simulated servers of known rates: coverage, power, false alarms and verdicts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

from noisy_machine import NoisyMachine, Server

from under_siege.judge.estimates import ratio
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.stopping_rule import wanted
from under_siege.run.conclusion import answers

HONEST = (
    Server("1_sync"),
    Server("2_async", work=1.02),
    Server("3_threads", in_turns=True, work=1.03),
    Server("5_asyncio", in_turns=True, work=1.03),
    Server("6_gevent", in_turns=True, work=1.05),
    Server("11_fastapi", in_turns=True, work=1.05),
    Server("4_pool", 2, work=1.02),
    Server("8_prefork", 2, work=1.02),
    Server("9_pebble", 2, work=1.02),
    Server("10_percent_slower", 2, work=1.02 / 0.9),
    Server("20_percent_slower", 2, work=1.02 / 0.8),
)
# The strategies of a default run, with the rates and starts that were measured. All pools are equally fast.
STRATEGIES = (
    Server("1_sync"),
    Server("2_async"),
    Server("3_threads", in_turns=True, work=1.02),
    Server("5_asyncio", in_turns=True, work=1.02),
    Server("6_gevent", in_turns=True, work=1.04),
    Server("11_fastapi", in_turns=True, work=1.12),
    Server("4_pool", 2, work=1.07),
    Server("8_prefork", 2, work=1.07),
    Server("9_pebble", 2, work=1.07),
    Server("13_dirty", 2, work=1.07, starts_s=1.2),
    Server("10_dask", 2, work=1.30, starts_s=3.2),
    Server("12_celery", 2, work=1.23, starts_s=3.8),
)
EQUAL = ("4_pool", "8_prefork", "9_pebble")
BESIDE_LIARS = (HONEST[0], HONEST[2], HONEST[6], HONEST[7], HONEST[10])
DISHONEST = (
    Server("1.3_times_the_ceiling", 2, work=1 / 1.3, tells_cpu=False, honest_when_idle=True),
    Server("1.5_times_the_ceiling", 2, work=1 / 1.5, tells_cpu=False, honest_when_idle=True),
    Server("1.3_times_with_cpu", 2, work=1 / 1.3, honest_when_idle=True),
    Server("1.5_times_with_cpu", 2, work=1 / 1.5, honest_when_idle=True),
    Server("half_of_the_cpu", work=1 / 2, honest_when_idle=True),
    Server("every_second_from_a_cache", 2, work=1 / 2, honest_when_idle=True),
)


def true_log(name: str) -> float:
    """Return the logarithm of the server's true rate, relative to the ceiling."""
    if name == "bare":
        return 0.0
    server = next(one for one in (*HONEST, *DISHONEST, *STRATEGIES) if one.name == name)
    return math.log(server.workers / 2 / server.work)


@dataclass
class Study:
    """Counts over many runs."""

    runs: int = 0
    seconds: list[float] = field(default_factory=list)  # duration of each run
    covered: list[bool] = field(
        default_factory=list
    )  # for each pair of cases, whether the interval of their ratio contains the true ratio
    half_widths: list[float] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    undecided_runs: int = 0  # runs in which none of `EQUAL` ranks first, or a strategy on one CPU does
    told_apart: int = 0  # runs in which one of the equally fast pools ranks below first
    found: Counter[str] = field(default_factory=Counter)  # for each slower pool, runs in which it ranks below first
    of_dishonest: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, comparison: Comparison) -> None:
        """Add a run to the counts."""
        self.runs += 1
        ranks = {case.server: case.rank for case in comparison.cases}
        estimates = dict(zip(ranks, comparison.measured["rate_per_s"], strict=True))
        honest = {name: one for name, one in estimates.items() if one is not None and name not in _LIARS}
        for (name, one), (other_name, other) in itertools.combinations(honest.items(), 2):
            low, high = ratio(one, other).interval()
            self.covered.append(low <= math.exp(true_log(name) - true_log(other_name)) <= high)
        for case in comparison.cases:
            if case.server in _LIARS:
                self.of_dishonest.setdefault(case.server, Counter())[case.verdict] += 1
            else:
                self.verdicts[case.verdict] += 1
                low, high = estimates[case.server].interval()
                self.half_widths.append((high - low) / 2 / estimates[case.server].mean)
        equal = [ranks[name] for name in EQUAL if name in ranks]
        self.told_apart += any(rank not in (1, None) for rank in equal)
        first = {name for name, rank in ranks.items() if rank == 1}
        self.undecided_runs += not first & set(EQUAL) or any(name in first for name in _ON_ONE_CPU)
        self.found.update(name for name in _SLOWER if (ranks.get(name) or 1) > 1)


@dataclass
class Races:
    """Counts over many default runs."""

    recommended: Counter[str | None] = field(default_factory=Counter)
    half_widths: list[float] = field(default_factory=list)  # of each pool
    wrong_ranks: int = 0  # runs in which a pool does not rank first, or a strategy that is not a pool does
    seconds: list[float] = field(default_factory=list)

    def add(self, comparison: Comparison, seconds: float) -> None:
        """Add a run to the counts."""
        (answer,) = answers(comparison)
        self.recommended[answer.case.server if answer.case else None] += 1
        self.seconds.append(seconds)
        first = {case.server for case in comparison.cases if case.rank == 1}
        self.wrong_ranks += not first >= POOLS or any(server.name in first for server in _ON_ONE_CPU_BY_DEFAULT)
        for case in comparison.cases:
            if case.server in POOLS and case.rate_per_s and case.rate_per_s.low and case.rate_per_s.high:
                width = case.rate_per_s.high - case.rate_per_s.low
                self.half_widths.append(width / 2 / case.rate_per_s.mean)


def raced(seeds: range, kind: str, ceiling_per_s: float) -> Races:
    """Simulate a default run for each seed, on a machine on which the ceiling has this mean rate."""
    races = Races()
    for seed in seeds:
        machine = NoisyMachine(seed, kind, ceiling_per_s=ceiling_per_s)
        races.add(summarize(machine.race(STRATEGIES, wanted)), machine.took_s)
    return races


POOLS = {"4_pool", "8_prefork", "9_pebble", "13_dirty"}
_ON_ONE_CPU_BY_DEFAULT = [one for one in STRATEGIES if one.workers == 1]
_LIARS = {one.name for one in DISHONEST}
_ON_ONE_CPU = {one.name for one in HONEST if one.workers == 1}
_SLOWER = ("10_percent_slower", "20_percent_slower")


def studied(seeds: range, kind: str = "noisy", servers: tuple[Server, ...] = HONEST, rounds: int | None = 2) -> Study:
    """Simulate a run for each seed.

    Args:
        rounds: number of rounds; None for `--rounds auto` with its default budget.
    """
    study = Study()
    for seed in seeds:
        machine = NoisyMachine(seed, kind)
        result = machine.run(servers, rounds) if rounds else machine.race(servers, wanted)
        study.seconds.append(machine.now_s)
        study.add(summarize(result))
    return study
