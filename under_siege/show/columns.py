"""Choose the columns of the comparison table, and fill their cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from under_siege import formatting
from under_siege.judge.metric import Metric
from under_siege.judge.metrics import METRICS
from under_siege.judge.summary import Summary
from under_siege.record.record import Record
from under_siege.record.result import Result
from under_siege.show.case_names import CaseNames
from under_siege.show.view import Cell, Column, Tone

NO_SERVER = "bare"  # server name, in result files, of a ceiling that was measured without a server


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A column for one metric. The cell of a case that lacks the metric is empty."""

    metric: Metric
    column: Column

    def cell(self, summary: Summary) -> Cell:
        """Return the cell of a case, marked if the case is not significantly worse than the best."""
        return Cell(text_of(self.metric, summary), Tone.BEST if self.metric.key in summary.best else Tone.PLAIN)


def with_first_text(text: str, measured: Sequence[Summary | Record]) -> str:
    """Return a text about first events, which says `first text` if only events with text count."""
    return re.sub(r"irst(\s)event", r"irst\1text", text) if any(each.text_events for each in measured) else text


def columns_for(shown: Sequence[Summary]) -> list[MetricColumn]:
    """Return the columns in which at least one case has a figure.

    The column `workers` is not wide if the cases differ in it; response times are, if the responses are streams.
    """
    differing = CaseNames(shown).axes
    has_streams = any(summary.has_streams for summary in shown)

    def column(metric: Metric) -> Column:
        is_wide = metric.is_wide or (has_streams and metric.key.startswith("response_"))  # of whole streams
        name = metric.heading(of_streams=has_streams)
        in_terminal = with_first_text(metric.in_terminal, shown) if name == metric.column else ""
        return Column(with_first_text(name, shown), in_terminal, is_wide=is_wide and name not in differing)

    return [
        MetricColumn(metric, column(metric))
        for metric in METRICS.values()
        if metric.column and any(text_of(metric, summary) for summary in shown)
    ]


def text_of(metric: Metric, summary: Summary) -> str:
    """Return the text of a metric, or its lower bound; empty if it is unknown, or a latency without a server."""
    found = summary.metrics.get(metric.key)
    if found is None or (metric.is_latency and summary.server == NO_SERVER):
        return ""
    if found.value is None:
        return f"> {metric.unit.text(summary.shown(metric.longest_key) or 0.0)}"
    text = metric.unit.text(found.value)
    return formatting.with_margin(text, found.value, found.low, found.high) if metric.has_margin else text


def phrase_of(key: str, summary: Summary) -> str:
    """Return a metric for a sentence, such as `33.9 ± 1.2`, `37 ms` or `more than 4.00 s`; `unknown` without value."""
    return text_of(METRICS[key], summary).replace("> ", "more than ") or "unknown"


def noun(result: Result) -> str:
    """Return what tables call a case: `strategy` or, in a suite, `server`."""
    return "strategy" if result.suite is None else "server"


def name_in_table(summary: Summary, ceilings: Sequence[Summary]) -> str:
    """Return the name of the server or, for a ceiling, `ceiling` or `NAME (ceiling)`."""
    if summary not in ceilings:
        return summary.server
    return "ceiling" if summary.server == NO_SERVER else f"{summary.server} (ceiling)"
