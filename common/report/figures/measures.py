"""The figures that cases are compared in: the value of a round, and what the rounds of all cases say together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.report.figures.estimates import CONFIDENCE, Estimate, estimates, ratio
from common.report.figures.rounds import Round
from common.report.figures.weather import Weather


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a round, at the usual speed of the machine where that is known; and whether more of it is better."""

    of_round: Callable[[Round, Weather], float | list[float | None] | None]
    more_is_better: bool = False
    needs_every_round: bool = False  # where a round without one says that it is large


def _response(percent: float) -> Measure:
    return Measure(lambda one, weather: weather.response_s(one, one.response_s(percent)), needs_every_round=True)


def _ping(percent: float) -> Measure:
    """Of each half of a siege: pings are many, and differ so much between cases that few rounds would tell little."""
    return Measure(lambda one, _: [half.percentile(percent) for half in one.halves_of_pings], needs_every_round=True)


MEASURES = {
    "rate_per_s": Measure(lambda one, weather: weather.rate(one), more_is_better=True),
    "response_p50_s": _response(50),
    "response_p95_s": _response(95),
    "response_p99_s": _response(99),
    "ping_p50_s": _ping(50),
    "ping_p95_s": _ping(95),
    "ping_p99_s": _ping(99),
    "cpu_s_per_transaction": Measure(lambda one, weather: weather.cpu_s(one)),
    "memory_bytes": Measure(lambda one, _: one.memory_bytes()),
}


class Measured:
    """The estimates of every figure of every case; cases of one job help to tell each other's noise."""

    def __init__(self, cases: Sequence[Sequence[Round]], weather: Weather, confidence: float = CONFIDENCE) -> None:
        jobs = [case[0].case.job for case in cases]
        self.estimates: dict[str, list[Estimate | None]] = {}
        for name, measure in MEASURES.items():
            values = [_values(case, measure, weather) for case in cases]
            found: list[Estimate | None] = [None] * len(cases)
            for job in dict.fromkeys(jobs):
                places = [place for place, of_case in enumerate(jobs) if of_case == job]
                for place, estimate in zip(
                    places, estimates([values[place] for place in places], confidence), strict=True
                ):
                    found[place] = estimate
            self.estimates[name] = found
        rates = self.estimates["rate_per_s"]
        place_of = {id(one): place for place, case in enumerate(cases) for one in case}
        above = [next((one.ceiling for one in case if one.ceiling is not None), None) for case in cases]
        self._ceilings = [None if one is None else rates[place_of[id(one)]] for one in above]

    def of_case(self, place: int) -> dict[str, Estimate | None]:
        """All estimates of one case; and of its share of the ceiling, if that has a rate in every round."""
        found = {name: of_all[place] for name, of_all in self.estimates.items()}
        rate, ceiling = found["rate_per_s"], self._ceilings[place]
        # Not from the shares of the rounds: those of all cases have the noise of the same ceilings in them.
        found["of_ceiling"] = ratio(rate, ceiling) if rate is not None and ceiling is not None else None
        return found

    def of(self, places: Sequence[int]) -> dict[str, list[Estimate | None]]:
        """The estimates of some of the cases."""
        return {name: [found[place] for place in places] for name, found in self.estimates.items()}


def _values(case: Sequence[Round], measure: Measure, weather: Weather) -> list[float | None]:
    found: list[float | None] = []
    for one in case:
        values = None if one.record.failure else measure.of_round(one, weather)
        found += values if isinstance(values, list) else [values]
    if measure.needs_every_round and None in found:
        return []
    return found if len(case) > 1 else found[:1]  # halves of a single round don't know how rounds differ
