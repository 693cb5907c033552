"""Look up the figures that claims compare, decide which claims hold, and find the right answer to a question."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from common.errors import BadInputError
from under_siege import formatting
from under_siege.capacity.capacity_estimate import Capacity, capacities_of
from under_siege.drill.fault_outcomes import fault_outcomes
from under_siege.judge.estimates import ACCURACY, Estimate, estimates, ratio
from under_siege.judge.ranking import Comparison, known, summarize
from under_siege.judge.round_statistics import Round, alone_wall_s
from under_siege.judge.steady_rate import median_of
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, SUSPECT
from under_siege.lesson.step import Claim, Question, fits
from under_siege.record.record import Result, Trace
from under_siege.record.requirement import goal_names
from under_siege.trace.timeline import NOT_REPORTED

MUCH_MORE = 1.1  # show the highest rate that met the goals if it exceeds the lower bound by this factor
IN_FLIGHT = "at once"  # metric of a trace: the maximum number of tasks in progress at the same time
_TEXTS: dict[str, Callable[[float], str]] = {
    "rate_per_s": lambda value: f"{formatting.rate(value)}/s",
    "memory_bytes": formatting.megabytes,
    "of_ceiling": formatting.share,
}

HOLDS, NOT_HERE, UNDECIDED = "holds", "does not hold here", "not decided"
# Texts for a ratio near 1. The key is whether the interval of the ratio contains 1, within `ACCURACY`.
SIMILAR = {True: "no significant difference", False: "a difference too small to matter here"}
SAME, MORE, ABOUT = 1.2, 1.1, 1.3  # largest ratio for `same`, smallest for `more`, largest deviation factor for `about`
MARGIN = 1.1  # largest factor by which an interval may exceed the limit of its claim; too small to matter in practice


class Figure(NamedTuple):
    """A figure with its interval. For a count, both ends of the interval are the count itself."""

    text: str
    value: float | None = None  # None if unknown or beyond the measured range
    low: float | None = None
    high: float | None = None
    estimate: Estimate | None = None  # used for ratios to other figures of the same metric
    doubt: str = ""  # reason why the figure can't be trusted


def exact(value: float, text: str = "") -> Figure:
    return Figure(text or f"{value:g}", value, value, value)


def unknown(doubt: str) -> Figure:
    return Figure("?", doubt=doubt)


def _rate(per_s: float | None, doubt: str) -> Figure:
    return exact(per_s, f"{formatting.rate(per_s)}/s") if per_s else unknown(doubt)


def _only(kind: str, selector: str, several: Iterable[Any]) -> Any:
    """Return the only object whose case the selector matches; raise LookupError if none or several match."""
    matches = [each for each in several if fits(selector, each.case)]
    if len(matches) != 1:
        raise LookupError(f"{selector} was not measured" if not matches else f"{selector} matches more than one {kind}")
    return matches[0]


class ResultView:
    """The figures of a result, looked up by metric and case."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @cached_property
    def comparison(self) -> Comparison:
        return summarize(self._result)

    @cached_property
    def capacities(self) -> list[Capacity]:
        return capacities_of(self._result)

    @property
    def cpus(self) -> int:
        """Return how many CPUs the servers could use at the same time, at most one for each user."""
        return min([self._result.environment.usable_cpus, *(record.users for record in self._result.records)])

    def figure(self, metric: str, case: str) -> Figure:
        """Return a case's figure for a `--require` or lesson metric; raise LookupError unless one case matches."""
        kind, _, rest = metric.partition(" ")
        if metric == IN_FLIGHT:
            return _in_flight(_only("trace", case, self._result.traces))
        if metric in CAPACITY_FIGURES:
            return CAPACITY_FIGURES[metric](_only("search", case, self.capacities))
        if kind == "drill":
            return self._of_drill(rest, case)
        index = self._index(case)
        summary, rounds = self.comparison.cases[index], self.comparison.rounds[index]
        if kind == "flag":
            return exact(float(rest in {reason.code for reason in summary.reasons}))
        rates = [each.rate.per_s for each in rounds if each.rate.per_s]
        if metric == "printed rate":  # regardless of the verdict, as in the output of a load tool
            return _rate(float(np.mean(rates)) if rates else None, "no response was correct")
        if metric in ("ready", "backlog", "drain"):
            return _of_server(metric, summary, rounds)
        if metric == "users inside":
            return _users_inside(summary, rounds, rates)
        return self._of_siege(metric, index)

    def reference(self, metric: str, against: str, case: str) -> Figure:
        """Return the figure to compare with; raise LookupError if there is none.

        `against` names another case or capacity metric, or is `task` (the duration of the task without a server),
        `users` (the number of users), or an amount such as `50 ms`. If `against` is empty, the figure is 1.
        """
        match = re.fullmatch(r"(\d+(?:\.\d+)?)( ms|)", against or "1")
        if match and (match[2] or not against or not self._has(against)):
            return exact(float(match[1]) / (1000 if match[2] else 1), against)
        if against in ("task", "users"):
            summary = self.comparison.cases[self._index(case)]
            alone_s = alone_wall_s(self.comparison.rounds_of(summary.case.work))
            if against == "users":
                return exact(summary.users)
            return (
                exact(alone_s, formatting.seconds(alone_s))
                if alone_s
                else unknown("the duration of the task is unknown")
            )
        if against in CAPACITY_FIGURES:
            return self.figure(against, case)
        return self.figure(metric, against)

    def _has(self, selector: str) -> bool:
        several: list[Any] = [*self._result.records, *self._result.traces, *self._result.incidents]
        return any(fits(selector, each.case) for each in several)

    def _index(self, case: str) -> int:
        return self.comparison.cases.index(_only("case", case, self.comparison.cases))

    def _of_siege(self, metric: str, index: int) -> Figure:
        summary, field = self.comparison.cases[index], goal_names()[metric]
        measured = known(self.comparison, index, field) if summary.verdict != FAILED else None
        if measured is None:
            return unknown(_doubt(summary) or f"{summary.server} has no {metric}{_first_reason(summary)}")
        text_of = _TEXTS.get(field, formatting.seconds)
        text = f"more than {text_of(measured.low or 0.0)}" if measured.value is None else text_of(measured.value)
        estimate = self.comparison.measured[field][index] if field in self.comparison.measured else None
        doubt = "" if field == "memory_bytes" else _doubt(summary)
        return Figure(text, measured.value, measured.low, measured.high, estimate, doubt)

    def _of_drill(self, metric: str, case: str) -> Figure:
        fault, _, field = metric.partition(" ")
        outcomes = [each for each in fault_outcomes(self._result.incidents) if each.fault == fault]
        outcome = _only(f"drill of {fault}", case, outcomes)
        if not outcome.figures:
            return unknown(outcome.failure or outcome.without)
        value = outcome.figures[field]
        if value is None:
            return Figure("never", math.inf, math.inf, math.inf)
        return exact(value, formatting.seconds(value) if field.endswith("_s") else f"{value:,g}")


