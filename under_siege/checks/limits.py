"""Whether a case did more than is physically possible, and whether that can be excluded.

Both are tests on intervals, not on estimates (two one-sided tests: Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987).
A case is accused if its interval lies above a limit, and cleared if the interval excludes every excess that matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from under_siege import formatting
from under_siege.checks.evidence import Evidence
from under_siege.checks.suspicions import paced_by_the_tool
from under_siege.stats.estimates import Estimate, ratio
from under_siege.stats.rounds_data import Round
from under_siege.stats.significance import student_at

SURE, LIKELY = 0.9995, 0.95  # probabilities of the one-sided bounds that accuse, and that clear
# Below this the methods of measuring may explain it; from that on it can't be excluded and so is said.
TOLERATED_RATE, MOST_RATE = math.log(1.04), math.log(1.20)
TOLERATED_CPU, MOST_CPU = math.log(1.06), math.log(1.20)
LEAST_CPU_S = 0.001  # what the CPU clock can tell from nothing
HARDLY = 0.1  # of its time alone, a task computes: then its CPU time tells little


@dataclass(frozen=True, slots=True)
class Excess:
    """How many times what is possible a case may have done, as logarithms."""

    estimate: float
    least: float  # with the usual noise between rounds: a server can't hide behind noise of its own
    most: float

    @classmethod
    def of(cls, between: Estimate) -> Excess:
        """Return the bounds of a ratio."""
        margin = student_at(between.typical_degrees, SURE) * between.typical_variance**0.5
        return cls(between.log, between.log - margin, between.bound(LIKELY))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rounds of a case are compared with."""

    rounds: Sequence[Round]
    rate: Excess | None  # the rate, as a multiple of the ceiling
    cpu: Excess | None  # the CPU time that the task needs, as a multiple of what an answer took
    rate_per_s: float = 0.0
    ceiling_per_s: float = 0.0
    cpu_s: float = 0.0
    needed_cpu_s: float = 0.0
    knows_task: bool = True  # how long it takes alone

    def above_ceiling(self) -> str | None:
        """Return a message if it certainly did more than the ceiling."""
        if self.rate is None or self.rate.least <= TOLERATED_RATE:
            return None
        return (
            f"{formatting.rate(self.rate_per_s)}/s is {_times(self.rate.estimate)} times the ceiling of "
            f"{formatting.rate(self.ceiling_per_s)}/s: answers were sent before the work was done, or without it; "
            "check that every result is awaited"
        )

    def too_cheap(self) -> str | None:
        """Return a message if it certainly used less CPU time than the task needs."""
        if self.cpu is None or self.cpu.least <= TOLERATED_CPU:
            return None
        return (
            f"{formatting.seconds(self.cpu_s)} of CPU for each transaction, but the task needs "
            f"{formatting.seconds(self.needed_cpu_s)}: the work is not done, or done outside of the server's processes"
        )

    def unverified(self) -> str | None:
        """Return a message if too large an excess can't be excluded, and it is not accused of one."""
        if self.above_ceiling() or self.too_cheap():
            return None
        doubts = []
        if self.rounds[0].record.has_task and not self.knows_task:
            doubts.append("answers without any work (how long the task takes alone is not known)")
        if self.rate is not None and self.rate.most > MOST_RATE and self.rounds[0].record.has_task:
            doubts.append(f"up to {_times(self.rate.most)} times the ceiling")
        if self.cpu is not None and self.cpu.most > MOST_CPU:
            doubts.append(f"work that is up to {_times(self.cpu.most)} times what its CPU time allows")
        return (
            f"the interval is too wide to verify the work: {' and '.join(doubts)} can't be excluded" if doubts else None
        )


def _times(log: float) -> str:
    return formatting.significant(math.exp(log), 3)


def limits_of(rounds: Sequence[Round], estimates: Mapping[str, Estimate | None], evidence: Evidence) -> Limits:
    """Return what is known of a case and its limits."""
    share, cpu = estimates.get("of_ceiling"), estimates.get("cpu_s_per_transaction")
    need = evidence.cpu_need(rounds[0])
    rate = estimates.get("rate_per_s")
    by_rate = Excess.of(share) if share and share.degrees and not any(map(paced_by_the_tool, rounds)) else None
    by_cpu = None
    if need and cpu and cpu.degrees and need.mean >= LEAST_CPU_S and _computes(rounds):
        by_cpu = Excess.of(ratio(need, cpu))
    return Limits(
        rounds,
        by_rate,
        by_cpu,
        rate.mean if rate else 0.0,
        rate.mean / share.mean if rate and share else 0.0,
        cpu.mean if cpu else 0.0,
        need.mean if need else 0.0,
        evidence.needs(rounds[0]) is not None,
    )


def _computes(rounds: Sequence[Round]) -> bool:
    """Return whether a good part of the task is computing."""
    records = [one.record for one in rounds]
    wall_s = sum(sum(record.alone_wall_s) for record in records)
    return not wall_s or sum(sum(record.alone_cpu_s) for record in records) > HARDLY * wall_s
