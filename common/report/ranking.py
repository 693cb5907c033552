"""Who is faster than whom, and who can't be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.report.intervals import Interval, differs, ratio_interval
from common.report.rounds import Round

if TYPE_CHECKING:
    from common.report.summary import Summary


def ranks(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]]) -> list[int | None]:
    """The rank of each case among those with the same task and users; 1 is the fastest.

    A case shares the rank of the fastest one that it can't be told apart from, and the next rank counts all before
    it (1, 1, 3). Only cases that are `ok` have a rank, and none has one after a single round, which knows no noise.
    """
    found: list[int | None] = [None] * len(cases)
    for setting in dict.fromkeys((case.task, case.users) for case in cases):
        competing = [
            place
            for place, case in enumerate(cases)
            if (case.task, case.users) == setting and case.verdict == "ok" and case.rate_per_s and case.rounds > 1
        ]
        competing.sort(key=lambda place: -_mean_rate(cases[place]))
        leader = None
        for position, place in enumerate(competing, 1):
            if leader is None or differs(rate_ratio(rounds[leader], rounds[place])):
                leader, rank = place, position
            found[place] = rank
    return found


def _mean_rate(case: Summary) -> float:
    return case.rate_per_s.mean if case.rate_per_s else 0.0


def rate_ratio(one: Sequence[Round], other: Sequence[Round]) -> Interval | None:
    """The rate of one case as a multiple of another's, from the rounds that both took part in."""
    others = {round_.record.round: round_.rate.per_s for round_ in other}
    pairs = [(round_.rate.per_s, others.get(round_.record.round)) for round_ in one]
    return ratio_interval([(mine, theirs) for mine, theirs in pairs if mine and theirs])
