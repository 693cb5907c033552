"""The comparison: the summaries of all cases of a result, and who is the best of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from under_siege.analysis.ranking import LOOKS, leaders, ranks, stars_of
from under_siege.analysis.summary import Summary, summary_of
from under_siege.checks.evidence import Evidence
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.record import Result
from under_siege.stats.estimates import Estimate, ratio
from under_siege.stats.metrics import MEASURES, Measured
from under_siege.stats.rounds_data import Round, cases_of
from under_siege.stats.speed_correction import SpeedCorrection


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

    def every_round(self) -> list[Round]:
        """Case by case, the ceilings first."""
        return [one for case in (*self.ceiling_rounds, *self.rounds) for one in case]

    def rounds_of(self, work: object) -> list[Round]:
        """All in which an answer takes the same."""
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
    """The summary of every case, in the order of the servers' numbers.

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