def _of_server(metric: str, summary: Summary, rounds: Sequence[Round]) -> Figure:
    """Return the start-up time, the number of jobs left when the load ended, or the time until these jobs were done."""
    drains = [each.record.drain for each in rounds if each.record.drain]
    value = {
        "ready": summary.ready_s,
        "backlog": median_of(drain.backlog for drain in drains),
        "drain": median_of(drain.lasted_s for drain in drains),
    }[metric]
    if value is None:
        return unknown(f"{summary.server} has no value for {metric}")
    return exact(value, f"{value:,.0f}" if metric == "backlog" else formatting.seconds(value))


def _users_inside(summary: Summary, rounds: Sequence[Round], rates: Sequence[float]) -> Figure:
    """Return the mean number of requests in the server: rate times response time (Little's law)."""
    inside = [
        each.rate.per_s * float(each.steady_s.mean()) if each.rate.per_s and len(each.steady_s) else None
        for each in rounds
    ]
    estimate = estimates([inside])[0]
    if estimate is None or summary.verdict == FAILED:
        return unknown(_doubt(summary) or f"{summary.server} sent no correct response{_first_reason(summary)}")
    rate = float(np.exp(np.mean(np.log(rates))))
    users = formatting.significant(estimate.mean, 2)
    text = f"{formatting.rate(rate)}/s times {formatting.seconds(estimate.mean / rate)} = {users}"
    low, high = estimate.interval() or (None, None)
    return Figure(text, estimate.mean, low, high, estimate, _doubt(summary))


def _in_flight(trace: Trace) -> Figure:
    """Return the largest number of tasks that were in progress at the same time."""
    spans = [(ran[0][0], ran[-1][1]) for ran in trace.requests.ran_s if ran]
    if trace.failure or not spans:
        return unknown(trace.failure.message if trace.failure else NOT_REPORTED)
    return exact(max(sum(from_s <= start_s < to_s for from_s, to_s in spans) for start_s, _ in spans))


def _doubt(summary: Summary) -> str:
    """Return why a case's figures can't be trusted, or an empty string. Noise is no reason: intervals contain it."""
    if summary.verdict not in (FAILED, SUSPECT):
        return ""
    return f"{summary.server} {'failed' if summary.verdict == FAILED else 'is suspect'}{_first_reason(summary)}"


def _first_reason(summary: Summary) -> str:
    """Return `: ` and the first reason for the verdict, without its advice, or an empty string if there is none."""
    messages = [re.sub(r"^round \d+: ", "", reason.message) for reason in summary.reasons[:1]]
    return "".join(f": {message.rpartition('; ')[0] or message}" for message in messages)


