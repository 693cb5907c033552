"""Compare a route that moved with the application as it is, at the rate of practice."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from under_siege import formatting
from under_siege.capacity.step_metrics import BLOCK_S, Floats, StepMetrics
from under_siege.judge.estimates import level, student_at
from under_siege.judge.summary import VISIBLE_S
from under_siege.run.at_rate import AtRate

BETTER, WORSE, MIXED, SAME, UNKNOWN = "better", "worse", "mixed", "same", "unknown"
_KINDS = {"ping": "health checks", "response": "responses"}


@dataclass(frozen=True, slots=True)
class _Difference:
    """By how many seconds a kind of latency is longer in the moved route, negative if it is shorter."""

    name: str
    p99_s: float
    low_s: float  # interval of the difference of the means
    high_s: float

    @property
    def is_shorter(self) -> bool:
        """Return whether users or health checks would notice that it is shorter."""
        return self.p99_s <= -VISIBLE_S and self.high_s < 0

    @property
    def is_longer(self) -> bool:
        return self.p99_s >= VISIBLE_S and self.low_s > 0

    @property
    def is_same(self) -> bool:
        """Return whether nobody would notice a difference."""
        return abs(self.p99_s) < VISIBLE_S and self.low_s > -VISIBLE_S and self.high_s < VISIBLE_S

    @property
    def may_be_longer(self) -> bool:
        is_p99_shorter = self.p99_s <= -VISIBLE_S and self.high_s < VISIBLE_S
        return not (self.is_shorter or self.is_same or is_p99_shorter)


@dataclass(frozen=True)
class MoveComparison:
    """A moved route and the application as it is, which got requests at the same moments."""

    moved: AtRate
    now: AtRate

    @cached_property
    def differences(self) -> list[_Difference]:
        p99_s = {"ping": (self.moved.ping_s, self.now.ping_s), "response": (self.moved.response_s, self.now.response_s)}
        found = []
        for kind, (moved_s, now_s) in p99_s.items():
            if moved_s is not None and now_s is not None:
                low_s, high_s = _interval(kind, self.moved.metrics, self.now.metrics)
                found.append(_Difference(_KINDS[kind], moved_s - now_s, low_s, high_s))
        return found

    @property
    def outcome(self) -> str:
        """Return whether the moved route is better: `better`, `worse`, `mixed`, `same` or `unknown`.

        It is better if one kind of latency is significantly and noticeably shorter and the other one is not longer.
        """
        shorter, longer = self._names("is_shorter"), self._names("is_longer")
        if shorter and longer:
            return MIXED
        if longer:
            return WORSE
        if shorter and not self._names("may_be_longer"):
            return BETTER
        return SAME if len(self._names("is_same")) == len(self.differences) else UNKNOWN

    def sentence(self, place: str) -> str:
        """Return the outcome as a sentence; `place` is where the route moved to, such as `the pool`."""
        at, outcome = f"At {self.now.per_s:g}/s", self.outcome
        shorter, longer = self._names("is_shorter"), self._names("is_longer")
        if outcome == BETTER:
            others = [each.name for each in self.differences if each.name not in shorter]
            rest = f", and {others[0]} are not longer" if others else ""
            return f"{at}, use {place}: {formatting.listed(shorter)} are significantly shorter{rest}."
        if outcome == WORSE:
            return f"{at}, leave it as it is: {formatting.listed(longer)} are significantly longer in {place}."
        if outcome == MIXED:
            what = f"{shorter[0]} are significantly shorter in {place}, but {longer[0]} are longer"
            return f"{at}, {what}: choose by which matters more to you."
        if outcome == SAME:
            return f"{at} it doesn't matter: leave it as it is."
        if failed := [
            where for each, where in ((self.moved, f"in {place}"), (self.now, "as it is")) if each.has_failed
        ]:
            return f"{at}, it can't be decided which is better, because requests failed {' and '.join(failed)}."
        undecided = [each.name for each in self.differences if not (each.is_shorter or each.is_same)]
        return (
            f"{at}, it can't be decided which is better: {formatting.listed(undecided)} varied too much or were too "
            "few; close other programs and measure again."
        )

    def _names(self, property_name: str) -> list[str]:
        return [each.name for each in self.differences if getattr(each, property_name)]


def _interval(kind: str, moved: StepMetrics, now: StepMetrics) -> tuple[float, float]:
    """Return the confidence interval of the difference of the mean latencies (Student's t), in seconds.

    Both got their requests at the same moments, so each block of time is compared with itself. The means are geometric,
    because the latencies of an overloaded server grow.
    """
    limit_s = max(moved.in_time_s, now.in_time_s)
    of_moved, of_now = (_means(*each.samples[kind], limit_s) for each in (moved, now))
    values = [of_moved[block] - of_now[block] for block in of_moved.keys() & of_now.keys()]
    if len(values) < 2:
        return -math.inf, math.inf
    margin = (
        student_at(len(values) - 1, 1 - level(len(_KINDS)) / 2) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    )
    usual_s, difference = math.exp(float(np.mean(list(of_now.values())))), float(np.mean(values))
    return usual_s * math.expm1(difference - margin), usual_s * math.expm1(difference + margin)


def _means(due_s: Floats, waits_s: Floats, limit_s: float) -> dict[int, float]:
    """Return the mean logarithm of the latency in each block; a failed request counts as late by the limit.

    Added to each latency, the shortest one that users notice keeps shorter ones from mattering.
    """
    blocks = np.floor(due_s / BLOCK_S).astype(int)
    logs = np.log(np.where(np.isfinite(waits_s), waits_s, limit_s) + VISIBLE_S)
    return {int(block): float(logs[blocks == block].mean()) for block in np.unique(blocks)}
