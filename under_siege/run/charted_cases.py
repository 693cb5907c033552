"""Select the cases that a chart shows, and look up what is known about them."""

from __future__ import annotations

from dataclasses import dataclass

from under_siege.judge.estimates import Estimate
from under_siege.judge.ranking import Comparison, task_cpu_s
from under_siege.judge.round_statistics import Round, alone_wall_s
from under_siege.judge.summary import Summary

MOST_ON_SLIDE = 12


@dataclass(frozen=True, slots=True)
class ChartedCases:
    """Cases with the same load and a known rate, stored as indices into the comparison."""

    comparison: Comparison
    places: list[int]
    detail: float  # share of the marks to draw

    def fastest(self, most: int = MOST_ON_SLIDE) -> ChartedCases:
        """Return only the fastest cases, fastest first."""
        by_rate = sorted(self.places, key=lambda place: -self.comparison.cases[place].rate)
        return ChartedCases(self.comparison, by_rate[:most], self.detail)

    @property
    def cases(self) -> list[Summary]:
        return [self.comparison.cases[place] for place in self.places]

    @property
    def rounds(self) -> list[list[Round]]:
        return [self.comparison.rounds[place] for place in self.places]

    @property
    def ceilings(self) -> list[Summary | None]:
        index_of = {id(one): index for index, rounds in enumerate(self.comparison.ceiling_rounds) for one in rounds}
        indices = [index_of.get(id(rounds[0].ceiling)) for rounds in self.rounds]
        return [None if index is None else self.comparison.ceilings[index] for index in indices]

    @property
    def alone_s(self) -> float | None:
        """Return how long the task takes alone, in seconds, or None if this is unknown or differs between the cases."""
        works = {summary.case.work for summary in self.cases}
        return alone_wall_s(self.comparison.rounds_of(works.pop())) if len(works) == 1 else None

    @property
    def task_cpu(self) -> Estimate | None:
        works = {summary.case.work for summary in self.cases}
        return task_cpu_s(self.comparison, works.pop()) if len(works) == 1 else None