def _sustained_rate(capacity: Capacity) -> Figure:
    if capacity.failure:
        return unknown(capacity.failure)
    text = bound = f"{formatting.rate(capacity.lower_per_s)}/s" if capacity.lower_per_s else "no rate"
    missed = min((step.per_s for step in capacity.steps if capacity.missed_at(step)), default=math.inf)
    met = max((step.per_s for step in capacity.steps if step.per_s < missed), default=0.0)
    low = capacity.lower_per_s or 0.0
    if met > MUCH_MORE * low:
        text = f"{formatting.rate(met)}/s in this run (lower bound: {bound})"
    return Figure(text, low, low, capacity.upper_per_s or math.inf)


def _estimated_rate(capacity: Capacity) -> Figure:
    """Return the estimate that the table of a capacity search shows as `sustained`."""
    per_s = capacity.per_s
    if not per_s:
        return unknown(capacity.failure or "the estimate lies outside the offered rates")
    return Figure(f"{formatting.rate(per_s)}/s", per_s, capacity.lower_per_s, capacity.upper_per_s)


def _growth(capacity: Capacity) -> Figure:
    """Return the p99 response time at the highest offered rate divided by the p99 at the lowest offered rate."""
    waits = [(step.per_s, wait_s) for step in capacity.steps if (wait_s := step.percentile_s("response", 99))]
    if len(waits) < 2:
        return unknown(capacity.failure or "too few rates were offered")
    (low, first_s), (high, last_s) = waits[0], waits[-1]
    first, last = ("infinite" if wait_s == math.inf else formatting.seconds(wait_s) for wait_s in (first_s, last_s))
    text = f"{first} at {formatting.rate(low)}/s and {last} at {formatting.rate(high)}/s"
    return exact(last_s / first_s if first_s < math.inf else 1.0, text)


CAPACITY_FIGURES: dict[str, Callable[[Capacity], Figure]] = {
    "capacity": _sustained_rate,
    "capacity sustained": _estimated_rate,
    "capacity lower": lambda capacity: _rate(capacity.lower_per_s, capacity.failure or "no rate meets the goals"),
    "capacity ceiling": lambda capacity: _rate(capacity.ceiling_per_s, "the ceiling could not be measured"),
    "capacity growth": _growth,
}


class ClaimResult(NamedTuple):
    """Whether a claim holds, and a sentence about it."""

    claim: Claim
    outcome: str
    sentence: str  # if the claim is undecided: the claim and its figures
    reason: str = ""  # why the claim is undecided; empty if its interval is too wide
    possible: str = ""  # description of the interval if it is too wide


Ratio = tuple[float, float, float]  # one figure divided by another: lower end, value and upper end


def limits_of(relation: str) -> tuple[float, float]:
    """Return the range of ratios for which the relation holds; raise BadInputError if the relation is unknown."""
    named = {
        "same": (1 / SAME, SAME),
        "more": (MORE, math.inf),
        "less": (0.0, 1 / MORE),
        "there": (1.0, math.inf),
        "never": (math.inf, math.inf),
        "none": (0.0, 0.0),
    }
    if relation in named:
        return named[relation]
    match = re.fullmatch(r"(about|at least|at most) (\d+(?:\.\d+)?) times", relation)
    if not match:
        raise BadInputError(
            f"is = {relation!r}: expected {', '.join(named)}, undecided, decided, identical, different, "
            "about N times, at least N times, or at most N times"
        )
    times = float(match[2])
    return {"about": (times / ABOUT, times * ABOUT), "at least": (times, math.inf), "at most": (0.0, times)}[match[1]]


def decide(claim: Claim, view: ResultView, *, trusted: bool = False) -> ClaimResult:
    """Decide a claim; if `trusted`, use the figures of suspect cases, too."""
    try:
        figure, reference = view.figure(claim.metric, claim.of), view.reference(claim.metric, claim.against, claim.of)
    except LookupError as error:
        return ClaimResult(claim, UNDECIDED, f"whether {claim.claim}", " ".join(map(str, error.args)))
    times = "?"
    if figure.value is not None and reference.value and math.inf not in (figure.value, reference.value):
        times = _number(figure.value / reference.value)
    slots = {"of": figure.text, "against": reference.text, "times": times, "cpus": str(view.cpus)}
    against = f" and {slots['against']}" if claim.against else ""
    figures = f" ({slots['of']}{against})" if "?" not in (slots["of"], slots["against"]) else ""
    undecided = f"whether {claim.claim}{figures}"
    between, doubt = _ratio(figure, reference), figure.doubt or reference.doubt
    if between is None or (doubt and not trusted):
        reason = doubt or "one round is not enough to estimate the noise"
        return ClaimResult(claim, UNDECIDED, undecided, reason.rstrip("."))
    low, _, high = between
    slots["same"] = SIMILAR[low <= 1 + ACCURACY and high >= 1 - ACCURACY]
    outcome = outcome_of(claim.relation.format(cpus=view.cpus), between, is_identical=figure.text == reference.text)
    if outcome == HOLDS:
        return ClaimResult(claim, HOLDS, claim.says.format(**slots))
    if outcome == NOT_HERE:
        return ClaimResult(claim, NOT_HERE, claim.otherwise.format(claim=claim.claim, **slots))
    possible = f"the confidence interval of the ratio is {_number(low)} to {_number(high)}"
    return ClaimResult(claim, UNDECIDED, undecided, possible=possible)


