"""Define the columns of the comparison table, the format of their figures, and when each column is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from under_siege import formatting
from under_siege.judge.case_names import varying
from under_siege.judge.summary import Interval, Latency, Speed, Summary, half_width

NO_SERVER = "bare"  # server name, in result files, of a ceiling that was measured without a server
CellText = Callable[[Summary], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column for one metric. The cell of a case that lacks the metric is empty."""

    name: str
    in_terminal: str  # heading of one or two lines
    text: CellText
    figure: str = ""  # metric name in `Summary.best`; empty if no value counts as best
    is_wide: bool = False  # whether a terminal shows the column only with --wide
    margin: CellText | None = None  # half-width of the confidence interval


def _figure(value: Callable[[Summary], float | None], text: Callable[[float], str]) -> CellText:
    """Return a function that formats a figure, or returns an empty string if the figure is missing."""
    return lambda summary: "" if (known := value(summary)) is None else text(known)


def _field(name: str, text: Callable[[float], str]) -> CellText:
    return _figure(lambda summary: getattr(summary, name), text)


def _mean(name: str, text: Callable[[float], str]) -> CellText:
    def value(summary: Summary) -> float | None:
        interval: Interval | Speed | None = getattr(summary, name)
        return None if interval is None else interval.mean

    return _figure(value, text)


def _latency(name: str, percentile: str) -> CellText:
    """Return a function that formats a latency percentile, or its lower bound if the percentile is unknown.

    The text is empty for a ceiling that was measured without a server.
    """

    def text(summary: Summary) -> str:
        latency: Latency | None = getattr(summary, name)
        if latency is None or summary.server == NO_SERVER:
            return ""
        value: float | None = getattr(latency, percentile)
        return f"> {formatting.seconds(latency.max)}" if value is None else formatting.seconds(value)

    return text


def _workers(summary: Summary) -> str:
    return str(summary.workers or summary.case.get("workers") or "")


_RATE = _figure(lambda summary: summary.usual_rate_per_s or None, formatting.rate)
_CPU = _field("cpu_s_per_transaction", formatting.seconds)
COLUMNS = (
    Column("trans/s", "trans/s", _RATE, "rate_per_s", margin=_figure(half_width, formatting.margin)),
    Column("of ceiling", "of\nceiling", _mean("of_ceiling", formatting.share)),
    Column("availability", "avail-\nability", _field("availability_pct", formatting.percent)),
    Column("response p50", "response\np50", _latency("response_s", "p50"), "response_p50_s"),
    Column("response p99", "\np99", _latency("response_s", "p99"), "response_p99_s"),
    Column("ping p50", "ping\np50", _latency("ping_s", "p50"), "ping_p50_s", is_wide=True),
    Column("ping p99", "ping\np99", _latency("ping_s", "p99"), "ping_p99_s"),
    Column("memory", "memory", _field("memory_bytes", formatting.megabytes), "memory_bytes"),
    Column("workers", "workers", _workers, is_wide=True),
    Column("CPU per trans", "CPU per\ntrans", _CPU, "cpu_s_per_transaction", is_wide=True),
    Column("as measured", "as\nmeasured", _mean("rate_per_s", formatting.rate), is_wide=True),
    Column("speed", "speed", _mean("speed", formatting.share), is_wide=True),
    Column("ready", "ready\nafter", _field("ready_s", formatting.seconds), is_wide=True),
)


def columns_for(shown: Sequence[Summary]) -> list[Column]:
    """Return the columns in which at least one case has a figure; `workers` is not wide if the cases differ in it."""
    differing = varying([summary.case for summary in shown])
    return [
        replace(column, is_wide=column.is_wide and column.name not in differing)
        for column in COLUMNS
        if any(map(column.text, shown))
    ]


def name_in_table(summary: Summary, ceilings: Sequence[Summary]) -> str:
    """Return the name of the server or, for a ceiling, `ceiling` or `NAME (ceiling)`."""
    if summary not in ceilings:
        return summary.server
    return "ceiling" if summary.server == NO_SERVER else f"{summary.server} (ceiling)"
