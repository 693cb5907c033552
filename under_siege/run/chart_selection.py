"""Select the charts of a comparison, and write an explanation and a text alternative for each chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from under_siege import formatting
from under_siege.formatting import capitalized
from under_siege.judge.metric import Metric
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import Comparison, spent_beside
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import Summary
from under_siege.judge.sweep import Sweep, sweeps
from under_siege.judge.verdict_rules import FAILED
from under_siege.run import chart_headlines, charts, processes
from under_siege.run.charted_cases import MOST_ON_SLIDE, ChartedCases
from under_siege.run.sweep_charts import curves, heat_map
from under_siege.show import columns
from under_siege.show.case_names import CaseNames, in_words
from under_siege.show.columns import with_first_text
from under_siege.show.conditions import of_siege
from under_siege.show.view import Figure
from under_siege.trace import view as trace_view

# If there are more than MOST_SETTINGS loads, only the first two have charts. A chart shows at most MOST_CASES cases.
MOST_SETTINGS, MOST_CASES = 4, 24
MOST_ROWS = 15  # with more rows, each row has fewer marks, to limit the size of the page
_BEST_IN_BOTH = "★ marks cases that are not significantly worse than the best in both metrics."
_NUMBERS = "The numbers are those of the servers; faint points do not have rank 1."
_WHY = (
    "\nThreads, greenlets and the event loop use no more than one core, because only the thread that holds the GIL can "
    "run Python code. Each process has its own GIL."
)
_CEILING = "The dark line is the ceiling, the rate that the same users reach {}; the grey band is its 95 % interval."


def figures(comparison: Comparison) -> Iterator[Figure]:
    """Yield all charts of a comparison."""
    if comparison.result.traces:
        yield from _outside_terminal([trace_view.figure(comparison.result)])
    if comparison.result.profiles:
        from under_siege.profile import view as profile_view  # a slow import

        yield from _outside_terminal(profile_view.figures(comparison.result))
    yield from _in_section("All cases", _overview(comparison))
    loads = comparison.loads()
    drawn = loads if len(loads) <= MOST_SETTINGS else loads[:2]
    rows = sum(comparison.load(summary) in drawn for summary in comparison.cases)
    detail = min(1.0, MOST_ROWS / max(1, rows))
    for load in drawn:
        places = [
            place
            for place, case in enumerate(comparison.cases)
            if comparison.load(case) == load and case.verdict != FAILED and case.rate_per_s
        ][:MOST_CASES]
        if places:
            charted = ChartedCases(comparison, places, detail)
            yield from _in_section(in_words(charted.cases[0].case, [name for name, _ in load]), siege_figures(charted))
    yield from processes.figures(comparison)


def _outside_terminal(drawn: Iterable[Figure]) -> Iterator[Figure]:
    """Yield the figures without their form for a terminal, which shows traces and profiles separately."""
    yield from (replace(figure, in_terminal=None) for figure in drawn)


def _in_section(section: str, drawn: Iterable[Figure]) -> Iterator[Figure]:
    yield from (replace(figure, section=section) for figure in drawn)


def _overview(comparison: Comparison) -> Iterator[Figure]:
    """Yield a heat map if there are several axes or loads, and the charts along numeric axes."""
    cases, noun = comparison.cases, columns.noun(comparison.result)
    names = CaseNames(cases)
    if names.across:
        yield Figure(
            "heatmap",
            f"Which {noun} for which load" if len(comparison.loads()) > 1 else f"How each {noun} performs",
            "Each cell shows requests per second and, below them, the share of the ceiling. Stronger colours mean "
            "larger shares. ★ marks cases that are not significantly slower than the fastest case with the same load.",
            partial(heat_map, cases),
            "Rates: " + ", ".join(f"{names.full(summary.case)} {_rate(summary)}" for summary in cases),
            conditions=of_siege(comparison.result, cases),
        )
    yield from _sweeps(comparison)


def _sweeps(comparison: Comparison) -> Iterator[Figure]:
    """Yield a chart for each metric, numeric axis, and combination of values on the load's other axes."""
    names = CaseNames(comparison.cases)
    for number, sweep in enumerate(sweeps(comparison)):
        what = in_words(sweep.lines[0].case, [name for name, _ in sweep.load])
        swept = [comparison.cases[place] for line in sweep.lines for place in line.places]
        rates = ", ".join(f"{names.full(summary.case)} {_rate(summary)}" for summary in swept)
        for over in METRICS.values():
            if over.chart_name and any(over.key in summary.metrics for summary in swept):
                yield Figure(
                    f"{over.chart_name}-sweep",
                    with_first_text(_title(over, sweep, what), comparison.cases),
                    with_first_text(_how(over, sweep, comparison), comparison.cases),
                    partial(curves, comparison, sweep, over),
                    with_first_text(f"{capitalized(over.chart_title)}. Rates: {rates}", comparison.cases),
                    on_page=number < MOST_SETTINGS and over.is_on_page,
                    conditions=of_siege(comparison.result, swept),
                )


