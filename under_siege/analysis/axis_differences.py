"""Compare the values of one axis with the first value, and show differences that are larger than noise.

Noise is judged in two ways: by the rounds, with one test for all differences (Holm), and by cases that differ only in
name, such as the versions 3.14.5 and 3.14.5.0. A difference that is no larger than between such a pair is not reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from packaging.version import InvalidVersion, Version

from common.errors import BadInputError
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import OK
from under_siege.model.case import Case, Value
from under_siege.stats.estimates import ACCURACY, CONFIDENCE, Estimate, chance_of, holm, ratio
from under_siege.stats.metrics import SPEED_CORRECTED


@dataclass(frozen=True, slots=True)
class Cell:
    """One case, and by metric its values and their differences from the first value of the axis."""

    summary: Summary
    figures: dict[str, float]  # at the usual speed of the machine
    differences: dict[str, float | None]  # as a fraction; None if not significant


@dataclass(frozen=True, slots=True)
class Across:
    """A row for each case without the axis, a column for each value of it."""

    axis: str
    values: list[Value]
    rows: dict[Case, dict[Value, Cell]]
    noise: dict[str, float]  # by metric: the largest difference between two cases that are the same, if there are any


def across_of(comparison: Comparison, axis: str) -> Across:
    """Return the cases of a result along an axis.

    Raises:
        BadInputError: fewer than two values of it were measured.
    """
    cases = [summary.case for summary in comparison.cases]
    values = _in_order([value for case in cases if (value := case.get(axis)) is not None])
    if len(values) < 2:
        names = dict.fromkeys(name for case in cases for name, _ in case.values)
        known = [name for name in names if len({case.get(name) for case in cases}) > 1]
        expected = f"expected one of {', '.join(known)}" if known else "no axis varies in it"
        raise BadInputError(f"this result has fewer than two values of {axis!r}; {expected}")
    noise = {name: largest for name in SPEED_CORRECTED if (largest := _noise(comparison, name, cases)) is not None}
    differences = _differences(comparison, cases, axis, values[0], noise)
    rows: dict[Case, dict[Value, Cell]] = {}
    for index, case in enumerate(cases):
        value = case.get(axis)
        if value is None or any(_are_the_same(case, other) and value == other.get(axis) for other in cases[:index]):
            continue
        measured = {name: comparison.measured[name][index] for name in SPEED_CORRECTED}
        figures = {name: estimate.mean for name, estimate in measured.items() if estimate is not None}
        own = {name: differences.get((name, index)) for name in SPEED_CORRECTED}
        rows.setdefault(case.without([axis]), {})[value] = Cell(comparison.cases[index], figures, own)
    return Across(axis, values, rows, noise)


def _differences(
    comparison: Comparison, cases: Sequence[Case], axis: str, first: Value, noise: dict[str, float]
) -> dict[tuple[str, int], float]:
    """Return differences, by metric and case, that exceed noise, `ACCURACY`, and the difference of identical cases."""
    ratios: dict[tuple[str, int], Estimate] = {}
    for name in SPEED_CORRECTED:
        for index, case in enumerate(cases):
            base = Case(case.server, tuple((key, first if key == axis else value) for key, value in case.values))
            if base != case and base in cases and (change := _ratio(comparison, name, index, cases.index(base))):
                ratios[name, index] = change
    steps = holm([chance_of(change) for change in ratios.values()], 1 - CONFIDENCE)
    return {
        (name, index): float(np.expm1(change.log))
        for ((name, index), change), step in zip(ratios.items(), steps, strict=True)
        if step.adjusted < 1 - CONFIDENCE
        and abs(math.expm1(change.log)) > ACCURACY
        and abs(change.log) > math.log1p(noise.get(name, 0.0))
    }


def _noise(comparison: Comparison, name: str, cases: Sequence[Case]) -> float | None:
    """Return the largest difference of two cases that are the same; of those that are `ok`, if there are any."""
    pairs = [pair for pair in combinations(range(len(cases)), 2) if _are_the_same(*(cases[index] for index in pair))]
    for only_ok in (True, False):
        changes = [_ratio(comparison, name, *pair, only_ok=only_ok) for pair in pairs]
        if logs := [abs(change.log) for change in changes if change is not None]:
            return float(np.expm1(max(logs)))
    return None


def _ratio(comparison: Comparison, name: str, index: int, base: int, *, only_ok: bool = True) -> Estimate | None:
    """Return a metric of one case as a multiple of another one; None if either is unknown or not `ok`."""
    own, other = (comparison.measured[name][each] for each in (index, base))
    is_ok = comparison.cases[index].verdict == comparison.cases[base].verdict == OK
    return ratio(own, other) if own is not None and other is not None and (is_ok or not only_ok) else None


def _are_the_same(one: Case, other: Case) -> bool:
    """Return whether all of their values are equal, some of them only as versions."""
    if one.server != other.server or [name for name, _ in one.values] != [name for name, _ in other.values]:
        return False
    pairs = zip(one.values, other.values, strict=True)
    return all(value == twin or _version(value) == _version(twin) is not None for (_, value), (_, twin) in pairs)


def _in_order(values: Sequence[Value]) -> list[Value]:
    """Return each once, versions and numbers by their size."""
    once = list(dict.fromkeys(values))
    known = {value: version for value in once if (version := _version(value)) is not None}
    return sorted(once, key=lambda value: (known[value], len(str(value)))) if len(known) == len(once) else once


def _version(value: Value) -> Version | None:
    try:
        return Version(str(value))
    except InvalidVersion:
        return None
