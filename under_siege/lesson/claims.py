"""Decide from a result whether claims hold, and find the right answer to a question."""

import math
import re
from typing import NamedTuple

from common.errors import BadInputError
from under_siege import formatting
from under_siege.lesson.lesson_figures import Figure, ResultView
from under_siege.lesson.step import Claim, Question
from under_siege.stats.estimates import ACCURACY, ratio

HOLDS, NOT_HERE, UNDECIDED = "holds", "does not hold here", "not decided"
# The words for a ratio near 1, by whether its interval contains 1.
SIMILAR = {True: "no significant difference", False: "a difference too small to matter here"}
SAME, MORE, ABOUT = 1.2, 1.1, 1.3  # "same" is a ratio of at most 1.2, "more" of at least 1.1
MARGIN = 1.1  # an interval may exceed the limit of its claim by this factor, which makes no practical difference


class ClaimResult(NamedTuple):
    """Whether a claim holds, and a sentence about it."""

    claim: Claim
    outcome: str
    sentence: str  # if it is undecided: the claim and its figures
    reason: str = ""  # why it is undecided, unless its interval is too wide
    possible: str = ""  # the interval, if that is too wide


Ratio = tuple[float, float, float]  # one figure as a multiple of another: lower end of the interval, value, upper end


def limits_of(relation: str) -> tuple[float, float]:
    """Return the limits of a ratio in this relation; raise BadInputError if it is unknown."""
    named = {
        "same": (1 / SAME, SAME),
        "more": (MORE, math.inf),
        "less": (0.0, 1 / MORE),
        "there": (1.0, math.inf),
        "none": (0.0, 0.0),
    }
    if relation in named:
        return named[relation]
    match = re.fullmatch(r"(about|at least|at most) (\d+(?:\.\d+)?) times", relation)
    if not match:
        raise BadInputError(
            f"is = {relation!r}: expected {', '.join(named)}, undecided, decided, identical, different, "
            "or about, at least or at most N times"
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
        default = "On this machine it is not true that {claim}: {of} against {against}."
        return ClaimResult(claim, NOT_HERE, (claim.otherwise or default).format(claim=claim.claim, **slots))
    possible = f"the interval reaches from {_number(low)} to {_number(high)} times as much"
    return ClaimResult(claim, UNDECIDED, undecided, possible=possible)


def outcome_of(relation: str, between: Ratio, *, is_identical: bool = False) -> str:
    """Return whether the relation holds: decided by the value if the whole interval agrees, give or take `MARGIN`."""
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
    """Return the ratio, from the estimates if both figures have one, else from both intervals; None without these."""
    value = None
    if figure.value is not None and reference.value is not None:
        value = _quotient(figure.value, reference.value)
    if figure.estimate is not None and reference.estimate is not None and value:
        interval = ratio(figure.estimate, reference.estimate).interval(around=value)
        return (interval[0], value, interval[1]) if interval else None
    if figure.low is None or figure.high is None or reference.low is None or reference.high is None:
        return None
    low, high = _quotient(figure.low, reference.high), _quotient(figure.high, reference.low)
    bound = low if figure.value is None else high  # an unreached figure is at least its lower bound
    return low, bound if value is None else value, high


def _quotient(dividend: float, divisor: float) -> float:
    if dividend == divisor == math.inf:
        return 1.0
    return dividend / divisor if divisor else math.inf


def _number(value: float) -> str:
    return "infinitely many" if value == math.inf else formatting.significant(value, 2)


class QuestionResult(NamedTuple):
    """The claims of a question, decided by a result, and the answer that follows."""

    claims: tuple[ClaimResult, ...]
    right: str  # the letter of the right answer; empty if it is undecided, or no answer is right
    undecided: bool  # whether another run might find the answer

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Return the outcome and the sentence of each claim that is shown, the undecided ones last."""
        visible = [each for each in self.claims if each.claim.says]
        return [(each.outcome, each.sentence) for each in visible if each.outcome != UNDECIDED] + [
            (UNDECIDED, f"This run does not decide {': '.join(filter(None, (each.sentence, each.possible)))}.")
            for each in visible
            if each.outcome == UNDECIDED
        ]

    @property
    def reasons(self) -> str:
        """Return why claims are undecided, each reason once."""
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
    """Decide all claims, and find the right answer: the usual one, unless the claims exclude it."""
    claims = tuple(decide(claim, view) for claim in question.claims)
    outcomes = {each.claim.name: each.outcome for each in claims if each.claim.name}
    fits = {}
    for letter, answer in zip(question.letters, question.answers, strict=True):
        needed = {outcomes[name] for name in answer.when} or {NOT_HERE}
        fits[letter] = next(outcome for outcome in (NOT_HERE, UNDECIDED, HOLDS) if outcome in needed)
    right = [letter for letter, fit in fits.items() if fit == HOLDS]
    if question.usual not in right and fits[question.usual] != NOT_HERE:
        right = []  # "more" and "same" overlap, so another answer counts only if the usual one is excluded
    return QuestionResult(claims, "".join(right[:1]), undecided=not right and UNDECIDED in fits.values())