def _title(over: Metric, sweep: Sweep, what: str) -> str:
    """Return a title such as `primes: more users` or `primes: ping p99 with more users`."""
    title = f"more {sweep.along}"
    title = title if over.key == "rate_per_s" else f"{over.title or over.column} with {title}"
    return f"{what}: {title}" if what else capitalized(title)


def _how(over: Metric, sweep: Sweep, comparison: Comparison) -> str:
    what = f"{capitalized(over.chart_title)}, plotted against {sweep.along}"
    ceiling = ", with the ceiling" if over.key == "rate_per_s" and comparison.ceilings else ""
    upright = "; vertical lines are 95 % confidence intervals" if sweep.lines[0].knows_noise else ""
    return f"{what}{ceiling}{upright}. Suspect, unclear and missing values are left out."


def _rate(case: Summary) -> str:
    return f"{formatting.rate(case.rate)}/s" if case.rate_per_s else case.verdict


def siege_figures(charted: ChartedCases) -> Iterator[Figure]:
    conditions = of_siege(charted.comparison.result, charted.cases)
    yield from (*_work(charted, conditions), *_costs(charted, conditions))


def _work(charted: ChartedCases, conditions: str) -> Iterator[Figure]:
    cases, dots = charted.cases, next(count for count in (100, 50, 20) if count <= 100 * charted.detail or count == 20)
    has_ceiling, alone = any(charted.ceilings), charted.alone_s
    ceiling = f" {_CEILING.format(_at_the_ceiling(charted.comparison))}" if has_ceiling else ""
    yield Figure(
        "throughput",
        "Throughput",
        f"Correct {cases[0].counted} per second, adjusted to the mean CPU speed of this run. The thin line is the 95 % "
        f"confidence interval.{ceiling} ★ marks cases that are not significantly slower than the fastest. That does "
        f"not make them equal: more rounds may separate them.{_why(charted)}",
        partial(charts.throughput, charted),
        f"{capitalized(cases[0].counted)} per second: " + _each(cases, _rate),
        headline=chart_headlines.of_throughput(cases),
        on_slide=partial(charts.throughput, charted.fastest()),
        conditions=conditions,
    )
    yield Figure(
        "pings",
        "Health-check latency under load",
        f"How long a ping to the same server took under load. Each thin line is {100 // dots} % of the pings, and "
        "the dark line is the median. Further left is better. The ticks of the logarithmic axis are at powers of ten. "
        + ("The dashed line shows how long one task takes without a server." if alone else ""),
        partial(charts.pings, charted, dots),
        "Ping, 99th percentile: "
        + _each(cases, lambda case: formatting.seconds(case.ping_s.least_p99) if case.ping_s else "none"),
        headline=chart_headlines.of_pings(cases, alone),
        on_slide=partial(charts.pings, charted.fastest(), dots),
        conditions=conditions,
    )
    if any(case.has_streams for case in cases):
        yield _streams(charted, conditions, dots)
    if any(case.ping_s for case in cases):
        yield _tradeoff(charted, conditions)
    yield _moments(charted, conditions)


def _streams(charted: ChartedCases, conditions: str, dots: int) -> Figure:
    return Figure(
        "streams",
        with_first_text("First events and gaps", charted.cases),
        with_first_text("How long users waited for the first event, and between two events.", charted.cases)
        + f" Each thin line is {100 // dots} % of the events, and the thick line is the median. Further left is "
        "better; a long tail to the right means that streams stutter. If fewer lines are drawn, the load ended before "
        "these events arrived.",
        partial(charts.stream_chart, charted, dots),
        "Gaps, 99th percentile: "
        + _each(charted.cases, lambda case: formatting.seconds_or(case.gap_s.p99 if case.gap_s else None, "unknown")),
        headline=chart_headlines.of_streams(charted.cases),
        on_slide=partial(charts.stream_chart, charted.fastest(), dots),
        conditions=conditions,
    )


