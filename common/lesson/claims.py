"""Claims, judged by a result: they hold, they do not hold here, or it can't be told, and why."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from common.errors import BadInputError
from common.lesson.amount import Amount
from common.lesson.figures import Seen
from common.lesson.step import Answer, Claim, Page
from common.report import numbers
from common.report.figures.estimates import ACCURACY, ratio

HOLDS, NOT_HERE, UNTOLD = "holds", "does not hold here", "can't be told here"
# What is said of things that are the same: by whether their interval leaves open which is more.
BEYOND_NOISE = {True: "no difference beyond noise", False: "no difference that would matter here"}
_OPEN = {"undecided": True, "decided": False}  # whether it may be the same
_EQUAL = {"identical": True, "different": False}  # of the figures as they are told
ON_A_BUSY_MACHINE = "(So much is sure even on this busy machine.)"
SAME, MORE, ABOUT = 1.2, 1.1, 1.3  # what is called the same differs by less than that; more is more than that


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim, what came of it, and that in a sentence."""

    claim: Claim
    outcome: str
    sentence: str  # where it can't be told only what is claimed, and the figures
    reason: str = ""  # why it can't be told, if that is more than the noise of its rounds
    possible: str = ""  # how far the interval reaches, where that is why
    is_despite_noise: bool = False  # whether it holds although the machine was busy


def band(words: str) -> tuple[float, float]:
    """From where to where the one may be, as a multiple of the other; raises BadInputError: these words say nothing."""
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


def judged(claim: Claim, seen: Seen, *, in_doubt: bool = False) -> Judged:
    """What becomes of the claim; `in_doubt` by the figures of a case that is in doubt, too."""
    try:
        one, other = seen.amount(claim.what, claim.of), seen.beside(claim.what, claim.against, claim.of)
    except LookupError as error:
        return Judged(claim, UNTOLD, f"whether {claim.claim}", " ".join(map(str, error.args)))
    slots = {"of": one.text, "against": other.text, "times": _times(one, other), "cpus": str(seen.cpus)}
    between, doubt = _between(one, other), "" if in_doubt else one.doubt or other.doubt
    if doubt or between is None:
        reason = doubt or "one round can't tell a difference from noise"
        return Judged(claim, UNTOLD, _untold(claim, slots), reason.rstrip("."))
    noise = "" if in_doubt else one.noise or other.noise
    within = _on_a_quiet_machine(between, one, other) if noise else between
    slots["same"] = BEYOND_NOISE[between[0] <= 1 + ACCURACY and between[1] >= 1 - ACCURACY]
    words = claim.is_.format(cpus=seen.cpus)
    is_about_noise = words in _EQUAL or words in _OPEN
    if words in _EQUAL:
        outcome = HOLDS if (one.text == other.text) is _EQUAL[words] else NOT_HERE
    else:
        outcome = _outcome_of(words, between, within)
    if outcome == HOLDS:
        return Judged(claim, HOLDS, claim.says.format(**slots), is_despite_noise=bool(noise) and not is_about_noise)
    if outcome == NOT_HERE:
        return Judged(claim, NOT_HERE, _not_here(claim, slots))
    possible = f"anything from {_number(within[0])} to {_number(within[1])} times as much is possible"
    return Judged(claim, UNTOLD, _untold(claim, slots), noise, possible)


def _outcome_of(words: str, between: tuple[float, float], within: tuple[float, float]) -> str:
    """By the interval: all of it has to be where it is claimed to be, or none; with what else the machine did."""
    if words in _OPEN:  # noise that leaves it open is the very claim; what a busy machine decides is none
        if between[0] <= 1 <= between[1]:
            return HOLDS if _OPEN[words] else NOT_HERE
        if within[0] <= 1 <= within[1]:
            return UNTOLD
        return NOT_HERE if _OPEN[words] else HOLDS
    low, high = band(words)
    if low <= within[0] and within[1] <= high:
        return HOLDS
    return NOT_HERE if within[1] < low or within[0] > high else UNTOLD


