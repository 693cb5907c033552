"""The comparison: the summaries of all cases of a result, and who is the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from common.model.record import Result
from common.report.figures.estimates import CONFIDENCE, CONFIDENCE_OF_LOOKS, Estimate
from common.report.figures.measures import MEASURES, Measured
from common.report.figures.rounds import Round, cases_of
from common.report.figures.weather import Weather
from common.report.judging.evidence import Evidence
from common.report.judging.ranking import leaders, ranks
from common.report.judging.summary import Summary, summary_of
from common.report.judging.verdict import OK


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a result says: the cases, and their ceilings."""

    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # of each of `cases`
    ceiling_rounds: list[list[Round]]  # of each of `ceilings`
    measured: dict[str, list[Estimate | None]]  # of each of `cases`, as `MEASURES` calls them
    weather: Weather
    evidence: Evidence
    noun: str = "strategy"  # what is compared

    def every_round(self) -> list[Round]:
        """Case by case, the ceilings first."""
        return [one for case in (*self.ceiling_rounds, *self.rounds) for one in case]

    def rounds_of(self, work: object) -> list[Round]:
        """All in which an answer takes the same."""
        return [one for one in self.every_round() if one.case.work == work]

    def summary_of_one(self, one: Round) -> Summary:
        """A round on its own, judged in the light of all."""
        return summary_of([one], {}, self.weather, self.evidence)


def summarize(result: Result, *, corrected: bool = True) -> Comparison:
    """The summary of every case, in the order of the servers' numbers.

    Args:
        corrected: whether intervals, ranks and shares of the ceiling are given at the machine's usual speed.
    """
    found = [(list(case), is_ceiling) for case, is_ceiling in cases_of(result.records)]
    comparison = _compared(found, corrected, CONFIDENCE_OF_LOOKS if result.until_certain else CONFIDENCE)
    return replace(comparison, noun="strategy" if result.suite is None else "server")


def _compared(found: Sequence[tuple[list[Round], bool]], corrected: bool, confidence: float) -> Comparison:
    everything = [case for case, _ in found]
    weather = Weather(everything, corrected=corrected)
    measured = Measured(everything, weather, confidence)
    evidence = Evidence(everything, weather, measured.estimates["rate_per_s"])
    summaries = [summary_of(case, measured.of_case(place), weather, evidence) for place, case in enumerate(everything)]
    servers = [place for place, (_, is_ceiling) in enumerate(found) if not is_ceiling]
    of_servers = measured.of(servers)
    cases = _ranked([summaries[place] for place in servers], of_servers)
    return Comparison(
        cases,
        [summary for summary, (_, is_ceiling) in zip(summaries, found, strict=True) if is_ceiling],
        [everything[place] for place in servers],
        [case for case, is_ceiling in found if is_ceiling],
        of_servers,
        weather,
        evidence,
    )


def _ranked(cases: Sequence[Summary], measured: dict[str, list[Estimate | None]]) -> list[Summary]:
    loads = [one.case.load if one.verdict == OK else None for one in cases]
    found = ranks(loads, measured["rate_per_s"])
    best = {
        name: leaders(loads, measured[name], [one.shown(name) for one in cases], measure)
        for name, measure in MEASURES.items()
    }
    return [
        msgspec.structs.replace(case, rank=found[place], best=[name for name in MEASURES if best[name][place]])
        for place, case in enumerate(cases)
    ]
