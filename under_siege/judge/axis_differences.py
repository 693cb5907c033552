"""Compare the cases along an axis with those that have its first value.

A difference is reported only if it exceeds two kinds of noise. It must be significant relative to the noise between
rounds, at the level for all differences together. It must also exceed every difference between identical cases with
different names, such as Python 3.14.5 and Python 3.14.5.0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from packaging.version import InvalidVersion, Version

from common.errors import BadInputError
from under_siege.judge.estimates import (
    ACCURACY,
    Estimate,
    chance_of,
    level,
    ratio,
)
from under_siege.judge.metrics import SPEED_CORRECTED
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import OK
from under_siege.record.case import Case, Value


@dataclass(frozen=True, slots=True)
class CaseOfAxis:
    """One case: its metrics, and their differences from the case with the first value of the axis."""

    summary: Summary
    figures: dict[str, float]  # speed-adjusted values, by metric
    differences: dict[str, float | None]  # relative differences, by metric; None if not significant


@dataclass(frozen=True, slots=True)
class Across:
    """A table with a column for each value of an axis, and a row for each set of cases that differ only on the axis."""

    axis: str
    values: list[Value]
    rows: dict[Case, dict[Value, CaseOfAxis]]
    noise: dict[str, float]  # largest difference between identical cases, by metric


def across_of(comparison: Comparison, axis: str) -> Across:
    """Arrange the cases of a result in a table by their values on an axis.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    cases = [summary.case for summary in comparison.cases]
    values = _in_order([value for case in cases if (value := case.get(axis)) is not None])
    if len(values) < 2:
        names = dict.fromkeys(name for case in cases for name, _ in case.values)
        known = [name for name in names if len({case.get(name) for case in cases}) > 1]
        expected = f"use one of {', '.join(known)}" if known else "none of its axes varies"
        raise BadInputError(f"this result has fewer than two values of {axis!r}; {expected}")
    noise = {name: largest for name in SPEED_CORRECTED if (largest := _noise(comparison, name, cases)) is not None}
    differences = _differences(comparison, cases, axis, values[0], noise)
    rows: dict[Case, dict[Value, CaseOfAxis]] = {}
    for index, case in enumerate(cases):
        value = case.get(axis)
        if value is None or any(_are_the_same(case, other) and value == other.get(axis) for other in cases[:index]):
            continue
        measured = {name: comparison.measured[name][index] for name in SPEED_CORRECTED}
        figures = {name: estimate.mean for name, estimate in measured.items() if estimate is not None}
        own = {name: differences.get((name, index)) for name in SPEED_CORRECTED}
        rows.setdefault(case.without([axis]), {})[value] = CaseOfAxis(comparison.cases[index], figures, own)
    return Across(axis, values, rows, noise)


def _differences(
    comparison: Comparison, cases: Sequence[Case], axis: str, first: Value, noise: dict[str, float]
) -> dict[tuple[str, int], float]:
    """Return the significant differences that exceed both `ACCURACY` and the noise, by metric and case index."""
    ratios: dict[tuple[str, int], Estimate] = {}
    for name in SPEED_CORRECTED:
        for index, case in enumerate(cases):
            base = Case(case.server, tuple((key, first if key == axis else value) for key, value in case.values))
            if base != case and base in cases and (change := _ratio(comparison, name, index, cases.index(base))):
                ratios[name, index] = change
    return {
        (name, index): float(np.expm1(change.log))
        for (name, index), change in ratios.items()
        if chance_of(change) < level(len(ratios))
        and abs(math.expm1(change.log)) > ACCURACY
        and abs(change.log) > math.log1p(noise.get(name, 0.0))
    }


def _noise(comparison: Comparison, name: str, cases: Sequence[Case]) -> float | None:
    """Return the largest difference between identical `ok` cases or, if there are none, between any identical cases."""
    pairs = [pair for pair in combinations(range(len(cases)), 2) if _are_the_same(*(cases[index] for index in pair))]
    for only_ok in (True, False):
        changes = [_ratio(comparison, name, *pair, only_ok=only_ok) for pair in pairs]
        if logs := [abs(change.log) for change in changes if change is not None]:
            return float(np.expm1(max(logs)))
    return None


def _ratio(comparison: Comparison, name: str, index: int, base: int, *, only_ok: bool = True) -> Estimate | None:
    """Return a metric of one case divided by that of another.

    Return None if either value is unknown or, with `only_ok`, if either case is not `ok`.
    """
    own, other = (comparison.measured[name][each] for each in (index, base))
    is_ok = comparison.cases[index].verdict == comparison.cases[base].verdict == OK
    return ratio(own, other) if own is not None and other is not None and (is_ok or not only_ok) else None


def _are_the_same(one: Case, other: Case) -> bool:
    """Return whether two cases have the same server and values, treating versions such as 3.14 and 3.14.0 as equal."""
    if one.server != other.server or [name for name, _ in one.values] != [name for name, _ in other.values]:
        return False
    pairs = zip(one.values, other.values, strict=True)
    return all(value == twin or _version(value) == _version(twin) is not None for (_, value), (_, twin) in pairs)


def _in_order(values: Sequence[Value]) -> list[Value]:
    """Return the distinct values, in ascending order if all are versions or numbers."""
    once = list(dict.fromkeys(values))
    known = {value: version for value in once if (version := _version(value)) is not None}
    return sorted(once, key=lambda value: (known[value], len(str(value)))) if len(known) == len(once) else once


def _version(value: Value) -> Version | None:
    try:
        return Version(str(value))
    except InvalidVersion:
        return None