def _on_a_quiet_machine(between: tuple[float, float], one: Amount, other: Amount) -> tuple[float, float]:
    """The same interval, as far as a busy machine may have moved both ends."""
    return _part(between[0] * one.leeway[0], other.leeway[1]), _part(between[1] * one.leeway[1], other.leeway[0])


def _between(one: Amount, other: Amount) -> tuple[float, float] | None:
    """The interval of the one as a multiple of the other: by the noise of rounds, or by that of the two intervals."""
    if one.estimate is not None and other.estimate is not None and None not in (one.value, other.value):
        assert one.value is not None
        assert other.value is not None
        return ratio(one.estimate, other.estimate).interval(around=one.value / other.value)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return _part(one.low, other.high), _part(one.high, other.low)


def _part(one: float, other: float) -> float:
    if one == other == math.inf:
        return 1.0
    return one / other if other else math.inf


def _times(one: Amount, other: Amount) -> str:
    if one.value is None or not other.value or math.inf in (one.value, other.value):
        return "?"
    return _number(one.value / other.value)


def _number(value: float) -> str:
    return "any number of" if value == math.inf else numbers.significant(value, 2)


def _untold(claim: Claim, slots: dict[str, str]) -> str:
    """`whether threads do more (24.1/s and 24.3/s)`."""
    against = f" and {slots['against']}" if claim.against else ""
    figures = f" ({slots['of']}{against})" if "?" not in (slots["of"], slots["against"]) else ""
    return f"whether {claim.claim}{figures}"


def _not_here(claim: Claim, slots: dict[str, str]) -> str:
    if claim.otherwise:
        return claim.otherwise.format(**slots)
    return f"Not here: that {claim.claim} is not what was measured, {slots['of']} against {slots['against']}."


@dataclass(frozen=True, slots=True)
class Found:
    """What a result says to a page."""

    claims: tuple[Judged, ...]
    right: str  # the letter of the answer that fits; empty where none does, or it can't be told
    untold: bool  # whether it can't be told

    @property
    def told(self) -> list[Judged]:
        """The claims that are sentences."""
        return [one for one in self.claims if one.claim.says]

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Outcome and sentence of each; what can't be told last."""
        first = next((one for one in self.told if one.is_despite_noise), None)
        known = [
            (one.outcome, f"{one.sentence} {ON_A_BUSY_MACHINE}" if one is first else one.sentence)
            for one in self.told
            if one.outcome != UNTOLD
        ]
        return known + [
            (UNTOLD, f"It can't be told here {': '.join(filter(None, (one.sentence, one.possible)))}.")
            for one in self.told
            if one.outcome == UNTOLD
        ]

    @property
    def reasons(self) -> list[str]:
        """Why something can't be told, each reason once."""
        alike: dict[str, str] = {}
        for one in self.claims:
            if one.outcome == UNTOLD and one.reason:
                alike.setdefault(re.sub(r"\d", "", one.reason), one.reason)
        return [f"{reason[0].upper()}{reason[1:]}." for reason in alike.values()]

    @property
    def has_untold(self) -> bool:
        """Whether anything can't be told."""
        return self.untold or any(one.outcome == UNTOLD for one in self.told)


def found_in(page: Page, seen: Seen) -> Found:
    """All of its claims, and the answer that follows: another one than usual only where the usual one can't be it."""
    claims = tuple(judged(claim, seen) for claim in page.claims)
    outcomes = {one.claim.name: one.outcome for one in claims if one.claim.name}
    fits = dict(zip(page.letters, (_outcome(answer, outcomes) for answer in page.answers), strict=True))
    held = [letter for letter, fit in fits.items() if fit == HOLDS]
    if page.usual not in held and fits[page.usual] != NOT_HERE:
        held = []  # a little more may also be as much: what is so elsewhere has to be out of the question first
    return Found(claims, "".join(held[:1]), untold=not held and UNTOLD in fits.values())


def _outcome(answer: Answer, outcomes: dict[str, str]) -> str:
    """The worst of its claims; without any it never is the right one."""
    found = [outcomes[name] for name in answer.when] or [NOT_HERE]
    return NOT_HERE if NOT_HERE in found else UNTOLD if UNTOLD in found else HOLDS
