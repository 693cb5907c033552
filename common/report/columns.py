"""The columns of the comparison: one table model for every dress that it is shown in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from common.report import numbers
from common.report.summary import Summary
from common.report.verdict import OK

Value = Callable[[Summary], float | None]


class Cell(NamedTuple):
    """A figure as it is shown, and whether it is the best of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the summary: what it is called, where it is found, how it is written, and which is the best."""

    name: str
    heading: str  # the same in two lines, under the heading to the left where it begins with a line break
    value: Value
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = None  # None where a best one would not mean anything

    def cell(self, summary: Summary, rivals: Sequence[Summary]) -> Cell:
        """Its figure for one case; best if no rival is written with a better one, and one with a worse."""
        value = self.value(summary)
        if value is None:
            return Cell("")
        text = self.text(value)
        if self.best is None or summary not in rivals:
            return Cell(text)
        known = [other for rival in rivals if (other := self.value(rival)) is not None]
        tells_apart = len({self.text(other) for other in known}) > 1
        return Cell(text, tells_apart and text == self.text(self.best(known)))


class _Rate(Column):
    """The rate is best for all that share the first rank: what can't be told apart is not marked apart."""

    def cell(self, summary: Summary, rivals: Sequence[Summary]) -> Cell:
        plain = super().cell(summary, rivals)
        return Cell(plain.text, summary.rank == 1 and any(rival.rank not in (None, 1) for rival in rivals))


def _of(part: str, name: str) -> Value:
    """A figure that may not be there, such as `_of("ping_s", "p99")`."""

    def value(summary: Summary) -> float | None:
        figure: float | None = getattr(getattr(summary, part), name, None)
        return figure

    return value


def _half_width(summary: Summary) -> float | None:
    rate = summary.rate_per_s
    return None if rate is None or rate.high is None else rate.high - rate.mean


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


FIGURES = (
    Column("rank", "rank", lambda summary: summary.rank, str),
    Column("workers", "workers", lambda summary: summary.workers, str),
    _Rate("trans/s", "trans/s", _of("rate_per_s", "mean"), numbers.rate, max),
    Column("±", "±", _half_width, numbers.margin),
    Column("of ceiling", "of\nceiling", lambda summary: summary.of_ceiling, _percent),
    Column("availability", "avail-\nability", lambda summary: summary.availability_pct, numbers.percent, max),
    Column("response p50", "response\np50", _of("response_s", "p50"), numbers.seconds, min),
    Column("response p99", "\np99", _of("response_s", "p99"), numbers.seconds, min),
    Column("ping p50", "ping\np50", _of("ping_s", "p50"), numbers.seconds, min),
    Column("ping p99", "\np99", _of("ping_s", "p99"), numbers.seconds, min),
    Column("CPU per trans", "CPU per\ntrans", lambda summary: summary.cpu_s_per_transaction, numbers.seconds, min),
    Column("memory", "memory", lambda summary: summary.memory_pss_bytes, numbers.megabytes, min),
)


def figures(summary: Summary, summaries: Sequence[Summary], shown: Sequence[Column]) -> list[Cell]:
    """The cells of a case that has numbers."""
    rivals = [one for one in summaries if one.verdict == OK and (one.task, one.users) == (summary.task, summary.users)]
    return [figure.cell(summary, rivals) for figure in shown]


def varying(summaries: Sequence[Summary]) -> list[str]:
    """Which of task, users and Python differ between the cases, and so need a column."""
    return [name for name in ("task", "users", "python") if len({getattr(one, name) for one in summaries}) > 1]


def name_of(case: Summary, cases: Sequence[Summary]) -> str:
    """The server, and the Python where the cases differ in it."""
    return f"{case.server} on {case.python}" if "python" in varying(cases) else case.server
