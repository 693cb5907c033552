"""What a result knows: any figure of any case, by the words that a claim has for it, with its interval or its doubt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from common.lesson.amount import Amount, counted
from common.lesson.noise import is_noisy, leeway, leeway_alone, said
from common.lesson.searches import OF_CAPACITIES
from common.model.case import Case
from common.model.goal import goal_names
from common.model.record import Result, Trace
from common.report import numbers
from common.report.figures.alone import alone_wall_s
from common.report.figures.drills import Drilled, drilled
from common.report.figures.estimates import estimates
from common.report.figures.rounds import Round
from common.report.judging.capacity import Capacity, capacities
from common.report.judging.comparison import Comparison, summarize
from common.report.judging.known import known
from common.report.judging.summary import Summary
from common.report.judging.verdict import FAILED, OK

T = TypeVar("T")
_UNITS = {"ms": 1e-3, "s": 1.0, "MB": 1e6, "/s": 1.0, "": 1.0}
_TEXTS: dict[str, Callable[[float], str]] = {
    "rate_per_s": lambda value: f"{numbers.rate(value)}/s",
    "memory_bytes": numbers.megabytes,
    "of_ceiling": numbers.share,
    "availability_pct": numbers.percent,
}


class Seen:
    """A result, asked for figures."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @cached_property
    def comparison(self) -> Comparison:
        """Of its sieges."""
        return summarize(self._result)

    @property
    def cpus(self) -> int:
        """That could be used at the same time: no more than there were users to ask."""
        users = [one.users for one in self._result.records]
        return min([self._result.environment.usable_cpus, *users])

    @cached_property
    def _drilled(self) -> list[Drilled]:
        return drilled(self._result.incidents)

    def amount(self, what: str, who: str) -> Amount:
        """A figure of a case.

        Raises:
            LookupError: the result has no such case, or there is no such figure.
        """
        first, _, rest = what.partition(" ")
        if what in _OF_TRACES:
            return _OF_TRACES[what](_only("trace", who, self._result.traces))
        if what in OF_CAPACITIES:
            return OF_CAPACITIES[what](_only("search", who, self._capacities))
        if first == "drill":
            return self._of_drill(rest, who)
        place = self._place(who)
        case = self.comparison.cases[place]
        if first == "flag":
            return counted(float(rest in {reason.code for reason in case.reasons}))
        if what == "printed rate":  # as a load tool would print it, whatever is to be thought of it
            return _printed([one.rate.per_s for one in self.comparison.rounds[place] if one.rate.per_s])
        return self._measured(what, case, place)

    def beside(self, what: str, against: str, who: str) -> Amount:
        """What a figure of `who` is compared with: a case, `task`, `users`, `cpus`, an amount, or 1."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|MB|/s|)", against or "1")
        if match and (match[2] or not self._has(against)):
            return counted(float(match[1]) * _UNITS[match[2]], against)
        if against == "task":
            case = self.comparison.cases[self._place(who)]
            rounds = self.comparison.rounds_of(case.case.work)
            alone_s = alone_wall_s(rounds)
            if not alone_s:
                return Amount("?", doubt="nothing ran alone")
            amount = counted(alone_s, numbers.seconds(alone_s))
            if not is_noisy(case):
                return amount
            return replace(amount, leeway=leeway_alone(alone_s, rounds, self.comparison.correction))
        if against == "users":
            return counted(self.comparison.cases[self._place(who)].users)
        if against == "cpus":
            return counted(self.cpus)
        if against in OF_CAPACITIES:
            return self.amount(against, who)
        return self.amount(what, against)

    def _has(self, who: str) -> bool:
        """Whether it is a case, and not a number."""
        several: list[Any] = [*self._result.records, *self._result.traces, *self._result.incidents]
        return bool(who) and any(fits(who, one.server, ()) for one in several)

    @cached_property
    def _capacities(self) -> list[Capacity]:
        return capacities(self._result)

    def is_about(self, case: Case, whom: Sequence[str]) -> bool:
        """Whether any of these words means the case."""
        return any(who and fits(who, case.server, [str(value) for _, value in case.values]) for who in whom)

    def _place(self, who: str) -> int:
        cases = self.comparison.cases
        return cases.index(_only("case", who, cases))

    def _measured(self, what: str, case: Summary, place: int) -> Amount:
        if what == "users inside":
            return self._inside(case, place)
        figure = goal_names()[what]
        doubt = (
            self._doubt(case) if figure != "memory_bytes" or case.verdict == FAILED else ""
        )  # that is no matter of time
        rounds = self.comparison.rounds[place]
        found = known(self.comparison, place, figure) if case.verdict != FAILED else None
        if found is None:
            return Amount("?", doubt=doubt or f"{case.server} has no {what}")
        text_of = _TEXTS.get(figure, numbers.seconds)
        text = f"more than {text_of(found.low or 0.0)}" if found.value is None else text_of(found.value)
        estimate = self.comparison.measured.get(figure, [None] * (place + 1))[place]
        amount = Amount(text, found.value, found.low, found.high, estimate, doubt)
        if not is_noisy(case) or figure == "memory_bytes":
            return amount
        correction = self.comparison.correction
        room = leeway(figure, amount.value or amount.low, rounds, correction)
        return replace(amount, noise=said(rounds, correction), leeway=room)

    def _doubt(self, case: Summary) -> str:
        """Why nothing can be told of it: the first of its reasons, which is no reason where it is but noise."""
        if case.verdict == OK or is_noisy(case):
            return ""
        if case.reasons and case.reasons[0].code == "busy_machine":  # it explains the others
            return said(self.comparison.rounds[self.comparison.cases.index(case)], self.comparison.correction)
        message = case.reasons[0].message if case.reasons else case.verdict
        message = re.sub(r"^round \d+: ", "", message).rpartition("; ")[0] or message  # without what to do about it
        return f"{case.server} failed: {message}" if case.verdict == FAILED else message

    def _inside(self, case: Summary, place: int) -> Amount:
        """Little's law: how many are inside is the rate times how long one is."""
        found = estimates([[_inside_of(one) for one in self.comparison.rounds[place]]])[0]
        if found is None or case.verdict == FAILED:
            return Amount("?", doubt=self._doubt(case) or "no answer came")
        low, high = found.interval() or (None, None)
        rates = [one.rate.per_s for one in self.comparison.rounds[place] if one.rate.per_s]
        rate = float(np.exp(np.mean(np.log(rates))))
        took, users = numbers.seconds(found.mean / rate), numbers.significant(found.mean, 2)
        text = f"{numbers.rate(rate)}/s times {took} = {users}"
        return Amount(text, found.mean, low, high, found, self._doubt(case))  # true on any machine

    def _of_drill(self, what: str, who: str) -> Amount:
        fault, _, figure = what.partition(" ")
        one = _only(f"drill of {fault}", who, [one for one in self._drilled if one.fault == fault])
        if not one.has_figures:
            return Amount("?", doubt=one.failure or one.without)
        value = one.figures[figure]
        if value is None:
            return Amount("never", math.inf, math.inf, math.inf)
        return counted(value, numbers.seconds(value) if figure.endswith("_s") else f"{value:g}")


