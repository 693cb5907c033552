"""Distributions, from a library that takes longer to load than a small result to report: loaded when they are needed.

scipy.stats has them, too, but takes twice as long.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple


def student(degrees: float, t: float) -> float:
    """The share of Student's t that lies below."""
    return float(_special().stdtr(degrees, t))


def student_at(degrees: float, share: float) -> float:
    """The t below which such a share lies."""
    return float(_special().stdtrit(degrees, share))


def beta_at(a: float, b: float, share: float) -> float:
    """Where such a share of the beta distribution lies below."""
    return float(_special().betaincinv(a, b, share))


def beyond_f(degrees: float, others: float, f: float) -> float:
    """The share of Fisher's F that lies beyond."""
    return float(_special().fdtrc(degrees, others, f))


def digamma(value: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    return float(_special().digamma(value))


def zeta(power: float, value: float) -> float:
    """Of Hurwitz: the sum over all n from 0 on of 1 / (n + value) ** power."""
    return float(_special().zeta(power, value))


@cache
def _special() -> Any:
    from scipy import special

    return special


class Step(NamedTuple):
    """One of the tests: its chance, adjusted for all others, and the level that its own chance has to stay under."""

    adjusted: float
    level: float


def holm(chances: Sequence[float], level: float) -> list[Step]:
    """The step-down procedure of Holm (Scandinavian Journal of Statistics 6, 1979).

    Whatever the tests have to do with each other, anything at all is called a difference where there is none in at
    most `level` of all comparisons. `adjusted` is under `level` exactly where the chance is under its own level.
    """
    steps, highest, stopped_at = [Step(1.0, level)] * len(chances), 0.0, None
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: chances[place])):
        left = len(chances) - rank
        highest = max(highest, min(1.0, left * chances[place]))
        if stopped_at is None and highest >= level:
            stopped_at = left
        steps[place] = Step(highest, level / (stopped_at or left))
    return steps
