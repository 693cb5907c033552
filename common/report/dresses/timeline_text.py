"""The timelines in the terminal, as blocks of characters."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from common.model.record import Result
from common.report import numbers
from common.report.figures.timeline import UNTOLD, Bar, Timeline, span_s, timelines

_COMPUTING, _WAITING, _PINGS = "bold blue", "bright_black", "dark_orange3"
_SHADES = ((0.75, "█"), (0.35, "▓"), (0.08, "▒"))  # the share of the time from which on each is drawn
_UNTOLD = "┄"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_LABEL, _MARGIN, _LEAST = 14, 9, 30  # columns


class TimelinesAsText:
    """All timelines below each other on one axis, as wide as the terminal."""

    def __init__(self, result: Result) -> None:
        self._timelines, self._left_out = timelines(result.traces), result.left_out
        self._from_s, self._to_s = span_s(self._timelines)
        # Where no ping waited long, none shall look tall.
        least_s = (self._to_s - self._from_s) / 4
        self._tallest_s = max([least_s, *(one.longest_ping_s for one in self._timelines)])

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        self._columns = max(_LEAST, options.max_width - _LABEL - _MARGIN)
        self._column_s = (self._to_s - self._from_s) / self._columns
        for one in self._timelines:
            yield Text(f"{one.name}: {one.title}", style="bold", no_wrap=True, overflow="ellipsis")
            yield from self._lines(one)
            yield Text()
        for left_out in self._left_out:
            yield Text(
                f"{left_out.server}: not run under Python {left_out.python}: it {left_out.reason}\n", style="cyan"
            )
        yield self._axis()
        unknown = f"   {_UNTOLD} not told" if any(one.is_untold for one in self._timelines) else ""
        yield Text(
            f"█ computes   ▓▒ takes turns   ░ waits{unknown}   ▁█ a ping, as tall as it had to wait", style="dim"
        )

    def _lines(self, one: Timeline) -> Iterator[Text]:
        if one.failure:
            yield Text(f"failed: {one.failure}", style="red")
            return
        if one.is_untold:
            yield Text(f"{UNTOLD}: {_UNTOLD} is from when a request was sent until it was answered", style="cyan")
        for lane in one.lanes:
            for place, bar in enumerate(lane.bars):
                yield self._labelled("" if place else lane.worker).append_text(self._bar(bar))
        yield self._labelled("pings").append_text(self._pings(one))

    def _labelled(self, label: str) -> Text:
        return Text(f"{label[: _LABEL - 1]:{_LABEL}}", no_wrap=True)

    def _bar(self, bar: Bar) -> Text:
        """Waiting and computing column by column, and its number where it ends."""
        line = Text(" " * self._column(bar.sent_s))
        for column in range(self._column(bar.sent_s), self._column(bar.answered_s) + 1):
            from_s = self._from_s + column * self._column_s
            share = bar.share_between(from_s, from_s + self._column_s)
            nothing = "░" if bar.ran else _UNTOLD
            shade = next((shade for least, shade in _SHADES if share >= least), nothing)
            line.append(shade, style=_WAITING if shade == nothing else _COMPUTING)
        return line.append(f" {bar.number}")

    def _pings(self, one: Timeline) -> Text:
        """For each column the ping that was due in it, and the longest wait behind them."""
        longest_s: dict[int, float] = {}
        for ping in one.pings:
            column = self._column(ping.due_s)
            longest_s[column] = max(ping.until_s - ping.due_s, longest_s.get(column, 0.0))
        line = Text(style=_PINGS)
        for column in range(self._columns):
            line.append(self._mark(longest_s[column]) if column in longest_s else " ")
        return line.append(f" {numbers.seconds(one.longest_ping_s)}")

    def _mark(self, waited_s: float) -> str:
        return _HEIGHTS[min(len(_HEIGHTS) - 1, int(len(_HEIGHTS) * waited_s / self._tallest_s))]

    def _axis(self) -> Text:
        line = " " * _LABEL
        for at_s in _ticks(self._from_s, self._to_s, self._columns // 12):
            column = _LABEL + self._column(at_s)
            if column >= len(line):
                line = f"{line:{column}}{numbers.seconds(at_s) if at_s else '0'}  "
        return Text(line.rstrip(), style="dim")

    def _column(self, at_s: float) -> int:
        return min(self._columns - 1, max(0, int((at_s - self._from_s) / self._column_s)))


def _ticks(from_s: float, to_s: float, most: int) -> Sequence[float]:
    """Round times from when the requests were sent, at most so many between the two."""
    steps = (factor * 10.0**power for power in range(-4, 4) for factor in (1, 2, 5))
    step_s = next((step for step in steps if (to_s - from_s) / step <= max(1, most)), to_s)
    return [number * step_s for number in range(int(to_s / step_s) + 1)]