def _only(what: str, who: str, several: Sequence[T]) -> T:
    """The one of them that is meant; raises LookupError where that is none, or not the only one."""
    found = [
        one
        for one in several
        if fits(who, one.case.server, [str(value) for _, value in one.case.values])  # type: ignore[attr-defined]
    ]
    if len(found) != 1:
        raise LookupError(f"{who} was not measured" if not found else f"{who} is more than one {what}")
    return found[0]


def fits(who: str, server: str, values: Sequence[str]) -> bool:
    """`3`, `3_async_threadexecutor` or `twin`, and behind it values that the case has, such as `digest` or `3.14*`."""
    name, *wanted = who.split()
    stem = server.rpartition("/")[2]
    return name in (stem, server, stem.split("_")[0]) and all(
        any(fnmatchcase(v, one) for v in values) for one in wanted
    )


def _printed(rates: Sequence[float]) -> Amount:
    """The mean, as a load tool would tell it."""
    if not rates:
        return Amount("?", doubt="no answer was right")
    mean = float(np.mean(rates))
    return counted(mean, f"{numbers.rate(mean)}/s")


def _inside_of(one: Round) -> float | None:
    took_s = one.steady_s
    return one.rate.per_s * float(took_s.mean()) if one.rate.per_s and len(took_s) else None


def _at_once(trace: Trace) -> Amount:
    """How many of the requests had begun and had not ended, at the most."""
    spans = [(ran[0][0], ran[-1][1]) for ran in trace.requests.ran_s if ran]
    if trace.failure or not spans:
        return Amount("?", doubt=trace.failure.message if trace.failure else "it doesn't tell when it computes")
    return counted(max(sum(since <= begun < to for since, to in spans) for begun, _ in spans))


def _longest_ping(trace: Trace) -> Amount:
    if trace.failure or not trace.pings.waited_s:
        return Amount("?", doubt=trace.failure.message if trace.failure else "it was not pinged")
    longest_s = max(trace.pings.waited_s)
    return counted(longest_s, numbers.seconds(longest_s))


_OF_TRACES: dict[str, Callable[[Trace], Amount]] = {"at once": _at_once, "longest ping": _longest_ping}
