"""Compare two results: the change of each case, and whether it is significant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from common.errors import BadInputError
from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.analysis.threshold_check import Judged, exit_code_of, judged_beside, places_of
from under_siege.analysis.threshold_check import judged as judged_alone
from under_siege.checks.verdict import FAILED, OK
from under_siege.compare.cross_run_scale import Scale
from under_siege.model.case import Case, axis
from under_siege.model.record import Environment, Result
from under_siege.stats.estimates import ACCURACY, CONFIDENCE, Estimate, Step, chance_of, holm, student_at
from under_siege.stats.metrics import MEASURES
from under_siege.stats.rounds_data import Round

_OPTIONS = "--task, --users and --style"
SAME_MEMORY = 0.01  # the usable memory of a machine differs by some pages between boots


def check_comparable(base: Result, new: Result, *, anyway: bool) -> None:
    """Raise BadInputError if the results have different tasks or users, or come from different machines.

    Args:
        anyway: allow different machines, but never different tasks or users.
    """
    for result, name in ((base, "first"), (new, "second")):
        if not result.records:
            raise BadInputError(f"these results can't be compared: nothing was measured in the {name} one")
    if differences := [*_load_differences(base, new)]:
        doubt = _described(differences)
        raise BadInputError(f"these results can't be compared: {doubt}; measure both with the same {_OPTIONS}")
    if (doubt := machine_difference(base, new)) and not anyway:
        raise BadInputError(f"these results can't be compared: {doubt}; --anyway compares them nevertheless")


def machine_difference(base: Result, new: Result) -> str:
    """Return how the machines differ; empty if they do not."""
    return _described([*_machine_differences(base.environment, new.environment)])


def has_comparable_speed(base: Result, new: Result) -> bool:
    """Return whether both speed probes did the same work with the same Python on the same CPU model."""
    one, other = base.environment, new.environment
    return bool(one.speed_probe) and (one.speed_probe, one.cpu_model) == (other.speed_probe, other.cpu_model)


def _described(differences: list[str]) -> str:
    return f"they were measured with different {', different '.join(differences)}" if differences else ""


def _load_differences(base: Result, new: Result) -> Iterator[str]:
    loads = [{pair for one in result.records for pair in one.case.load} for result in (base, new)]
    for name in dict.fromkeys(name for pairs in loads for name, _ in sorted(pairs, key=str)):
        before, after = (sorted(value for axis, value in pairs if axis == name) for pairs in loads)
        if before != after:
            values_text = (", ".join(map(str, values)) or axis(name).default_label for values in (before, after))
            yield f"{name.removesuffix('s')}s ({' and '.join(values_text)})"


def _machine_differences(base: Environment, new: Environment) -> Iterator[str]:
    if base.cpu_model != new.cpu_model:
        yield f"CPUs ({base.cpu_model} and {new.cpu_model})"
    if base.usable_cpus != new.usable_cpus:
        yield f"numbers of CPUs ({base.usable_cpus} and {new.usable_cpus})"
    if abs(base.memory_bytes - new.memory_bytes) > SAME_MEMORY * max(base.memory_bytes, new.memory_bytes):
        yield f"sizes of memory ({base.memory_bytes / 1e9:.1f} GB and {new.memory_bytes / 1e9:.1f} GB)"


LEVEL = 1 - CONFIDENCE  # share of comparisons of equal servers that call anything better or worse
WORSE, BETTER, SAME, UNDECIDED = "worse", "better", "no difference", "undecided"
GONE, NEW = "gone", "new"  # cases in only one of the results


FIGURES = ("rate_per_s", "ping_p99_s", "cpu_s_per_transaction", "memory_bytes")  # as `MEASURES` calls them


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of one case in both results."""

    figure: str
    base: Summary | None
    new: Summary | None
    ratio: Estimate | None = None  # new as a multiple of base, at one speed of the machine
    step: Step | None = None  # of the Holm correction; None if not tested
    is_judged: bool = False  # whether both sides can be trusted

    @property
    def values(self) -> tuple[float | None, float | None]:
        """Return both values as the tables show them."""
        base, new = (None if case is None else case.as_measured(self.figure) for case in (self.base, self.new))
        return base, new

    @property
    def is_testable(self) -> bool:
        """Return whether the noise between rounds is known and both cases are `ok`."""
        return self.is_judged and self.ratio is not None and self.ratio.degrees > 0

    @property
    def fraction(self) -> float | None:
        """Return the relative change: -0.5 means half."""
        base, new = self.values
        if base is None or new is None:
            return None
        if self.ratio is not None:
            return float(np.expm1(self.ratio.log))
        return new / base - 1 if base else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of `fraction`."""
        edges = self.ratio.interval() if self.ratio else None
        return edges and (edges[0] - 1, edges[1] - 1)

    @property
    def smallest_visible(self) -> float | None:
        """Return the smallest relative change that would have been significant."""
        if self.step is None or self.ratio is None:
            return None
        margin = student_at(self.ratio.degrees, 1 - self.step.level / 2) * self.ratio.variance**0.5
        return max(ACCURACY, float(np.expm1(margin)))

    @property
    def judgement(self) -> str | None:
        """Return the judgement; None if neither case has this metric or one is not `ok`."""
        if not self.is_judged or self.values == (None, None):
            return None
        if self.step is None or self.ratio is None:
            return UNDECIDED
        if self.step.adjusted >= LEVEL or abs(np.expm1(self.ratio.log)) <= ACCURACY:
            return SAME
        return BETTER if (self.ratio.log > 0) == MEASURES[self.figure].more_is_better else WORSE


@dataclass(frozen=True, slots=True)
class Pair:
    """A case in both results, or in one of them."""

    case: Case
    base: Summary | None
    new: Summary | None
    changes: tuple[Change, ...]  # one for each of `FIGURES`
    speed_ratio: float | None = None  # how fast the machine was now, as a multiple of before

    @property
    def judgement(self) -> str:
        """Return the worst judgement; a case that is suspect or unclear in either result is undecided."""
        if self.new is None:
            return UNDECIDED if self.base and self.base.verdict == FAILED else GONE
        if self.new.verdict == FAILED:
            return FAILED
        if self.new.verdict != OK or (self.base and self.base.verdict not in (OK, FAILED)):
            return UNDECIDED
        if self.base is None:
            return NEW
        if self.base.verdict == FAILED:
            return BETTER
        judgements = [change.judgement for change in self.changes]
        return next((judgement for judgement in (WORSE, UNDECIDED, BETTER) if judgement in judgements), SAME)


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of two results."""

    base: Result
    new: Result
    cases: list[Pair]
    has_common_speed: bool  # whether the machine's own change of speed could be taken out
    required: list[Judged] = field(default_factory=list)  # what is required of the new one, beside the base and alone

    @property
    def exit_code(self) -> int:
        """Return 1 if a case is worse, failed or gone or misses a requirement, else 3 if any is undecided, else 0."""
        judgements, required = {case.judgement for case in self.cases}, exit_code_of(self.required)
        if judgements & {WORSE, FAILED, GONE} or required == 1:
            return 1
        return 3 if UNDECIDED in judgements or required else 0