def _tradeoff(charted: ChartedCases, conditions: str) -> Figure:
    return Figure(
        "tradeoff",
        "Throughput and health-check latency",
        "Further up means more throughput, and further left means shorter pings (p99): the upper left corner is best. "
        f"{_BEST_IN_BOTH} The thin crosses are 95 % confidence intervals. {_NUMBERS}",
        partial(charts.tradeoff, charted),
        "Throughput and pings: " + _each(charted.cases, lambda case: f"{_rate(case)} and {_ping(case)}"),
        headline=chart_headlines.of_tradeoff(charted.cases),
        conditions=conditions,
    )


def _moments(charted: ChartedCases, conditions: str) -> Figure:
    cases = charted.cases
    return Figure(
        "moments",
        "The course of the siege",
        "The blue line counts responses, so its slope is the rate. The table's rate excludes the time before nine of "
        "ten users have had a response. A step is a batch of responses that arrived at the same moment. Each bar that "
        "hangs below the line is a ping, and its length is the latency: long bars show that the server was blocked. "
        "At the end, users send no new requests, so the bars get shorter. All rows have the same scales: responses on "
        "the left, pings on the right. A siege lasts longer if responses take longer. The chart shows the first round "
        "without speed adjustment; the table covers all rounds.",
        partial(charts.moments, charted),
        "Correct responses in the first round: " + _each(cases, lambda case: str(_first(charted, case).completed)),
        headline=chart_headlines.of_moments(cases, charted.rounds),
        on_slide=partial(charts.moments, charted.fastest(MOST_ON_SLIDE // 2), columns=2),
        conditions=conditions,
    )


def _costs(charted: ChartedCases, conditions: str) -> Iterator[Figure]:
    cases, task, names = charted.cases, charted.task_cpu, CaseNames(charted.cases)
    both = any(case.rank == 1 and "memory_bytes" in case.best for case in cases)
    star = f" {_BEST_IN_BOTH}" if both else ""
    spent = spent_beside(charted.comparison, charted.places, task)
    yield Figure(
        "memory",
        "Cost: memory",
        f"Further up means more throughput, and further left means less memory.{star} {_NUMBERS}",
        partial(charts.memory, charted),
        "Memory: " + _each(cases, lambda case: formatting.megabytes(case.memory_bytes or 0)),
        headline=chart_headlines.of_memory(cases),
        on_slide=partial(charts.memory, charted.fastest()),
        conditions=conditions,
    )
    beside = f"on top of the {formatting.seconds(task.mean)} that the task itself needs" if task else "of the server"
    yield Figure(
        "cpu",
        "Cost: CPU time per response",
        f"CPU time for each correct response {beside}, speed-adjusted{_by_the_clock(charted)}. The thin line is the "
        "95 % confidence interval. A faint bar is not significantly different from 0. The table shows the CPU time "
        "including the task, as measured."
        if task
        else "CPU time of the server and all its child processes for each correct response. The thin line is the 95 % "
        "confidence interval.",
        partial(charts.cpu, charted, task),
        f"CPU time per response {beside}: "
        + ", ".join(
            f"{names.name(case.case)} {_in_ms(metric.value)}" for case, metric in zip(cases, spent, strict=True)
        ),
        headline=chart_headlines.of_cpu(cases, spent, task.mean if task else None),
        on_slide=partial(charts.cpu, charted.fastest(), task),
        conditions=conditions,
    )


def _by_the_clock(charted: ChartedCases) -> str:
    """Return a remark on the task's wall-clock time, which other charts show, or an empty string if unknown."""
    alone_s = charted.alone_s
    return f" (the task's wall-clock time, as measured, was {formatting.seconds(alone_s)})" if alone_s else ""


def _why(charted: ChartedCases) -> str:
    """Return an explanation of the GIL if all strategies ran a task that holds the GIL, on several usable cores."""
    holds = {case.task for case in charted.cases} == {"primes"} and charted.comparison.result.suite is None
    return _WHY if holds and charted.comparison.result.environment.usable_cpus > 1 else ""


def _first(charted: ChartedCases, case: Summary) -> Round:
    return charted.rounds[charted.cases.index(case)][0]


def _at_the_ceiling(comparison: Comparison) -> str:
    names = {ceiling.server for ceiling in comparison.ceilings if not ceiling.title.startswith("No server")}
    return f"with {next(iter(names))}" if names else "without a server"


def _each(cases: Sequence[Summary], describe: Callable[[Summary], str]) -> str:
    names = CaseNames(cases)
    return ", ".join(f"{names.name(case.case)} {describe(case)}" for case in cases)


def _ping(case: Summary) -> str:
    return formatting.seconds(case.ping_s.least_p99) if case.ping_s else "no pings"


def _in_ms(value_s: float | None) -> str:
    return "unknown" if value_s is None else f"{1000 * value_s:.1f} ms"
