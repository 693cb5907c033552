"""Decide claims by a result: each holds, does not hold here, or is not decided by this run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from common.errors import BadInputError
from under_siege import formatting
from under_siege.lesson.capacity_figures import Amount
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.step import Answer, Claim, Page
from under_siege.stats.estimates import ACCURACY, ratio

HOLDS, NOT_HERE, UNDECIDED = "holds", "does not hold here", "not decided"
# How two figures compare that are about the same, by whether the interval of their ratio contains 1.
SIMILAR = {True: "no significant difference", False: "a difference too small to matter here"}
_OPEN = {"undecided": True, "decided": False}  # whether the interval contains 1
_EQUAL = {"identical": True, "different": False}  # whether the figures look the same
SAME, MORE, ABOUT = 1.2, 1.1, 1.3  # "same" is a ratio of at most 1.2, "more" of at least 1.1
MARGIN = 1.1  # An interval may pass a limit of its claim by this factor: that is of no practical importance.


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its outcome, in a sentence."""

    claim: Claim
    outcome: str
    sentence: str  # of an undecided claim: what is claimed, and the figures
    reason: str = ""  # why it is undecided, unless its interval is too wide
    possible: str = ""  # the interval, if that is too wide


class Ratio(NamedTuple):
    """One figure as a multiple of another, with its interval."""

    low: float
    value: float
    high: float


def band(words: str) -> tuple[float, float]:
    """Return the limits of the ratio that these words claim; raises BadInputError if they are unknown."""
    known = {
        "same": (1 / SAME, SAME),
        "more": (MORE, math.inf),
        "less": (0.0, 1 / MORE),
        "there": (1.0, math.inf),
        "none": (0.0, 0.0),
    }
    if words in known:
        return known[words]
    found = re.fullmatch(r"(about|at least|at most) (\d+(?:\.\d+)?) times", words)
    if not found:
        raise BadInputError(
            f"is = {words!r}: expected same, more, less, there, none, undecided, decided, identical, "
            "different, or about, at least or at most N times"
        )
    times = float(found[2])
    return {"about": (times / ABOUT, times * ABOUT), "at least": (times, math.inf), "at most": (0.0, times)}[found[1]]


def judged(claim: Claim, seen: ResultView, *, trusted: bool = False) -> Judged:
    """Decide a claim.

    Args:
        trusted: whether the figures of suspect cases count as well.
    """
    try:
        one, other = seen.amount(claim.what, claim.of), seen.beside(claim.what, claim.against, claim.of)
    except LookupError as error:
        return Judged(claim, UNDECIDED, f"whether {claim.claim}", " ".join(map(str, error.args)))
    slots = {"of": one.text, "against": other.text, "times": _times(one, other), "cpus": str(seen.cpus)}
    between, doubt = _ratio(one, other), "" if trusted else one.doubt or other.doubt
    if doubt or between is None:
        reason = doubt or one.doubt or other.doubt or "a single round says nothing about noise"
        return Judged(claim, UNDECIDED, _undecided(claim, slots), reason.rstrip("."))
    slots["same"] = SIMILAR[between.low <= 1 + ACCURACY and between.high >= 1 - ACCURACY]
    words = claim.is_.format(cpus=seen.cpus)
    if words in _EQUAL:
        outcome = HOLDS if (one.text == other.text) is _EQUAL[words] else NOT_HERE
    elif words in _OPEN:
        outcome = HOLDS if (between.low <= 1 <= between.high) is _OPEN[words] else NOT_HERE
    else:
        outcome = _outcome_of(band(words), between)
    if outcome == HOLDS:
        return Judged(claim, HOLDS, claim.says.format(**slots))
    if outcome == NOT_HERE:
        return Judged(claim, NOT_HERE, _not_here(claim, slots))
    possible = f"the interval reaches from {_number(between.low)} to {_number(between.high)} times as much"
    return Judged(claim, UNDECIDED, _undecided(claim, slots), possible=possible)


def _outcome_of(limits: tuple[float, float], between: Ratio) -> str:
    """Decide by the estimate if its whole interval is on the same side of a limit, give or take `MARGIN`."""
    low, high = limits
    if low <= between.value <= high:
        return HOLDS if low / MARGIN <= between.low and between.high <= high * MARGIN else UNDECIDED
    return NOT_HERE if between.high < low * MARGIN or between.low > high / MARGIN else UNDECIDED


