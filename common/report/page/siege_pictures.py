"""The pictures of what was asked for the same: work, pings, how the siege went on, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from common.model.record import Result
from common.report import numbers
from common.report.charts.cost import cpu_chart, memory_chart, tradeoff_chart
from common.report.charts.look import Drawing, Look
from common.report.charts.moments import moments_chart
from common.report.charts.pings import pings_chart
from common.report.charts.throughput import throughput_chart
from common.report.figures.alone import alone_wall_s
from common.report.figures.estimates import Estimate
from common.report.figures.rounds import Round
from common.report.judging.comparison import Comparison
from common.report.judging.spent import spent_beside, task_cpu_s
from common.report.judging.summary import Summary
from common.report.page.picture import Picture
from common.report.words import headlines
from common.report.words.conditions import of_siege
from common.report.words.naming import label

MOST_STEPS = 600  # of a curve
MOST_ON_SLIDE = 12
_BRACKET = (
    "Names in a bracket belong to the points beside it, in the same order: from top to bottom, or from left to right "
    "where they lie side by side."
)
_WHY = (
    "\nWhy threads, greenlets and the event loop reach no more than one core: in one Python process only the thread "
    "that holds the GIL can compute Python code. Processes have a GIL each."
)
_CEILING = "The dashed line is the ceiling, what the same users reach {}; the grey band is its own 95 % interval"


@dataclass(frozen=True, slots=True)
class Field:
    """Cases that are asked for the same and have numbers, by their places in the comparison."""

    result: Result
    comparison: Comparison
    places: list[int]
    detail: float  # of all marks, so many are drawn

    def of(self, look: Look) -> Field:
        """As it is; on a slide the one that does the most work first, and not too many."""
        if not look.is_slide:
            return self
        by_rate = sorted(self.places, key=lambda place: -self.comparison.cases[place].usual_rate_per_s)
        return Field(self.result, self.comparison, by_rate[:MOST_ON_SLIDE], self.detail)

    @property
    def cases(self) -> list[Summary]:
        """In their order."""
        return [self.comparison.cases[place] for place in self.places]

    @property
    def rounds(self) -> list[list[Round]]:
        """Of each of them."""
        return [self.comparison.rounds[place] for place in self.places]

    @property
    def ceilings(self) -> list[Summary | None]:
        """Of each of them."""
        found = {id(one): place for place, case in enumerate(self.comparison.ceiling_rounds) for one in case}
        places = [found.get(id(case[0].ceiling)) for case in self.rounds]
        return [None if place is None else self.comparison.ceilings[place] for place in places]

    @property
    def alone_s(self) -> float | None:
        """What the task takes alone; None where that is not one and the same for all of them."""
        works = {one.case.work for one in self.cases}
        return alone_wall_s(self.comparison.rounds_of(works.pop())) if len(works) == 1 else None

    @property
    def task_cpu(self) -> Estimate | None:
        """As the above, in CPU time."""
        works = {one.case.work for one in self.cases}
        return task_cpu_s(self.comparison, works.pop()) if len(works) == 1 else None


def siege_pictures(field: Field) -> Iterator[Picture]:
    """All that there are of it."""
    conditions = of_siege(field.result, field.cases)
    yield from (*_work(field, conditions), *_costs(field, conditions))


def _work(field: Field, conditions: str) -> Iterator[Picture]:
    cases, dots = field.cases, next(count for count in (100, 50, 20) if count <= 100 * field.detail or count == 20)
    has_ceiling, alone = any(field.ceilings), field.alone_s
    ceiling = f" {_CEILING.format(_at_the_ceiling(field.comparison))}" if has_ceiling else ""
    yield Picture(
        "throughput",
        "How much work got done",
        "Right answers per second, at the usual speed of the machine, which is its mean over this run; the thin line "
        f"is the 95 % confidence interval: where the true rate lies, as far as so many rounds can tell.{ceiling}: a "
        "bar that ends a little beyond the line does no more than is possible. ★ stands at all that can't be told from "
        "the fastest. That is not to say that they are equal: all pairs are compared at once, and of so many some are "
        f"apart by chance, so it takes more than two intervals that just miss each other.{_why(field)}",
        lambda look: _throughput(field.of(look), look),
        "Answers per second: " + _each(cases, _rate),
        headline=headlines.of_throughput(cases),
        conditions=conditions,
    )
    yield Picture(
        "pings",
        "What everybody else felt",
        f"How long a trivial request to the same server took meanwhile. Each dot is {100 // dots} % of the pings, "
        "the black line is the median; further left is better, and each step of the axis is ten times as long. "
        + ("The dashed line is how long one task takes alone; what is right of it waited longer." if alone else ""),
        lambda look: _pings(field.of(look), dots, look),
        "Ping, 99th percentile: "
        + _each(cases, lambda case: numbers.seconds(case.ping_s.p99 or case.ping_s.max) if case.ping_s else "none"),
        headline=headlines.of_pings(cases, alone),
        conditions=conditions,
    )
    if any(case.ping_s for case in cases):
        yield _tradeoff(field, conditions)
    yield _moments(field, conditions)


def _tradeoff(field: Field, conditions: str) -> Picture:
    return Picture(
        "tradeoff",
        "Both at once: work, and what everybody else felt",
        "The further up, the more work; the further left, the shorter 99 of 100 pings. So the upper left corner is "
        "where one wants to be. ★ stands at all that can't be told from the best in both, beyond noise: the thin "
        f"crosses are 95 % intervals. {_BRACKET}",
        lambda look: _scattered(field, look),
        "Work and pings: " + _each(field.cases, lambda case: f"{_rate(case)} and {_ping(case)}"),
        headline=headlines.of_tradeoff(field.cases),
        conditions=conditions,
    )


def _moments(field: Field, conditions: str) -> Picture:
    cases = field.cases
    return Picture(
        "moments",
        "How the siege went on",
        "The blue line climbs by one with each right answer: how steep it is, is the rate. That is counted from when "
        "nine of ten users have had an answer, so it is not all answers divided by all seconds. A stair is a batch of "
        "answers that came together. Below, each ping is a bar as tall as it had to wait: where the bars are tall, the "
        "server was stuck. At the end nobody asks again, and they get shorter. All rows have the same scales, "
        "written at the dotted lines, and a siege lasts longer where answers take longer. This is the first round as "
        "it was measured, and so are its longest pings; the table has all rounds.",
        lambda look: _went_on(field.of(look), look),
        "Right answers in the first round: " + _each(cases, lambda case: str(_first(field, case).completed)),
        headline=headlines.of_moments(cases, field.rounds),
        conditions=conditions,
    )


def _costs(field: Field, conditions: str) -> Iterator[Picture]:
    cases, task = field.cases, field.task_cpu
    both = any(case.rank == 1 and "memory_bytes" in case.best for case in cases)
    star = f" ★ stands at {'what nothing beats' if both else 'nothing here: none is the best'} in both, beyond noise."
    spent = spent_beside(field.comparison, field.places, task)
    yield Picture(
        "memory",
        "What it costs: memory",
        f"Further up is more work done, further left is less memory taken.{star} {_BRACKET}",
        lambda look: memory_chart(field.of(look).cases, look),
        "Memory: " + _each(cases, lambda case: numbers.megabytes(case.memory_bytes or 0)),
        headline=headlines.of_memory(cases),
        conditions=conditions,
    )
    beside = f"beside the {numbers.seconds(task.mean)} that the task itself needs" if task else "of the server"
    yield Picture(
        "cpu",
        "What it costs: CPU time for each answer",
        f"CPU time for each right answer {beside}, at the usual speed of the machine{_by_the_clock(field)}. The thin "
        "line is the 95 % interval: where that reaches 0 nothing says that anything is spent, and the bar is pale. "
        "The table has all of it, with the task, as measured."
        if task
        else "CPU time of the server and all its children for each right answer; the thin line is the 95 % interval.",
        lambda look: _cpu(field.of(look), task, look),
        f"CPU time for each answer {beside}: "
        + ", ".join(f"{label(case, cases)} {_in_ms(one.value)}" for case, one in zip(cases, spent, strict=True)),
        headline=headlines.of_cpu(cases, spent, task.mean if task else None),
        conditions=conditions,
    )


def _by_the_clock(field: Field) -> str:
    """The other length of a task that stands on the same page."""
    alone_s = field.alone_s
    return f" (by the clock, and as measured, it took {numbers.seconds(alone_s)})" if alone_s else ""


def _why(field: Field) -> str:
    """For strategies with a task that holds the GIL, on several cores."""
    holds = {case.task for case in field.cases} == {"primes"} and field.result.suite is None
    return _WHY if holds and field.result.environment.usable_cpus > 1 else ""


def _throughput(field: Field, look: Look) -> Drawing:
    return throughput_chart(field.cases, look, field.ceilings)


def _pings(field: Field, dots: int, look: Look) -> Drawing:
    return pings_chart(field.cases, field.rounds, field.alone_s, dots, look)


def _scattered(field: Field, look: Look) -> Drawing:
    ceilings = {one.case: one for one in field.ceilings if one is not None}
    return tradeoff_chart(field.cases, next(iter(ceilings.values())) if len(ceilings) == 1 else None, look)


def _went_on(field: Field, look: Look) -> Drawing:
    return moments_chart(field.cases, field.rounds, int(MOST_STEPS * field.detail), look)


def _cpu(field: Field, task: Estimate | None, look: Look) -> Drawing:
    places = [place for place in field.places if field.comparison.cases[place].cpu_s_per_transaction is not None]
    cases = [field.comparison.cases[place] for place in places]
    return cpu_chart(cases, spent_beside(field.comparison, places, task), look, beside_task=task is not None)


def _first(field: Field, case: Summary) -> Round:
    return field.rounds[field.cases.index(case)][0]


def _at_the_ceiling(comparison: Comparison) -> str:
    """With whom, or without any server."""
    names = {one.server for one in comparison.ceilings if not one.title.startswith("No server")}
    return f"at {next(iter(names))}" if names else "without any server"


def _each(cases: Sequence[Summary], told: Callable[[Summary], str]) -> str:
    return ", ".join(f"{label(case, cases)} {told(case)}" for case in cases)


def _rate(case: Summary) -> str:
    return f"{numbers.rate(case.usual_rate_per_s)}/s" if case.rate_per_s else case.verdict


def _ping(case: Summary) -> str:
    return numbers.seconds(case.ping_s.p99 or case.ping_s.max) if case.ping_s else "no pings"


def _in_ms(value_s: float | None) -> str:
    return "unknown" if value_s is None else f"{1000 * value_s:.1f} ms"