def outcome_of(relation: str, between: Ratio, *, is_identical: bool = False) -> str:
    """Return the outcome of a relation: it holds if the value and (within `MARGIN`) the whole interval satisfy it."""
    low, value, high = between
    if relation in ("identical", "different"):
        return HOLDS if is_identical == (relation == "identical") else NOT_HERE
    if relation in ("undecided", "decided"):
        return HOLDS if (low <= 1 <= high) == (relation == "undecided") else NOT_HERE
    lowest, highest = limits_of(relation)
    if lowest <= value <= highest:
        return HOLDS if lowest / MARGIN <= low and high <= highest * MARGIN else UNDECIDED
    return NOT_HERE if high < lowest * MARGIN or low > highest / MARGIN else UNDECIDED


def _ratio(figure: Figure, reference: Figure) -> Ratio | None:
    """Compute the ratio from the estimates if possible, else from the intervals; return None if one is missing."""
    value = None
    if figure.value is not None and reference.value is not None:
        value = _quotient(figure.value, reference.value)
    if figure.estimate is not None and reference.estimate is not None and value:
        interval = ratio(figure.estimate, reference.estimate).interval(around=value)
        return (interval[0], value, interval[1]) if interval else None
    if figure.low is None or figure.high is None or reference.low is None or reference.high is None:
        return None
    low, high = _quotient(figure.low, reference.high), _quotient(figure.high, reference.low)
    bound = low if figure.value is None else high  # a figure beyond the measured range is at least its lower bound
    return low, bound if value is None else value, high


def _quotient(dividend: float, divisor: float) -> float:
    if dividend == divisor == math.inf:
        return 1.0
    return dividend / divisor if divisor else math.inf


def _number(value: float) -> str:
    return "infinitely many" if value == math.inf else formatting.significant(value, 2)


class QuestionResult(NamedTuple):
    """The outcome of a question's claims, and the answer that follows from them."""

    claims: tuple[ClaimResult, ...]
    right: str  # letter of the right answer; empty if undecided, or if no answer is right
    undecided: bool  # whether another run might decide the answer

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Return the outcome and the sentence of each shown claim; undecided claims come last."""
        visible = [each for each in self.claims if each.claim.says]
        return [(each.outcome, each.sentence) for each in visible if each.outcome != UNDECIDED] + [
            (UNDECIDED, f"This run does not decide {': '.join(filter(None, (each.sentence, each.possible)))}.")
            for each in visible
            if each.outcome == UNDECIDED
        ]

    @property
    def reasons(self) -> str:
        """Return the distinct reasons why claims are undecided."""
        reasons: dict[str, str] = {}
        for each in self.claims:
            if each.outcome == UNDECIDED and each.reason:
                reasons.setdefault(re.sub(r"\d", "", each.reason), f"{formatting.capitalized(each.reason)}.")
        return " ".join(reasons.values())

    @property
    def has_undecided(self) -> bool:
        """Return whether the answer or any sentence is undecided."""
        return self.undecided or any(outcome == UNDECIDED for outcome, _ in self.sentences)


def decide_question(question: Question, view: ResultView) -> QuestionResult:
    """Decide all claims, and find the right answer: the usual answer or, if claims exclude it, another answer."""
    claims = tuple(decide(claim, view) for claim in question.claims)
    outcomes = {each.claim.name: each.outcome for each in claims if each.claim.name}
    fits = {}
    for letter, answer in zip(question.letters, question.answers, strict=True):
        needed = {outcomes[name] for name in answer.when} or {NOT_HERE}
        fits[letter] = next(outcome for outcome in (NOT_HERE, UNDECIDED, HOLDS) if outcome in needed)
    right = [letter for letter, fit in fits.items() if fit == HOLDS]
    if question.usual not in right and fits[question.usual] != NOT_HERE:
        right = []  # "more" and "same" overlap, so other answers count only if the usual answer is excluded
    return QuestionResult(claims, "".join(right[:1]), undecided=not right and UNDECIDED in fits.values())
