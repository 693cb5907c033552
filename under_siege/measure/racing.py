"""Choose which cases each round measures, within the time budget: first all, then those that the answer depends on."""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from under_siege.judge.stopping_rule import Decision
from under_siege.record.case import Case
from under_siege.record.result import Result

Decide = Callable[[Result], Decision]
# Time limit of a run that decides itself when to end, and its time limit if the answer is still undecided. The first
# round may take longer.
LIMITS_S = (150.0, 240.0)
SEARCH_LIMITS_S = (170.0, 170.0)  # of a search for the best number of workers


@dataclass(frozen=True, slots=True)
class Racing:
    """How to choose the cases of each round: by what is decided, within time limits (see `Race`)."""

    decide: Decide
    limits_s: tuple[float, float] = (math.inf, math.inf)


class Race:
    """Choose the cases of each round of one run."""

    def __init__(
        self,
        decide: Decide,
        among: Callable[[Sequence[Case], Collection[Case]], Sequence[Case]],
        say: Callable[[str], None],
        *,
        limits_s: tuple[float, float] = LIMITS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock of the run.

        Args:
            decide: returns the cases that need another round.
            among: returns, of all cases, the given ones and their ceilings.
            say: announces that the run takes longer.
            limits_s: the time limit, and the time limit if the answer is still undecided.
        """
        self._decide = decide
        self._among = among
        self._say = say
        self._clock = clock
        self._began_s, (self._limit_s, self._longest_s) = clock(), limits_s
        self._is_extended = False

    def choose(self, result: Result, cases: Sequence[Case], took_s: Mapping[Case, float]) -> list[Case]:
        """Return the cases that a round measures, in the order of `cases`; none if the run is over.

        Args:
            cases: all cases and ceilings.
            took_s: how long each is expected to take, given its last measurement.
        """
        decision = self._decide(result)
        chosen = self._fitting(decision.cases, self._limit_s, cases, took_s)
        if any(case not in chosen for case in decision.undecided) and self._limit_s < self._longest_s:
            chosen = self._fitting(decision.undecided, self._longest_s, cases, took_s)
            if chosen and not self._is_extended:
                self._is_extended = True
                self._say(
                    f"the answer is still unclear, so the run may take up to {self._longest_s:.0f} s in total; "
                    "Ctrl-C ends it and shows what is known"
                )
        return [case for case in cases if case in chosen]

    def _fitting(
        self, wanted: Sequence[Case], limit_s: float, cases: Sequence[Case], took_s: Mapping[Case, float]
    ) -> set[Case]:
        """Return the wanted cases, with their ceilings, that fit into the time until the limit."""
        chosen, left_s = set[Case](), self._began_s + limit_s - self._clock()
        for case in wanted:
            more = set(self._among(cases, [case])) - chosen
            needed_s = sum(took_s.get(each, 0.0) for each in more)
            if needed_s <= left_s:
                chosen |= more
                left_s -= needed_s
        return chosen
