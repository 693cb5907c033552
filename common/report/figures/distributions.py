"""Distributions, from a library that takes longer to load than a small result to report: loaded when they are needed.

scipy.stats has them, too, but takes twice as long.
"""

from functools import cache
from typing import Any


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
