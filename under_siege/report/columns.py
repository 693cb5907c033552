"""The columns of the comparison, shared by all output formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from under_siege import formatting
from under_siege.analysis.summary import Interval, Latency, Speed, Summary
from under_siege.report.grid import Heading, TableCell

STYLES = {"failed": "red", "suspect": "yellow", "unclear": "yellow"}
Text = Callable[[Summary], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the summary, with its name and its format; empty for a case that does not have it."""

    name: str
    in_terminal: str  # its heading in two lines, as in `Heading`
    text: Text
    figure: str = ""  # its name in `Summary.best`; empty if "best" has no meaning

    @property
    def heading(self) -> Heading:
        return Heading(self.name, self.in_terminal)

    def cell(self, summary: Summary) -> TableCell:
        """Return the figure of one case; best if none is significantly better, but one is significantly worse."""
        text = self.text(summary)
        if self.figure in summary.best:  # the star is for those who can't see bold letters
            return TableCell(text, "bold green", is_strong=True, in_terminal=f"{text} *")
        return TableCell(text, STYLES.get(summary.verdict, ""), in_terminal=f"{text}  " if self.figure else text)


def _figure(value: Callable[[Summary], float | None], text: Callable[[float], str]) -> Text:
    """Return a format for a figure that may be missing."""
    return lambda summary: "" if (known := value(summary)) is None else text(known)


def _wait(latency: Callable[[Summary], Latency | None], name: str) -> Text:
    """Return a format for a percentile, or for its lower bound if it was not reached."""

    def shown(summary: Summary) -> str:
        waits = latency(summary)
        if waits is None:
            return ""
        value: float | None = getattr(waits, name)
        return f"> {formatting.seconds(waits.max)}" if value is None else formatting.seconds(value)

    return shown


def _mean(interval: Interval | Speed | None) -> float | None:
    return None if interval is None else interval.mean


def half_width(summary: Summary) -> float | None:
    """Return half the width of the interval of the rate, in transactions per second."""
    rate = summary.rate_per_s
    return None if rate is None or rate.high is None or rate.low is None else (rate.high - rate.low) / 2


def _workers(summary: Summary) -> str:
    """Return the number the server reports, or else the one it was started with."""
    return str(summary.workers or summary.case.get("workers") or "")


FIGURES = (
    Column("rank", "rank", _figure(lambda case: case.rank, str)),
    Column("workers", "workers", _workers),
    Column("trans/s", "trans/s", _figure(lambda case: _mean(case.rate_per_s), formatting.rate), "rate_per_s"),
    Column(
        "speed-adjusted",
        "speed-\nadjusted",
        _figure(lambda case: case.usual_rate_per_s or None, formatting.rate),
        "rate_per_s",
    ),
    Column("±", "±", _figure(half_width, formatting.margin)),
    Column("of ceiling", "of\nceiling", _figure(lambda case: _mean(case.of_ceiling), formatting.share)),
    Column("availability", "avail-\nability", _figure(lambda case: case.availability_pct, formatting.percent)),
    Column("response p50", "response\np50", _wait(lambda case: case.response_s, "p50"), "response_p50_s"),
    Column("response p99", "\np99", _wait(lambda case: case.response_s, "p99"), "response_p99_s"),
    Column("ping p50", "ping\np50", _wait(lambda case: case.ping_s, "p50"), "ping_p50_s"),
    Column("ping p99", "\np99", _wait(lambda case: case.ping_s, "p99"), "ping_p99_s"),
    Column(
        "CPU per trans",
        "CPU per\ntrans",
        _figure(lambda case: case.cpu_s_per_transaction, formatting.seconds),
        "cpu_s_per_transaction",
    ),
    Column("memory", "memory", _figure(lambda case: case.memory_bytes, formatting.megabytes), "memory_bytes"),
    Column("ready", "ready\nafter", _figure(lambda case: case.ready_s, formatting.seconds)),
    Column("speed", "speed", _figure(lambda case: _mean(case.speed), formatting.share)),
)


def columns_for(shown: Sequence[Summary]) -> list[Column]:
    """Return the columns in which at least one case has a figure.

    Comparisons use the speed-adjusted rate, so that column has the stars if it is shown. All strategies start in about
    the same time, so "ready after" is shown for suites only.
    """
    hidden = {"ready"} if any(summary.task for summary in shown) else set()
    columns = list(FIGURES)
    if is_corrected(shown):
        columns = [replace(column, figure="") if column.name == "trans/s" else column for column in FIGURES]
    else:
        hidden.add("speed-adjusted")
    return [column for column in columns if column.name not in hidden and any(map(column.text, shown))]


def is_corrected(shown: Sequence[Summary]) -> bool:
    """Return whether any rate was adjusted for the speed of the CPUs."""
    return any(summary.rate_at_usual_speed_per_s for summary in shown)


def figures(summary: Summary, columns: Sequence[Column]) -> list[TableCell]:
    """Return the cells of a case that has numbers."""
    return [column.cell(summary) for column in columns]
