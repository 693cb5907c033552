"""The charts of the page: which ones a result has, how to read each, and its text alternative."""

from collections.abc import Iterator

from under_siege import formatting
from under_siege.analysis.metric_value import known
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Summary
from under_siege.analysis.sweep import Sweep, sweeps
from under_siege.charts.axis_curves import FIGURES, Over, curves
from under_siege.charts.heatmap import heat_map
from under_siege.charts.html import Picture, Section
from under_siege.checks.verdict import FAILED
from under_siege.model.record import Result
from under_siege.pages.siege_charts import Field, siege_pictures
from under_siege.report.labels import across, cases_of, full_name, in_words, load_in_words
from under_siege.report.notes import of_siege, of_traces
from under_siege.trace.timeline import timelines
from under_siege.trace.timeline_chart import timeline_chart
from under_siege.trace.trace_text import GIL, HOW, headline, missing

MOST_SETTINGS, MOST_CASES = 4, 24  # with pictures of their own; of more settings than that only the first two
ON_PAGE = ("rate", "p99", "ping")  # of the figures along an axis
_ONE_SHOT = (
    " This is a snapshot of one burst for each server. Others would differ a little, so don't compare throughput here."
)
MOST_ROWS = 15  # in rows beyond that there are fewer marks, or the page would grow too large


def sections(result: Result, comparison: Comparison) -> Iterator[Section]:
    """Yield all sections that a result has charts for."""
    loads = list(dict.fromkeys(one.case.load for one in comparison.cases))
    if result.traces:
        yield Section("What ran when", [traced(result)])
    if overview := list(_overview(result, comparison)):
        yield Section("All cases", overview)
    drawn = loads if len(loads) <= MOST_SETTINGS else loads[:2]
    rows = sum(one.case.load in drawn for one in comparison.cases)
    detail = min(1.0, MOST_ROWS / max(1, rows))
    for load in drawn:
        places = [
            place
            for place, case in enumerate(comparison.cases)
            if case.case.load == load and case.verdict != FAILED and case.rate_per_s
        ][:MOST_CASES]
        if places:
            field = Field(result, comparison, places, detail)
            yield Section(load_in_words(field.cases[0].case), list(siege_pictures(field)))


def traced(result: Result, columns: int = 1) -> Picture:
    """Return all timelines, in one column or more."""
    drawn, absent = timelines(result.traces), missing(result)
    untold = " A dotted line is a request to a server that doesn't report when it computes."
    untold = untold if any(one.is_untold for one in drawn) else ""
    users = max((record.users for record in result.records), default=0)
    longer = f" Under siege {users} users send requests all the time, so requests take longer than here."
    asks_why = len({len(one.lanes) for one in drawn}) > 1  # where all have as many workers it is no matter of the GIL
    return Picture(
        "timeline",
        "",
        f"All requests were sent to each server at the same moment. {HOW}{untold}{_ONE_SHOT}"
        f"{longer if users else ''}" + (f"\n{GIL}" if asks_why and result.suite is None else ""),
        lambda look: timeline_chart(drawn, look, columns, absent),
        "Timelines. " + ". ".join(one.described() for one in drawn),
        headline=headline(drawn),
        conditions=of_traces(result),
    )


def _overview(result: Result, comparison: Comparison) -> Iterator[Picture]:
    """Yield a heat map if there are several axes or loads, and the charts along numeric axes."""
    cases, noun = comparison.cases, comparison.noun
    points = cases_of(cases)
    if across(points):
        yield Picture(
            "heatmap",
            f"Which {noun} for which load" if len({one.load for one in points}) > 1 else f"Which {noun} run how",
            "Each cell shows requests per second, and below that the share of the ceiling. Stronger colours are nearer "
            "to the ceiling. ★ marks cases that are not significantly slower than the fastest one with the same load.",
            lambda look: heat_map(cases, look),
            "Rates: " + ", ".join(f"{full_name(one.case, points)} {_rate(one)}" for one in cases),
            conditions=of_siege(result, cases),
        )
    yield from _sweeps(result, comparison)


def _sweeps(result: Result, comparison: Comparison) -> Iterator[Picture]:
    """Yield a chart of each figure along each numeric axis, for each load unless the axis is part of the load."""
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
                    conditions=of_siege(result, [comparison.cases[place] for place in places]),
                )


def _title(over: Over, sweep: Sweep, what: str) -> str:
    """Return a title such as `primes: more users` or `primes: ping p99 with more users`."""
    figures = {"p99": "response p99", "ping": "ping p99", "cpu": "CPU for each answer"}
    told = f"more {sweep.along}"
    told = told if over.name == "rate" else f"{figures.get(over.name, over.name)} with {told}"
    return f"{what}: {told}" if what else f"{told[:1].upper()}{told[1:]}"


def _how(over: Over, sweep: Sweep, comparison: Comparison) -> str:
    """Return how to read a chart along an axis."""
    what = f"{over.title[:1].upper()}{over.title[1:]}, over the number of {sweep.along}"
    ceiling = ", against the ceiling" if over.figure == "rate_per_s" and comparison.ceilings else ""
    upright = "; vertical lines are 95 % confidence intervals" if sweep.lines[0].knows_noise else ""
    return f"{what}{ceiling}{upright}. Suspect, unclear and missing values are left out."


def _rate(case: Summary) -> str:
    return f"{formatting.rate(case.usual_rate_per_s)}/s" if case.rate_per_s else case.verdict
