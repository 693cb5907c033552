"""The pictures of the page: which there are for a result, how each is to be read, and what it says in words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from common.model.record import Result
from common.report import numbers
from common.report.charts.cost import cpu_chart, memory_chart
from common.report.charts.curves import FIGURES, Over, curves
from common.report.charts.look import NARROW, WIDE, Drawing, Look, for_page
from common.report.charts.matrix import heat_map
from common.report.charts.moments import moments_chart
from common.report.charts.pings import pings_chart
from common.report.charts.throughput import throughput_chart
from common.report.charts.timeline import timeline_chart
from common.report.figures.alone import alone_cpu_s, alone_wall_s
from common.report.figures.rounds import Round
from common.report.figures.timeline import timelines
from common.report.judging.comparison import Comparison
from common.report.judging.known import known
from common.report.judging.summary import Summary
from common.report.judging.sweep import Sweep, sweeps
from common.report.judging.verdict import FAILED
from common.report.words.naming import across, cases_of, full_name, in_words, label, load_in_words

MOST_SETTINGS, MOST_CASES = 4, 24  # with pictures of their own; of more settings than that only the first two
ON_PAGE = ("rate", "p99", "ping")  # of the figures along an axis
MOST_TICKS, MOST_ROWS = 600, 15  # in a row; in rows beyond that there are fewer marks, or the page would grow too large


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart that can be drawn in any look."""

    name: str  # of the file that it would be saved as
    title: str
    how: str  # to read it
    draw: Callable[[Look], Drawing]
    alternative: str  # in words, for those who can't see it
    on_page: bool = True  # or only in a file of its own


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as it stands on the page, for a desk and for a phone."""

    title: str
    how: str
    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Section:
    """Some pictures under one heading."""

    title: str
    pictures: list[Picture]

    @property
    def figures(self) -> list[Figure]:
        """Drawn for the page."""
        return [_figure(picture) for picture in self.pictures if picture.on_page]


def sections(result: Result, comparison: Comparison) -> Iterator[Section]:
    """Everything that can be drawn of a result, in the order in which it is told."""
    loads = list(dict.fromkeys(one.case.load for one in comparison.cases))
    if result.traces:
        yield Section("Who computed when", [_timeline(result)])
    if overview := list(_overview(comparison)):
        yield Section("All cases", overview)
    drawn = loads if len(loads) <= MOST_SETTINGS else loads[:2]
    rows = sum(one.case.load in drawn for one in comparison.cases)
    detail = min(1.0, MOST_ROWS / max(1, rows))
    for load in drawn:
        pairs = [
            (case, rounds)
            for case, rounds in zip(comparison.cases, comparison.rounds, strict=True)
            if case.case.load == load and case.verdict != FAILED and case.rate_per_s
        ][:MOST_CASES]
        if pairs:
            cases, rounds = [case for case, _ in pairs], [rounds for _, rounds in pairs]
            yield Section(
                load_in_words(cases[0].case),
                [*_work(comparison, cases, rounds, detail), *_costs(comparison, cases)],
            )


def _timeline(result: Result) -> Picture:
    drawn = timelines(result.traces)
    requests = max((len(trace.requests.sent_s) for trace in result.traces), default=0)
    untold = " A dotted line is a request to a server that doesn't tell when it computes."
    untold = untold if any(one.is_untold for one in drawn) else ""
    return Picture(
        "timeline",
        "",
        f"{requests} requests were sent to each server at the same moment. A bar is a request, in the lane of the "
        "worker that had it: pale while it waits, strong while it computes. Below are pings, sent every 25 ms; "
        f"each line is as long as the ping had to wait.{untold}",
        lambda look: timeline_chart(drawn, look),
        "Timelines. " + ". ".join(one.described() for one in drawn),
    )


def _overview(comparison: Comparison) -> Iterator[Picture]:
    """Where there is more than one axis to look along, or more than one load."""
    cases, noun = comparison.cases, comparison.noun
    points = cases_of(cases)
    if across(points):
        yield Picture(
            "heatmap",
            f"Which {noun} for which load" if len({one.load for one in points}) > 1 else f"Which {noun} run how",
            "Each cell has the transactions per second, and below it what share of the ceiling that is: "
            "the stronger its colour, the nearer to all that the machine can do. ★ is the fastest of its load.",
            lambda look: heat_map(cases, look),
            "Rates: " + ", ".join(f"{full_name(one.case, points)} {_rate(one)}" for one in cases),
        )
    yield from _sweeps(comparison)


def _sweeps(comparison: Comparison) -> Iterator[Picture]:
    """Along each axis of numbers a picture of each figure, for each load if the axis is none of its own."""
    points = cases_of(comparison.cases)
    for number, sweep in enumerate(sweeps(comparison)):
        places = [place for line in sweep.lines for place in line.places]
        what = in_words(sweep.lines[0].case, [name for name, _ in sweep.load])
        for over in FIGURES:
            if any(known(comparison, place, over.figure) for place in places):
                told = ", ".join(
                    f"{full_name(points[place], points)} {_rate(comparison.cases[place])}" for place in places
                )
                yield Picture(
                    f"{over.name}-sweep",
                    _title(over, sweep, what),
                    _how(over, sweep, comparison),
                    lambda look, places=places, along=sweep.along, over=over: curves(  # type: ignore[misc]
                        comparison, places, along, over, look
                    ),
                    f"{over.title[:1].upper()}{over.title[1:]}. Rates: {told}",
                    on_page=number < MOST_SETTINGS and over.name in ON_PAGE,
                )


def _title(over: Over, sweep: Sweep, what: str) -> str:
    """Such as `primes: more users`, and `primes: ping p99 with more users`."""
    figures = {"p99": "response p99", "ping": "ping p99", "cpu": "CPU per trans"}
    told = f"more {sweep.along}"
    told = told if over.name == "rate" else f"{figures.get(over.name, over.name)} with {told}"
    return f"{what}: {told}" if what else f"{told[:1].upper()}{told[1:]}"


def _how(over: Over, sweep: Sweep, comparison: Comparison) -> str:
    """How to read it."""
    what = f"{over.title[:1].upper()}{over.title[1:]}, over the number of {sweep.along}"
    ceiling = ", against the ceiling" if over.figure == "rate_per_s" and comparison.ceilings else ""
    upright = "; upright lines are 95 % confidence intervals" if sweep.lines[0].knows_noise else ""
    return f"{what}{ceiling}{upright}. What is suspect, unclear or was not reached is left out."


def _at_the_ceiling(comparison: Comparison) -> str:
    """With whom, or without any server."""
    names = {one.server for one in comparison.ceilings if not one.title.startswith("No server")}
    return f"at {next(iter(names))}" if names else "without any server"


def _work(
    comparison: Comparison, cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], detail: float
) -> Iterator[Picture]:
    dots = next(count for count in (100, 50, 20) if count <= 100 * detail or count == 20)
    wall_s = alone_wall_s(_alone(comparison, cases))
    yield Picture(
        "throughput",
        "How much work got done",
        "Right answers per second; the thin line is the 95 % confidence interval, at the usual speed of the machine. "
        f"The dashed line is the ceiling: what the same users reach {_at_the_ceiling(comparison)}.",
        lambda look: throughput_chart(cases, look),
        "Transactions per second: " + _each(cases, _rate),
    )
    yield Picture(
        "pings",
        "What everybody else felt",
        f"How long a trivial request to the same server took meanwhile. Each dot is {100 // dots} % of the pings, "
        "the line is the median; further left is better, and each step of the axis is ten times as long.",
        lambda look: pings_chart(cases, rounds, wall_s, dots, look),
        "Ping, 99th percentile: "
        + _each(cases, lambda case: numbers.seconds(case.ping_s.p99 or case.ping_s.max) if case.ping_s else "none"),
    )
    yield Picture(
        "moments",
        "How the siege went on",
        "Above, each answer is a tick. Below, each ping is a bar as tall as it had to wait: "
        "where the bars are tall, the server was stuck. This is the first round.",
        lambda look: moments_chart(cases, rounds, int(MOST_TICKS * detail), look),
        "Right answers in the first round: " + _each(cases, lambda case: str(rounds[cases.index(case)][0].completed)),
    )


def _costs(comparison: Comparison, cases: Sequence[Summary]) -> Iterator[Picture]:
    cpu_s = alone_cpu_s(_alone(comparison, cases))
    yield Picture(
        "memory",
        "What it costs: memory",
        "Further up is more work done, further right is more memory taken.",
        lambda look: memory_chart(cases, look),
        "Memory: " + _each(cases, lambda case: numbers.megabytes(case.memory_bytes or 0)),
    )
    yield Picture(
        "cpu",
        "What it costs: CPU time for each answer",
        "What is right of the dashed line is spent on anything but the task."
        if cpu_s
        else "CPU time of the server and all its children for each right answer.",
        lambda look: cpu_chart(cases, cpu_s, look),
        "CPU time per transaction: " + _each(cases, lambda case: numbers.seconds(case.cpu_s_per_transaction or 0)),
    )


def _alone(comparison: Comparison, cases: Sequence[Summary]) -> list[Round]:
    """The rounds that tell what the task takes alone; none where that is not one and the same for all cases."""
    works = {one.case.work for one in cases}
    return comparison.rounds_of(works.pop()) if len(works) == 1 else []


def _figure(picture: Picture) -> Figure:
    with debug_mode(False):  # the tests have every chart checked against the schema; here it would double the time
        wide, narrow = (for_page(picture.draw(look), look, picture.alternative) for look in (WIDE, NARROW))
    return Figure(picture.title, picture.how, Markup(wide), Markup(narrow))  # noqa: S704 (escaped there)


def _each(cases: Sequence[Summary], told: Callable[[Summary], str]) -> str:
    return ", ".join(f"{label(case, cases)} {told(case)}" for case in cases)


def _rate(case: Summary) -> str:
    return f"{numbers.rate(case.rate_per_s.mean)}/s" if case.rate_per_s else case.verdict
