"""Look up the figures of claims, decide which claims hold, and find the right answer to a question.

A claim is a list of requirements in the grammar of `--require`, such as `rate >= 1.1 of base`, for one case and base.
Besides names and keys of metrics, claims may use `drill FAULT FIGURE`, `flag CODE` and the names in `FIGURES`.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from under_siege import formatting
from under_siege.capacity.estimate import Capacity, capacities_of
from under_siege.drill.outcome_summary import fault_outcomes
from under_siege.judge.estimates import ACCURACY, Estimate, estimates, ratio
from under_siege.judge.goal import Goal, in_table, parsed
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.round_statistics import alone_wall_s
from under_siege.judge.summary import Summary
from under_siege.judge.units import TIME
from under_siege.judge.verdict_rules import FAILED, SUSPECT
from under_siege.lesson.step import Claim, Question, fits
from under_siege.record.result import Result
from under_siege.trace.timeline import NOT_REPORTED

HOLDS, NOT_HERE, UNDECIDED = "holds", "does not hold here", "not decided"
# Texts for a ratio near 1. The key is whether the interval of the ratio contains 1, within `ACCURACY`.
SIMILAR = {True: "no significant difference", False: "a difference too small to matter here"}
MARGIN = 1.1  # largest factor by which an interval may exceed a limit; too small to matter in practice
IN_FLIGHT = "at once"  # figure of a trace: the maximum number of tasks in progress at the same time
_DIFFERS = re.compile(r"(.+) (differs|does not differ) from base")


class ClaimValue(NamedTuple):
    """A figure with its interval. For a count, both ends of the interval are the count itself."""

    text: str
    value: float | None = None  # None if unknown or beyond the measured range
    low: float | None = None
    high: float | None = None
    estimate: Estimate | None = None  # used for ratios to the same metric of other cases
    doubt: str = ""  # reason why the figure can't be trusted


def exact(value: float, text: str = "") -> ClaimValue:
    return ClaimValue(text or f"{value:g}", value, value, value)


def _exact_s(value: float) -> ClaimValue:
    return exact(value, formatting.seconds(value))


def _known(value: float | None, figure: Callable[[float], ClaimValue], doubt: str) -> ClaimValue:
    return ClaimValue("?", doubt=doubt) if value is None else figure(value)


def _per_s(value: float) -> ClaimValue:
    return exact(value, f"{formatting.rate(value)}/s")


def _only(kind: str, selector: str, several: Iterable[Any]) -> Any:
    """Return the only object whose case the selector matches; raise LookupError if none or several match."""
    matches = [each for each in several if fits(selector, each.case)]
    if len(matches) != 1:
        raise LookupError(f"{selector} was not measured" if not matches else f"{selector} matches more than one {kind}")
    return matches[0]


class ResultView:
    """The figures of a result, looked up by metric and case."""

    def __init__(self, result: Result) -> None:
        self.result = result

    @cached_property
    def comparison(self) -> Comparison:
        return summarize(self.result)

    @cached_property
    def capacities(self) -> list[Capacity]:
        return capacities_of(self.result)

    @property
    def cpus(self) -> int:
        """Return how many CPUs the servers could use at the same time, at most one for each user."""
        return min([self.result.environment.usable_cpus, *(record.users for record in self.result.records)])

    def index(self, case: str) -> int:
        return self.comparison.cases.index(_only("case", case, self.comparison.cases))

    def figure(self, metric: str, case: str) -> ClaimValue:
        """Return a figure of the case that matches; raise LookupError unless exactly one case matches."""
        kind, _, rest = metric.partition(" ")
        if metric in FIGURES:
            return FIGURES[metric](self, case)
        if kind == "drill":
            return _of_drill(self.result, rest, case)
        if kind == "flag":
            return exact(float(rest in {reason.code for reason in self.comparison.cases[self.index(case)].reasons}))
        return self._of_table(in_table(metric)[0] or metric, self.index(case))

    def base(self, metric: str, base: str, case: str) -> ClaimValue:
        """Return the figure to compare with; raise LookupError if there is none.

        `base` is another case, a figure of the same case, `task` (the duration of the task without a server), or
        `users` (their number).
        """
        if base in ("task", "users"):
            summary = self.comparison.cases[self.index(case)]
            alone_s = alone_wall_s(self.comparison.rounds_of(summary.case.work))
            is_time = base == "task"
            return _known(alone_s, _exact_s, "the duration of the task is unknown") if is_time else exact(summary.users)
        return self.figure(base, case) if base in FIGURES else self.figure(metric, base)

    def _of_table(self, key: str, index: int) -> ClaimValue:
        summary, metric = self.comparison.cases[index], METRICS[key]
        found = summary.metrics.get(key)
        if found is None:
            return ClaimValue(
                "?", doubt=_doubt(summary) or f"{summary.server} has no {metric.name}{_first_reason(summary)}"
            )
        text = f"more than {metric.text(found.low or 0.0)}" if found.value is None else metric.text(found.value)
        if metric.of_round is None and found.value is not None and found.low is None:  # no estimate of its noise
            return exact(found.value, text)
        estimate = self.comparison.measured[key][index] if metric.of_round else None
        doubt = "" if key == "memory_bytes" else _doubt(summary)
        return ClaimValue(text, found.value, found.low, found.high, estimate, doubt)


def _printed_rate(view: ResultView, case: str) -> ClaimValue:
    """Return the rate that a load tool would print, whether or not the responses were correct."""
    rates = [run.rate.per_s for run in view.comparison.rounds[view.index(case)] if run.rate.per_s]
    return _known(float(np.mean(rates)) if rates else None, _per_s, "no response was correct")


def _users_inside(view: ResultView, case: str) -> ClaimValue:
    """Return the mean number of requests in the server: rate times response time (Little's law)."""
    index = view.index(case)
    summary, rounds = view.comparison.cases[index], view.comparison.rounds[index]
    steady = [run for run in rounds if run.rate.per_s and len(run.steady_s)]
    estimate = estimates([[(run.rate.per_s or 0.0) * float(run.steady_s.mean()) for run in steady]])[0]
    if estimate is None or summary.verdict == FAILED:
        return ClaimValue("?", doubt=_doubt(summary) or f"{summary.server} sent no correct response")
    rate = float(np.exp(np.mean([np.log(run.rate.per_s or 1.0) for run in steady])))
    users = formatting.significant(estimate.mean, 2)
    text = f"{formatting.rate(rate)}/s times {formatting.seconds(estimate.mean / rate)} = {users}"
    low, high = estimate.interval() or (None, None)
    return ClaimValue(text, estimate.mean, low, high, estimate, _doubt(summary))


def _in_flight(view: ResultView, case: str) -> ClaimValue:
    """Return the largest number of tasks that were in progress at the same time."""
    trace = _only("trace", case, view.result.traces)
    spans = [(ran[0][0], ran[-1][1]) for ran in trace.requests.ran_s if ran]
    if trace.failure or not spans:
        return ClaimValue("?", doubt=trace.failure.message if trace.failure else NOT_REPORTED)
    return exact(max(sum(from_s <= start_s < to_s for from_s, to_s in spans) for start_s, _ in spans))


def _of_drill(result: Result, metric: str, case: str) -> ClaimValue:
    fault, _, field = metric.partition(" ")
    outcomes = [each for each in fault_outcomes(result.incidents) if each.fault == fault]
    outcome = _only(f"drill of {fault}", case, outcomes)
    if not outcome.figures:
        return ClaimValue("?", doubt=outcome.failure or outcome.without)
    value = outcome.figures[field]
    if value is None:
        return exact(math.inf, "never")
    return exact(value, formatting.seconds(value) if field.endswith("_s") else f"{value:,g}")


def _sustained_rate(view: ResultView, case: str) -> ClaimValue:
    capacity = _only("search", case, view.capacities)
    if not capacity.per_s:
        return ClaimValue("?", doubt=capacity.failure or "the estimate lies outside the offered rates")
    return ClaimValue(
        f"{formatting.rate(capacity.per_s)}/s", capacity.per_s, capacity.lower_per_s, capacity.upper_per_s
    )


def _growth(view: ResultView, case: str) -> ClaimValue:
    """Return the p99 response time at the highest offered rate divided by the p99 at the lowest offered rate."""
    capacity = _only("search", case, view.capacities)
    waits = [(step.per_s, wait_s) for step in capacity.steps if (wait_s := step.value("response_p99_s"))]
    if len(waits) < 2:
        return ClaimValue("?", doubt=capacity.failure or "too few rates were offered")
    (low, first_s), (high, last_s) = waits[0], waits[-1]
    first, last = ("infinite" if wait_s == math.inf else formatting.seconds(wait_s) for wait_s in (first_s, last_s))
    text = f"{first} at {formatting.rate(low)}/s and {last} at {formatting.rate(high)}/s"
    return exact(last_s / first_s if first_s < math.inf else 1.0, text)


def _of_search(field: str, doubt: str) -> Callable[[ResultView, str], ClaimValue]:
    return lambda view, case: _known(getattr(_only("search", case, view.capacities), field), _per_s, doubt)


FIGURES: Mapping[str, Callable[[ResultView, str], ClaimValue]] = {
    "printed rate": _printed_rate,
    "users inside": _users_inside,
    IN_FLIGHT: _in_flight,
    "capacity": _sustained_rate,
    "capacity lower": _of_search("lower_per_s", "no rate meets the goals"),
    "capacity ceiling": _of_search("ceiling_per_s", "the ceiling could not be measured"),
    "capacity growth": _growth,
}


def _doubt(summary: Summary) -> str:
    """Return why a case's figures can't be trusted, or an empty string. Noise is no reason: intervals contain it."""
    if summary.verdict not in (FAILED, SUSPECT):
        return ""
    return f"{summary.server} {'failed' if summary.verdict == FAILED else 'is suspect'}{_first_reason(summary)}"


def _first_reason(summary: Summary) -> str:
    """Return `: ` and the first reason for the verdict, without its advice, or an empty string if there is none."""
    messages = [re.sub(r"^round \d+: ", "", reason.message) for reason in summary.reasons[:1]]
    return "".join(f": {message.rpartition('; ')[0] or message}" for message in messages)


Ratio = tuple[float, float, float]  # lower end, value and upper end of a figure, or of its ratio to the base


def requirement(text: str) -> tuple[str, Callable[[Ratio], str]]:
    """Return the metric of a requirement, and a function that decides it; raise BadInputError if it is invalid.

    In addition to the grammar of `--require`, a figure may be required to differ significantly from the base, or not.
    """
    if match := _DIFFERS.fullmatch(text):
        differs = match[2] == "differs"
        return _in_claims(match[1])[0], lambda between: HOLDS if _is_significant(between) is differs else NOT_HERE
    limit = parsed(text, _in_claims)
    return limit.figure, lambda between: outcome_of(limit, between)


def _is_significant(between: Ratio) -> bool:
    return not between[0] <= 1 <= between[2]


def _in_claims(name: str) -> tuple[str, Mapping[str, float]]:
    key, units = in_table(name)
    known = METRICS[name].unit.factors if name in METRICS else {**TIME.factors, "": 1.0, "/s": 1.0}
    return (key, units) if key else (name, known)


def outcome_of(goal: Goal, between: Ratio) -> str:
    """Return the outcome of a goal: it holds if the value and (within `MARGIN`) the whole interval meet it."""
    low, value, high = between
    worst, best = (high / MARGIN, low * MARGIN) if goal.is_at_most else (low * MARGIN, high / MARGIN)
    if goal.holds(value):
        return HOLDS if goal.holds(worst) else UNDECIDED
    return UNDECIDED if goal.holds(best) else NOT_HERE


class ClaimResult(NamedTuple):
    """Whether a claim holds, and a sentence about it."""

    claim: Claim
    outcome: str
    sentence: str  # if the claim is undecided: the claim and its figures
    reason: str = ""  # why the claim is undecided; empty if its interval is too wide
    possible: str = ""  # description of the interval if it is too wide


def decide(claim: Claim, view: ResultView, *, trusted: bool = False) -> ClaimResult:
    """Decide a claim about the figures in a `ResultView`; if `trusted`, use those of suspect cases, too."""
    metrics, outcomes_of = zip(*map(requirement, claim.requires), strict=True)
    try:
        figure = view.figure(metrics[0], claim.of)
        base = view.base(metrics[0], claim.base, claim.of) if claim.base else None
    except LookupError as error:
        return ClaimResult(claim, UNDECIDED, f"whether {claim.claim}", " ".join(map(str, error.args)))
    between, doubt = _interval(figure, base), figure.doubt or (base.doubt if base else "")
    slots = {"of": figure.text, "base": base.text if base else "", "cpus": str(view.cpus)}
    slots["figures"] = " and ".join(filter(None, [slots["of"], slots["base"]]))
    undecided = f"whether {claim.claim}" + (f" ({slots['figures']})" if "?" not in slots.values() else "")
    if between is None or (doubt and not trusted):
        reason = doubt or "one round is not enough to estimate the noise"
        return ClaimResult(claim, UNDECIDED, undecided, reason.rstrip("."))
    low, value, high = between
    slots |= {"times": _number(value), "same": SIMILAR[low <= 1 + ACCURACY and high >= 1 - ACCURACY]}
    outcomes = {outcome(between) for outcome in outcomes_of}
    if NOT_HERE in outcomes:
        return ClaimResult(claim, NOT_HERE, claim.otherwise.format(claim=claim.claim, **slots))
    if UNDECIDED not in outcomes:
        return ClaimResult(claim, HOLDS, claim.says.format(**slots))
    what = "the ratio" if base else "the figure"
    possible = f"the confidence interval of {what} is {_number(low)} to {_number(high)}"
    return ClaimResult(claim, UNDECIDED, undecided, possible=possible)


def _interval(figure: ClaimValue, base: ClaimValue | None) -> Ratio | None:
    """Return a figure, or its ratio to the base, with the ends of its interval; return None if one is missing."""
    base = base or exact(1.0)
    value = None if figure.value is None or base.value is None else _quotient(figure.value, base.value)
    if figure.estimate is not None and base.estimate is not None and value:
        edges = ratio(figure.estimate, base.estimate).interval(around=value)
        return (edges[0], value, edges[1]) if edges else None
    if figure.low is None or figure.high is None or base.low is None or base.high is None:
        return None
    low, high = _quotient(figure.low, base.high), _quotient(figure.high, base.low)
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
    fitting = {}
    for letter, answer in zip(question.letters, question.answers, strict=True):
        needed = {outcomes[name] for name in answer.when} or {NOT_HERE}
        fitting[letter] = next(outcome for outcome in (NOT_HERE, UNDECIDED, HOLDS) if outcome in needed)
    right = [letter for letter, fit in fitting.items() if fit == HOLDS]
    if question.usual not in right and fitting[question.usual] != NOT_HERE:
        right = []  # ranges of claims overlap, so other answers count only if the usual answer is excluded
    return QuestionResult(claims, "".join(right[:1]), undecided=not right and UNDECIDED in fitting.values())