def compared(base: Result, new: Result) -> Compared:
    """Return each case of both results, in the order of the servers' numbers."""
    before, after = summarize(base), summarize(new)
    one_scale = has_comparable_speed(base, new)
    scale = Scale(_every_case(before), _every_case(after), is_comparable=one_scale)
    ignored = _ignored(before, after)
    sides = [_by_case(before, ignored), _by_case(after, ignored)]
    # Cases of the new result come first, then the cases that are gone.
    pairs = [
        _pair(case, sides[0].get(case), sides[1].get(case), scale) for case in dict.fromkeys([*sides[1], *sides[0]])
    ]
    required = [*judged_alone(new, after), *_beside(new, after, sides[0], ignored, scale)]
    return Compared(base, new, judged(pairs), scale.is_common, required)


def _beside(
    new: Result,
    after: Comparison,
    base: Mapping[Case, tuple[Summary, list[Round]]],
    ignored: Sequence[str],
    scale: Scale,
) -> Iterator[Judged]:
    """Yield the results of requirements that are relative to the base."""
    for one in new.requirements:
        for place in places_of(one, after) if one.goal.of_base else ():
            case, rounds = after.cases[place], after.rounds[place]
            before = base.get(case.case.without(ignored))
            is_same_kind = before is None or before[0].memory_kind == case.memory_kind
            knows = before is not None and (is_same_kind or one.goal.figure != "memory_bytes")
            change = scale.change(one.goal.figure, before[1], rounds) if before and knows else None
            yield judged_beside(one.goal, case, before and before[0], change)


def _every_case(comparison: Comparison) -> list[list[Round]]:
    """Return the rounds of all cases and ceilings; the ceilings help to estimate the noise."""
    return [*comparison.ceiling_rounds, *comparison.rounds]


def _ignored(*comparisons: Comparison) -> list[str]:
    """Ignore the number of workers, unless it distinguishes cases within a result."""
    for comparison in comparisons:
        if len({one.case.without(["workers"]) for one in comparison.cases}) < len(comparison.cases):
            return []
    return ["workers"]


def _by_case(comparison: Comparison, ignored: Sequence[str]) -> dict[Case, tuple[Summary, list[Round]]]:
    pairs = zip(comparison.cases, comparison.rounds, strict=True)
    return {one.case.without(ignored): (one, rounds) for one, rounds in pairs}


_Side = tuple[Summary, list[Round]] | None


def _pair(case: Case, base: _Side, new: _Side, scale: Scale) -> Pair:
    before, after = base and base[0], new and new[0]
    changes = [Change(figure, before, after) for figure in FIGURES]
    if base is None or new is None:
        return Pair(case, before, after, tuple(changes))
    is_judged = base[0].verdict == new[0].verdict == OK
    ratios = [_ratio(change, base, new, scale) for change in changes]
    both = zip(changes, ratios, strict=True)
    changes = [replace(change, ratio=ratio, is_judged=is_judged) for change, ratio in both]
    return Pair(case, before, after, tuple(changes), scale.speed_ratio(base[1], new[1]))


def _ratio(
    change: Change, base: tuple[Summary, list[Round]], new: tuple[Summary, list[Round]], scale: Scale
) -> Estimate | None:
    if None in change.values or (change.figure == "memory_bytes" and base[0].memory_kind != new[0].memory_kind):
        return None
    return scale.change(change.figure, base[1], new[1])


def judged(cases: Sequence[Pair]) -> list[Pair]:
    """Adjust all tests for their number (Holm)."""
    everything = [change for case in cases for change in case.changes]
    chances = [chance_of(change.ratio) for change in everything if change.ratio and change.is_testable]
    steps = iter(holm(chances, LEVEL))
    return [
        replace(case, changes=tuple(replace(one, step=next(steps)) if one.is_testable else one for one in case.changes))
        for case in cases
    ]