def _ratio(one: Amount, other: Amount) -> Ratio | None:
    """Return the ratio, from the estimates where there are any, else from the two intervals; None without those."""
    value = _part(one.value, other.value) if one.value is not None and other.value is not None else None
    if one.estimate is not None and other.estimate is not None and value:
        edges = ratio(one.estimate, other.estimate).interval(around=value)
        return Ratio(edges[0], value, edges[1]) if edges else None
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    low, high = _part(one.low, other.high), _part(one.high, other.low)
    beyond = low if one.value is None else high  # a figure that was not reached is at least its lower bound
    return Ratio(low, beyond if value is None else value, high)


def _part(one: float, other: float) -> float:
    if one == other == math.inf:
        return 1.0
    return one / other if other else math.inf


def _times(one: Amount, other: Amount) -> str:
    if one.value is None or not other.value or math.inf in (one.value, other.value):
        return "?"
    return _number(one.value / other.value)


def _number(value: float) -> str:
    return "infinitely many" if value == math.inf else formatting.significant(value, 2)


def _undecided(claim: Claim, slots: dict[str, str]) -> str:
    """Return `whether threads do more (24.1/s and 24.3/s)`."""
    against = f" and {slots['against']}" if claim.against else ""
    figures = f" ({slots['of']}{against})" if "?" not in (slots["of"], slots["against"]) else ""
    return f"whether {claim.claim}{figures}"


def _not_here(claim: Claim, slots: dict[str, str]) -> str:
    if claim.otherwise:
        return claim.otherwise.format(**slots)
    return f"Not here: that {claim.claim} is not what was measured, {slots['of']} against {slots['against']}."


@dataclass(frozen=True, slots=True)
class Found:
    """The claims of a page, decided by a result, and the answer that follows."""

    claims: tuple[Judged, ...]
    right: str  # the letter of the answer that fits; empty if none does, or that is undecided
    undecided: bool  # whether another run might find the answer

    @property
    def told(self) -> list[Judged]:
        """Return the claims that are shown as sentences."""
        return [one for one in self.claims if one.claim.says]

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Return outcome and sentence of each, the undecided ones last."""
        decided = [(one.outcome, one.sentence) for one in self.told if one.outcome != UNDECIDED]
        return decided + [
            (UNDECIDED, f"This run does not decide {': '.join(filter(None, (one.sentence, one.possible)))}.")
            for one in self.told
            if one.outcome == UNDECIDED
        ]

    @property
    def reasons(self) -> list[str]:
        """Return why claims are undecided, each reason once."""
        alike: dict[str, str] = {}
        for one in self.claims:
            if one.outcome == UNDECIDED and one.reason:
                alike.setdefault(re.sub(r"\d", "", one.reason), one.reason)
        return [f"{reason[0].upper()}{reason[1:]}." for reason in alike.values()]

    @property
    def has_undecided(self) -> bool:
        """Return whether the answer or any sentence is undecided."""
        return self.undecided or any(one.outcome == UNDECIDED for one in self.told)


def found_in(page: Page, seen: ResultView) -> Found:
    """Decide all claims of a page, and find the right answer: the usual one, unless that is excluded."""
    claims = tuple(judged(claim, seen) for claim in page.claims)
    outcomes = {one.claim.name: one.outcome for one in claims if one.claim.name}
    fits = dict(zip(page.letters, (_outcome(answer, outcomes) for answer in page.answers), strict=True))
    held = [letter for letter, fit in fits.items() if fit == HOLDS]
    if page.usual not in held and fits[page.usual] != NOT_HERE:
        held = []  # "more" and "same" overlap, so the usual answer comes first
    return Found(claims, "".join(held[:1]), undecided=not held and UNDECIDED in fits.values())


def _outcome(answer: Answer, outcomes: dict[str, str]) -> str:
    """Return the worst outcome of its claims; an answer without claims is never right."""
    found = [outcomes[name] for name in answer.when] or [NOT_HERE]
    return NOT_HERE if NOT_HERE in found else UNDECIDED if UNDECIDED in found else HOLDS
