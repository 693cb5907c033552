"""Compare the cases of a result: their summaries, and which are not significantly worse than the best in a metric.

Each case is compared with every other one, one-sided, at a level that is shared among the comparisons of a case with
all others (Edwards and Hsu, JASA 78, 1983). That takes fewer comparisons than all pairs, and so finds more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from under_siege.analysis.summary import Summary, summary_of
from under_siege.checks.evidence import Evidence
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.record import Result
from under_siege.stats.estimates import CONFIDENCE, Estimate, is_below, ratio
from under_siege.stats.metrics import MEASURES, Measure, Measured
from under_siege.stats.rounds_data import Round, cases_of
from under_siege.stats.speed_correction import SpeedCorrection

Load = object  # what a case is asked for; None for a case that can't be trusted
# How often `--rounds auto` looks at the ranks, at most, to decide whether another round is worth it.
LOOKS = 4
LEAST_COMPARISONS = 10


def ranks(
    loads: Sequence[Load], values: Sequence[Estimate | None], *, more_is_better: bool = True, looks: int = 1
) -> list[int | None]:
    """Return the rank of each case in a figure among those with the same load.

    The rank is 1 plus the number of cases that are significantly better. None where a figure has no interval.

    Args:
        loads: what each case is asked for; None excludes it.
        values: the figure of each case.
        more_is_better: False for times and memory.
        looks: how often the ranks were looked at (the level is divided by that: Bonferroni).
    """
    found: list[int | None] = [None] * len(loads)
    for competing in _fields(loads, values):
        alpha = level(len(competing), looks)
        for place, value in competing:
            others = [other for elsewhere, other in competing if elsewhere != place]
            found[place] = 1 + sum(is_worse(value, other, alpha, more_is_better=more_is_better) for other in others)
    return found


def level(cases: int, looks: int = 1) -> float:
    """Return the significance level of one comparison, for so many cases.

    A small field is as strict as one of eleven: else three equal servers would be told apart in one of ten results.
    """
    return (1 - CONFIDENCE) / looks / max(LEAST_COMPARISONS, cases - 1)


def is_worse(one: Estimate, other: Estimate, alpha: float, *, more_is_better: bool = True) -> bool:
    """Return whether one is significantly worse than the other."""
    return is_below(one, other, alpha) if more_is_better else is_below(other, one, alpha)


def leaders(
    loads: Sequence[Load], values: Sequence[Estimate | None], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star in a figure: not significantly worse than the best, where others are.

    There are many columns of stars, so these comparisons share their level among all pairs (Bonferroni).

    A case of which little is known is not significantly worse than anything. So that a bad figure gets no star for
    that, no case gets one that is shown as worse than a case without.
    """
    found = ranks(loads, values, more_is_better=measure.more_is_better, looks=max(1, len(loads)))
    return stars_of(found, loads, shown, measure)


