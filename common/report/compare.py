"""Two results side by side: what changed, and whether that is more than noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from common.errors import BadInputError
from common.record import Result
from common.report import numbers
from common.report.intervals import Interval, differs, ratio_of_means
from common.report.judging.rules import FAILED
from common.report.rounds import Round
from common.report.summary import Comparison, Summary, summarize

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared: a figure of each round, how it is written, and whether more of it is better."""

    heading: str
    of_round: Callable[[Round], float | None]
    text: Callable[[float], str]
    more_is_better: bool = False

    def values(self, case: Sequence[Round]) -> list[float]:
        """The figure of every round that has it."""
        return [value for one in case if (value := self.of_round(one)) is not None]


def _ping_p99(one: Round) -> float | None:
    waited = one.record.pings.waited_s
    return float(np.percentile(waited, 99)) if waited else None


MEASURES = (
    Measure("trans/s", lambda one: one.rate.per_s, numbers.rate, more_is_better=True),
    Measure("ping p99", _ping_p99, numbers.seconds),
    Measure("CPU per trans", Round.cpu_s_per_transaction, numbers.seconds),
    Measure("memory", Round.memory_bytes, numbers.megabytes),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one case, before and after."""

    measure: Measure
    base: float
    new: float
    ratio: Interval | None  # new as a multiple of base

    @property
    def is_more_than_noise(self) -> bool:
        """Whether the rounds tell the two apart."""
        return differs(self.ratio)

    @property
    def is_worse(self) -> bool:
        """Whether it got worse by more than noise."""
        return self.is_more_than_noise and (self.new < self.base) == self.measure.more_is_better

    def text(self) -> str:
        """Such as `52.4 → 26.1 (-50 %)`."""
        percent = 100 * (self.new / self.base - 1)
        return f"{self.measure.text(self.base)} → {self.measure.text(self.new)} ({percent:+.0f} %)"


@dataclass(frozen=True, slots=True)
class Side:
    """A case in both results, or in one of them."""

    key: Key
    base: Summary | None
    new: Summary | None
    changes: tuple[Change, ...] = ()

    @property
    def is_worse(self) -> bool:
        """Whether it got worse, or is gone, or has no numbers any more."""
        lost = (
            self.base is not None and self.base.verdict != FAILED and (self.new is None or self.new.verdict == FAILED)
        )
        return lost or any(change.is_worse for change in self.changes)


def sides(base: Result, new: Result) -> list[Side]:
    """Each case of both results."""
    before, after = _by_key(summarize(base)), _by_key(summarize(new))
    return [_side(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]


def refuse_to_mix(base: Result, new: Result) -> str:
    """Why the two should not be compared; empty if nothing speaks against it."""
    differences = [
        f"{what} ({_shown(before)} and {_shown(after)})"
        for what, before, after in (
            ("tasks", {one.task for one in base.records}, {one.task for one in new.records}),
            ("users", {one.users for one in base.records}, {one.users for one in new.records}),
            ("CPUs", {base.environment.cpu_model}, {new.environment.cpu_model}),
            ("numbers of CPUs", {base.environment.usable_cpus}, {new.environment.usable_cpus}),
            ("sizes of memory", {base.environment.memory_bytes}, {new.environment.memory_bytes}),
        )
        if before != after
    ]
    return f"they were measured with different {', different '.join(differences)}" if differences else ""


def check_comparable(base: Result, new: Result, *, anyway: bool) -> None:
    """Raises BadInputError if the two should not be compared and nobody said to do it anyway."""
    reason = refuse_to_mix(base, new)
    if reason and not anyway:
        raise BadInputError(f"these results can't be compared: {reason}; --anyway does it all the same")


def as_table(base: Result, new: Result) -> RenderableType:
    """The comparison of two results as a table."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("strategy", no_wrap=True)
    for measure in MEASURES:
        table.add_column(measure.heading, justify="right", no_wrap=True)
    found = sides(base, new)
    several = len({side.key[1:] for side in found}) > 1
    for side in found:
        name = side.key[0] if not several else f"{side.key[0]} {side.key[1]} {side.key[2]}"
        table.add_row(Text(name, style="red" if side.is_worse else ""), *_cells(side))
    warning = refuse_to_mix(base, new)
    above = [Text(f"Compared although {warning}.", style="yellow")] if warning else []
    return Group(*above, table, *_remarks(found), Text(_LEGEND, style="dim"))


_LEGEND = "better and worse: more than noise, at 95 % confidence (Welch's t-test on the logarithms) and more than 2 %"


def _cells(side: Side) -> Iterator[Text]:
    for change in side.changes:
        if not change.is_more_than_noise:
            yield Text(change.text())
        elif change.is_worse:
            yield Text(f"{change.text()} worse", style="bold red")
        else:
            yield Text(f"{change.text()} better", style="bold green")


def _remarks(found: Sequence[Side]) -> Iterator[Text]:
    """What can't be a row of figures."""
    for side in found:
        for summary, when in ((side.base, "before"), (side.new, "now")):
            if summary is None:
                yield Text(f"{side.key[0]}: was not measured {when}")
            elif summary.verdict == FAILED:
                yield Text(f"{side.key[0]}: failed {when}: {summary.reasons[0].message}")
    if any(summary is not None and summary.rounds < 2 for side in found for summary in (side.base, side.new)):
        yield Text("One round can't tell a change from noise: measure both with --rounds 3 or more.")


def _side(key: Key, base: tuple[Summary, list[Round]] | None, new: tuple[Summary, list[Round]] | None) -> Side:
    if base is None or new is None:
        return Side(key, base and base[0], new and new[0])
    if FAILED in (base[0].verdict, new[0].verdict):
        return Side(key, base[0], new[0])
    changes = (_change(measure, measure.values(base[1]), measure.values(new[1])) for measure in MEASURES)
    return Side(key, base[0], new[0], tuple(change for change in changes if change is not None))


def _change(measure: Measure, base: Sequence[float], new: Sequence[float]) -> Change | None:
    if not base or not new or not np.mean(base):
        return None
    return Change(measure, float(np.mean(base)), float(np.mean(new)), ratio_of_means(new, base))


def _by_key(comparison: Comparison) -> dict[Key, tuple[Summary, list[Round]]]:
    pairs = zip(comparison.cases, comparison.rounds, strict=True)
    return {(case.server, case.task, case.users): (case, rounds) for case, rounds in pairs}


def _shown(values: set[str] | set[int]) -> str:
    return ", ".join(sorted(map(str, values))) or "none"
