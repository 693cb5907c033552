"""Look up the figures of a result by the words that claims use for them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from under_siege import formatting
from under_siege.analysis.metric_value import known
from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.capacity.capacity_result import Capacity, capacities
from under_siege.checks.verdict import FAILED, SUSPECT, Reason
from under_siege.faults.drill_result import FaultOutcome, fault_outcomes
from under_siege.lesson.capacity_figures import OF_CAPACITIES, Amount, counted
from under_siege.model.case import Case
from under_siege.model.record import Result, Trace
from under_siege.model.threshold import goal_names
from under_siege.stats.estimates import estimates
from under_siege.stats.rounds_data import Round, alone_wall_s

T = TypeVar("T")
_UNITS = {"ms": 1e-3, "s": 1.0, "MB": 1e6, "/s": 1.0, "": 1.0}
_TEXTS: dict[str, Callable[[float], str]] = {
    "rate_per_s": lambda value: f"{formatting.rate(value)}/s",
    "memory_bytes": formatting.megabytes,
    "of_ceiling": formatting.share,
    "availability_pct": formatting.percent,
}


class ResultView:
    """The figures of a result."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @cached_property
    def comparison(self) -> Comparison:
        """Return the comparison of the cases under siege."""
        return summarize(self._result)

    @property
    def cpus(self) -> int:
        """Return how many CPUs the servers could use at the same time: at most one for each user."""
        users = [one.users for one in self._result.records]
        return min([self._result.environment.usable_cpus, *users])

    @cached_property
    def _drilled(self) -> list[FaultOutcome]:
        return fault_outcomes(self._result.incidents)

    def amount(self, what: str, who: str) -> Amount:
        """Return a figure of a case.

        Raises:
            LookupError: the result has no such case, or there is no such figure.
        """
        first, _, rest = what.partition(" ")
        if what in OF_TRACES:
            return OF_TRACES[what](_only("trace", who, self._result.traces))
        if what in OF_CAPACITIES:
            return OF_CAPACITIES[what](_only("search", who, self._capacities))
        if first == "drill":
            return self._of_drill(rest, who)
        place = self._place(who)
        case = self.comparison.cases[place]
        if first == "flag":
            return counted(float(rest in {reason.code for reason in case.reasons}))
        if what == "printed rate":  # as a load tool prints it, whatever the verdict
            return _printed([one.rate.per_s for one in self.comparison.rounds[place] if one.rate.per_s])
        return self._measured(what, case, place)

    def beside(self, what: str, against: str, who: str) -> Amount:
        """Return what a figure of `who` is compared with: a case, `task`, `users`, `cpus`, an amount, or 1."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|MB|/s|)", against or "1")
        if match and (match[2] or not self._has(against)):
            return counted(float(match[1]) * _UNITS[match[2]], against)
        if against == "task":
            case = self.comparison.cases[self._place(who)]
            alone_s = alone_wall_s(self.comparison.rounds_of(case.case.work))
            if not alone_s:
                return Amount("?", doubt="nothing ran alone")
            return counted(alone_s, formatting.seconds(alone_s))
        if against == "users":
            return counted(self.comparison.cases[self._place(who)].users)
        if against == "cpus":
            return counted(self.cpus)
        if against in OF_CAPACITIES:
            return self.amount(against, who)
        return self.amount(what, against)

    def _has(self, who: str) -> bool:
        """Return whether it names a case, and is not just a number."""
        several: list[Any] = [*self._result.records, *self._result.traces, *self._result.incidents]
        return bool(who) and any(fits(who, one.server, ()) for one in several)

    @cached_property
    def _capacities(self) -> list[Capacity]:
        return capacities(self._result)

    def is_about(self, case: Case, whom: Sequence[str]) -> bool:
        """Return whether any of these words means the case."""
        return any(who and fits(who, case.server, [str(value) for _, value in case.values]) for who in whom)

    def _place(self, who: str) -> int:
        cases = self.comparison.cases
        return cases.index(_only("case", who, cases))

    def _measured(self, what: str, case: Summary, place: int) -> Amount:
        if what == "users inside":
            return self._inside(case, place)
        figure, doubt = goal_names()[what], _doubt(case)
        found = known(self.comparison, place, figure) if case.verdict != FAILED else None
        if found is None:
            return Amount("?", doubt=doubt or _no_figure(case, what))
        text_of = _TEXTS.get(figure, formatting.seconds)
        text = f"more than {text_of(found.low or 0.0)}" if found.value is None else text_of(found.value)
        estimate = self.comparison.measured.get(figure, [None] * (place + 1))[place]
        return Amount(text, found.value, found.low, found.high, estimate, "" if figure == "memory_bytes" else doubt)

    def _inside(self, case: Summary, place: int) -> Amount:
        """Return the mean number of requests in the server: rate times response time (Little's law)."""
        found = estimates([[_inside_of(one) for one in self.comparison.rounds[place]]])[0]
        if found is None or case.verdict == FAILED:
            return Amount("?", doubt=_doubt(case) or _no_figure(case, "right answer"))
        low, high = found.interval() or (None, None)
        rates = [one.rate.per_s for one in self.comparison.rounds[place] if one.rate.per_s]
        rate = float(np.exp(np.mean(np.log(rates))))
        took, users = formatting.seconds(found.mean / rate), formatting.significant(found.mean, 2)
        text = f"{formatting.rate(rate)}/s times {took} = {users}"
        return Amount(text, found.mean, low, high, found, _doubt(case))

    def _of_drill(self, what: str, who: str) -> Amount:
        fault, _, figure = what.partition(" ")
        one = _only(f"drill of {fault}", who, [one for one in self._drilled if one.fault == fault])
        if not one.figures:
            return Amount("?", doubt=one.failure or one.without)
        value = one.figures[figure]
        if value is None:
            return Amount("never", math.inf, math.inf, math.inf)
        return counted(value, formatting.seconds(value) if figure.endswith("_s") else f"{value:g}")


def _doubt(case: Summary) -> str:
    """Return why its figures can't be trusted. Noise is no reason: it is in their intervals."""
    if case.verdict not in (FAILED, SUSPECT):
        return ""
    return f"{case.server} {'failed' if case.verdict == FAILED else 'is suspect'}: {_without_advice(case.reasons[0])}"


def _no_figure(case: Summary, what: str) -> str:
    reason = f": {_without_advice(case.reasons[0])}" if case.reasons else ""
    return f"{case.server} has no {what}{reason}"


def _without_advice(reason: Reason) -> str:
    message = re.sub(r"^round \d+: ", "", reason.message)
    return message.rpartition("; ")[0] or message


def _only(what: str, who: str, several: Sequence[T]) -> T:
    """Return the one that is meant; raises LookupError if there is none, or more than one."""
    found = [
        one
        for one in several
        if fits(who, one.case.server, [str(value) for _, value in one.case.values])  # type: ignore[attr-defined]
    ]
    if len(found) != 1:
        raise LookupError(f"{who} was not measured" if not found else f"{who} is more than one {what}")
    return found[0]


def fits(who: str, server: str, values: Sequence[str]) -> bool:
    """Return whether words such as `3 digest` or `3_async_threadexecutor 3.14*` mean this server and these values."""
    name, *wanted = who.split()
    stem = server.rpartition("/")[2]
    return name in (stem, server, stem.split("_")[0]) and all(
        any(fnmatchcase(v, one) for v in values) for one in wanted
    )


def _printed(rates: Sequence[float]) -> Amount:
    """Return the mean, as a load tool prints it."""
    if not rates:
        return Amount("?", doubt="no answer was right")
    mean = float(np.mean(rates))
    return counted(mean, f"{formatting.rate(mean)}/s")


def _inside_of(one: Round) -> float | None:
    took_s = one.steady_s
    return one.rate.per_s * float(took_s.mean()) if one.rate.per_s and len(took_s) else None


def _at_once(trace: Trace) -> Amount:
    """Return the largest number of requests in flight at the same time."""
    spans = [(ran[0][0], ran[-1][1]) for ran in trace.requests.ran_s if ran]
    if trace.failure or not spans:
        return Amount("?", doubt=trace.failure.message if trace.failure else "it does not report when it computes")
    return counted(max(sum(since <= begun < to for since, to in spans) for begun, _ in spans))


def _longest_ping(trace: Trace) -> Amount:
    if trace.failure or not trace.pings.waited_s:
        return Amount("?", doubt=trace.failure.message if trace.failure else "it was not pinged")
    longest_s = max(trace.pings.waited_s)
    return counted(longest_s, formatting.seconds(longest_s))


OF_TRACES: dict[str, Callable[[Trace], Amount]] = {"at once": _at_once, "longest ping": _longest_ping}