def stars_of(
    found: Sequence[int | None], loads: Sequence[Load], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star, given the ranks."""
    stars = [False] * len(found)
    for load in dict.fromkeys(load for load, rank in zip(loads, found, strict=True) if rank):
        field = [place for place, rank in enumerate(found) if rank and loads[place] == load]
        losses = {place: -value if measure.more_is_better else value for place in field if (value := shown[place])}
        beaten = min((loss for place, loss in losses.items() if found[place] != 1), default=None)
        for place, loss in losses.items():
            stars[place] = found[place] == 1 and beaten is not None and loss <= beaten
    return stars


def _fields(loads: Sequence[Load], values: Sequence[Estimate | None]) -> Iterator[list[tuple[int, Estimate]]]:
    """Yield the places of the cases that compete with each other, with their values."""
    for load in dict.fromkeys(one for one in loads if one is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        competing = [(place, value) for place, (of_case, value) in pairs if of_case == load and value and value.degrees]
        if competing:
            yield competing


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a result says: the cases, and their ceilings."""

    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # of each of `cases`
    ceiling_rounds: list[list[Round]]  # of each of `ceilings`
    measured: dict[str, list[Estimate | None]]  # of each of `cases`, as `MEASURES` calls them
    correction: SpeedCorrection
    evidence: Evidence
    looks: int = 1  # how often the ranks decided whether another round is measured
    noun: str = "strategy"  # what is compared

    def by_rank(self) -> list[Summary]:
        """Return all cases of each load by rank and then by ping p99, unranked ones last; after them the ceilings."""
        loads = list(dict.fromkeys(summary.case.load for summary in self.cases))

        def order(summary: Summary) -> tuple[float, ...]:
            ping = summary.ping_s
            ping_s = math.inf if ping is None else ping.p99 or ping.max
            return loads.index(summary.case.load), summary.verdict == FAILED, summary.rank or math.inf, ping_s

        return [*sorted(self.cases, key=order), *self.ceilings]

    def every_round(self) -> list[Round]:
        """Case by case, the ceilings first."""
        return [one for case in (*self.ceiling_rounds, *self.rounds) for one in case]

    def rounds_of(self, work: object) -> list[Round]:
        """Return all in which an answer takes the same."""
        return [one for one in self.every_round() if one.case.work == work]

    def summary_of_one(self, one: Round) -> Summary:
        """Return the summary of a single round; what is wrong with its case is wrong with the round."""
        rate = _point(self.correction.rate(one))
        ceiling = _point(self.correction.rate(one.ceiling)) if one.ceiling else None
        share = ratio(rate, ceiling) if rate and ceiling else None
        alone = summary_of([one], {"rate_per_s": rate, "of_ceiling": share}, self.correction, self.evidence)
        whole = next(case for case in (*self.cases, *self.ceilings) if case.case == one.case)
        if FAILED in (alone.verdict, whole.verdict):
            return alone
        return msgspec.structs.replace(alone, verdict=whole.verdict, reasons=whole.reasons)


def _point(value: float | None) -> Estimate | None:
    """Return an estimate without an interval."""
    return Estimate(math.log(value), math.nan, 0.0) if value else None


def summarize(result: Result, *, corrected: bool = True) -> Comparison:
    """Return the summary of every case, in the order of the servers' numbers.

    Args:
        corrected: whether intervals, ranks and shares of the ceiling are given at the machine's usual speed.
    """
    found = [(list(case), is_ceiling) for case, is_ceiling in cases_of(result.records)]
    comparison = _compared(found, corrected, looks=LOOKS if result.until_certain else 1)
    return replace(comparison, noun="strategy" if result.suite is None else "server")


def _compared(found: Sequence[tuple[list[Round], bool]], corrected: bool, looks: int) -> Comparison:
    everything = [case for case, _ in found]
    correction = SpeedCorrection(everything, corrected=corrected)
    measured, evidence = Measured(everything, correction), Evidence(everything, correction)
    summaries = [
        summary_of(case, measured.of_case(place), correction, evidence) for place, case in enumerate(everything)
    ]
    servers = [place for place, (_, is_ceiling) in enumerate(found) if not is_ceiling]
    of_servers = measured.of(servers)
    return Comparison(
        _ranked([summaries[place] for place in servers], of_servers, looks),
        [summary for summary, (_, is_ceiling) in zip(summaries, found, strict=True) if is_ceiling],
        [everything[place] for place in servers],
        [case for case, is_ceiling in found if is_ceiling],
        of_servers,
        correction,
        evidence,
        looks,
    )


def _ranked(cases: Sequence[Summary], measured: dict[str, list[Estimate | None]], looks: int) -> list[Summary]:
    loads = [one.case.load if one.verdict == OK else None for one in cases]
    found = ranks(loads, measured["rate_per_s"], looks=looks)
    best = {
        name: leaders(loads, measured[name], [one.shown(name) for one in cases], measure)
        for name, measure in MEASURES.items()
    }
    best["rate_per_s"] = stars_of(found, loads, [one.shown("rate_per_s") for one in cases], MEASURES["rate_per_s"])
    return [
        msgspec.structs.replace(case, rank=found[place], best=[name for name in MEASURES if best[name][place]])
        for place, case in enumerate(cases)
    ]
