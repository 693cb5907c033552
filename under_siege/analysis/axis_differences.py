"""Compare the values of one axis with the first value, and show differences that are larger than noise.

Noise is judged in two ways: by the rounds, with one test for all differences (Holm), and by cases that differ only in
name, such as the versions 3.14.5 and 3.14.5.0. A difference that is no larger than between such a pair is not reported.
"""

from __future__ import annotations

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
    """One case, and how far each figure differs from that of the first value: None where that is not decided."""

    summary: Summary
    figures: dict[str, float]  # those that it has, as they are compared: at the usual speed of the machine
    differences: dict[str, float | None]  # by figure, as a fraction


@dataclass(frozen=True, slots=True)
class Across:
    """A row for each case without the axis, a column for each value of it."""

    axis: str
    values: list[Value]
    rows: dict[Case, dict[Value, Cell]]
    noise: dict[str, float]  # by figure: how far the same thing twice differed at the most; none without such a pair


def across_of(comparison: Comparison, axis: str) -> Across:
    """Return the cases of a result along an axis.

    Raises:
        BadInputError: fewer than two values of it were measured.
    """
    cases = [one.case for one in comparison.cases]
    values = _in_order([value for case in cases if (value := case.get(axis)) is not None])
    if len(values) < 2:
        known = dict.fromkeys(name for case in cases for name, _ in case.values)
        raise BadInputError(f"this result has not two values of {axis!r}: expected one of its axes, {', '.join(known)}")
    places = {case: place for place, case in enumerate(cases)}
    first = {case: places.get(_at(case, axis, values[0])) for case in cases}
    ratios = {
        (name, place): ratio(one, other)
        for name in SPEED_CORRECTED
        for case, place in places.items()
        if first[case] not in (None, place) and case.get(axis) is not None
        if (pair := _trusted(comparison, name, place, first[case])) is not None
        for one, other in [pair]
    }
    noise = {name: found for name in SPEED_CORRECTED if (found := _noise(comparison, name, cases)) is not None}
    decided = _decided(ratios, noise)
    rows: dict[Case, dict[Value, Cell]] = {}
    for case, place in places.items():
        if (value := case.get(axis)) is not None and not _is_again(case, axis, cases):
            measured = {name: comparison.measured[name][place] for name in SPEED_CORRECTED}
            figures = {name: one.mean for name, one in measured.items() if one is not None}
            cell = Cell(
                comparison.cases[place], figures, {name: decided.get((name, place)) for name in SPEED_CORRECTED}
            )
            rows.setdefault(case.without([axis]), {})[value] = cell
    return Across(axis, values, rows, noise)


def _trusted(comparison: Comparison, name: str, *places: int | None) -> tuple[Estimate, Estimate] | None:
    """Both estimates, if both cases can be trusted."""
    found = [comparison.measured[name][place] for place in places if place is not None]
    if any(comparison.cases[place].verdict != OK for place in places if place is not None):
        return None
    return (found[0], found[1]) if len(found) == 2 and None not in found else None  # type: ignore[return-value]


def _decided(ratios: dict[tuple[str, int], Estimate], noise: dict[str, float]) -> dict[tuple[str, int], float]:
    """Return those that differ by more than noise, more than our accuracy, and more than the same thing twice."""
    steps = holm([chance_of(one) for one in ratios.values()], 1 - CONFIDENCE)
    return {
        key: float(np.expm1(one.log))
        for (key, one), step in zip(ratios.items(), steps, strict=True)
        if step.adjusted < 1 - CONFIDENCE
        and abs(math.expm1(one.log)) > ACCURACY
        and abs(one.log) > math.log1p(noise.get(key[0], 0.0))
    }


def _noise(comparison: Comparison, name: str, cases: Sequence[Case]) -> float | None:
    """Return the largest difference of two cases that are the same; of those that can be trusted, if there are any."""
    same = [
        (place, elsewhere)
        for (place, case), (elsewhere, twin) in combinations(enumerate(cases), 2)
        if _are_the_same(case, twin)
    ]
    trusted = [pair for pair in same if _trusted(comparison, name, *pair)]
    found = [
        abs(one.log - other.log)
        for place, elsewhere in trusted or same
        for one, other in [(comparison.measured[name][place], comparison.measured[name][elsewhere])]
        if one is not None and other is not None
    ]
    return float(np.expm1(max(found))) if found else None


def _are_the_same(one: Case, other: Case) -> bool:
    """Return whether all of their values are equal, some of them only as versions."""
    if one.server != other.server or [name for name, _ in one.values] != [name for name, _ in other.values]:
        return False
    pairs = zip(one.values, other.values, strict=True)
    return all(value == twin or _version(value) == _version(twin) is not None for (_, value), (_, twin) in pairs)


def _is_again(case: Case, axis: str, cases: Sequence[Case]) -> bool:
    """Return whether an earlier case is the same, with the very same value on that axis."""
    earlier = cases[: cases.index(case)]
    return any(_are_the_same(case, one) and case.get(axis) == one.get(axis) for one in earlier)


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


def _at(case: Case, axis: str, value: Value) -> Case:
    return Case(case.server, tuple((name, value if name == axis else own) for name, own in case.values))
