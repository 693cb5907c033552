"""The columns of the comparison: one table model for every dress that it is shown in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from common.report import numbers
from common.report.judging.summary import Interval, Latency, Speed, Summary

Text = Callable[[Summary], str]


class Cell(NamedTuple):
    """A figure as it is shown, and whether it is among the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the summary: what it is called, and how it is written; empty where a case does not have it."""

    name: str
    heading: str  # the same in two lines, under the heading to the left where it begins with a line break
    text: Text
    figure: str = ""  # as `Summary.best` calls it; empty where a best one would not mean anything

    def cell(self, summary: Summary) -> Cell:
        """Its figure for one case; best if nothing beats it by more than noise, and it beats something."""
        return Cell(self.text(summary), self.figure in summary.best)


def _figure(value: Callable[[Summary], float | None], text: Callable[[float], str]) -> Text:
    """The text of a figure that may not be there."""

    def shown(summary: Summary) -> str:
        found = value(summary)
        return "" if found is None else text(found)

    return shown


def _wait(latency: Callable[[Summary], Latency | None], name: str) -> Text:
    """A percentile, or how long it is at least."""

    def shown(summary: Summary) -> str:
        found = latency(summary)
        if found is None:
            return ""
        value: float | None = getattr(found, name)
        return f"> {numbers.seconds(found.max)}" if value is None else numbers.seconds(value)

    return shown


def _mean(interval: Interval | Speed | None) -> float | None:
    return None if interval is None else interval.mean


def half_width(summary: Summary) -> float | None:
    """Of the interval of the rate, in transactions per second."""
    rate = summary.rate_per_s
    return None if rate is None or rate.high is None or rate.low is None else (rate.high - rate.low) / 2


def _workers(summary: Summary) -> str:
    """As the server says, else as it was told."""
    return str(summary.workers or summary.case.get("workers") or "")


FIGURES = (
    Column("rank", "rank", _figure(lambda case: case.rank, str)),
    Column("workers", "workers", _workers),
    Column("trans/s", "trans/s", _figure(lambda case: _mean(case.rate_per_s), numbers.rate), "rate_per_s"),
    Column(
        "at usual speed",
        "at usual\nspeed",
        _figure(lambda case: case.usual_rate_per_s or None, numbers.rate),
        "rate_per_s",
    ),
    Column("±", "±", _figure(half_width, numbers.margin)),
    Column("of ceiling", "of\nceiling", _figure(lambda case: _mean(case.of_ceiling), numbers.share)),
    Column("availability", "avail-\nability", _figure(lambda case: case.availability_pct, numbers.percent)),
    Column("response p50", "response\np50", _wait(lambda case: case.response_s, "p50"), "response_p50_s"),
    Column("response p99", "\np99", _wait(lambda case: case.response_s, "p99"), "response_p99_s"),
    Column("ping p50", "ping\np50", _wait(lambda case: case.ping_s, "p50"), "ping_p50_s"),
    Column("ping p99", "\np99", _wait(lambda case: case.ping_s, "p99"), "ping_p99_s"),
    Column(
        "CPU per trans",
        "CPU per\ntrans",
        _figure(lambda case: case.cpu_s_per_transaction, numbers.seconds),
        "cpu_s_per_transaction",
    ),
    Column("memory", "memory", _figure(lambda case: case.memory_bytes, numbers.megabytes), "memory_bytes"),
    Column("ready", "ready\nafter", _figure(lambda case: case.ready_s, numbers.seconds)),
    Column("speed", "speed", _figure(lambda case: _mean(case.speed), numbers.share)),
)


def columns_for(shown: Sequence[Summary]) -> list[Column]:
    """The columns in which at least one case has a figure; strategies all start alike.

    Rates are compared as they are at the usual speed: where there is such a column, it has the stars.
    """
    needless = {"ready"} if any(summary.task for summary in shown) else set()
    if is_corrected(shown):
        columns = [replace(one, figure="") if one.name == "trans/s" else one for one in FIGURES]
    else:
        columns, needless = list(FIGURES), {*needless, "at usual speed"}
    return [one for one in columns if one.name not in needless and any(one.text(summary) for summary in shown)]


def is_corrected(shown: Sequence[Summary]) -> bool:
    """Whether any rate is another at the usual speed of the machine than as it was measured."""
    return any(summary.rate_at_usual_speed_per_s for summary in shown)


def figures(summary: Summary, columns: Sequence[Column]) -> list[Cell]:
    """The cells of a case that has numbers."""
    return [column.cell(summary) for column in columns]
