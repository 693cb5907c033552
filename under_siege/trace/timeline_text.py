"""The timelines in the terminal, as blocks of characters: below each other, beside each other, or step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.record import Result
from under_siege.report.notes import of_traces
from under_siege.trace.timeline import UNTOLD, Bar, Timeline, span_s, ticks_s, timelines
from under_siege.trace.timeline_patterns import grouped, pattern, waits_elsewhere
from under_siege.trace.trace_text import fates, heading, in_a_line, missing, name_of_timeline

_COMPUTING, _WAITING, _LATE, _PINGS = "bold blue", "bright_black", "yellow", "dark_orange3"
_SHADES = ((0.75, "█"), (0.35, "▓"), (0.03, "▒"))  # the share of the time from which on each is drawn
_UNTOLD, _WAITS, _ELSEWHERE, _READY = "┄", "░", "·", "="
_HEIGHTS = "▁▂▃▄▅▆▇█"
_MARGIN, _LEAST, _NARROW = 9, 14, 60  # columns
WIDTH = 80  # of what is told line by line
LEGEND = (
    "█ computes",
    "▓▒ takes turns, or other programs had the core",
    f"{_WAITS} waits for its turn",
    f"{_ELSEWHERE} waits for something else, and needs no core",
    f"{_READY} computed, not yet sent",
    "1 2 3 in the order in which they were begun",
    "▁█ a ping, as tall as it had to wait",
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """What all timelines have in common, so that the eye compares."""

    to_s: float
    tallest_s: float

    @classmethod
    def of(cls, drawn: Sequence[Timeline]) -> "_Scale":
        """Where no ping waited long, none looks tall."""
        _, to_s = span_s(drawn)
        return cls(to_s, max([to_s / 4, *(one.longest_ping_s for one in drawn)]))


class TimelinesAsText:
    """All timelines on one axis, as wide as the terminal: grouped by what they show, or beside each other."""

    def __init__(self, result: Result, *, beside: bool = False) -> None:
        self._result, self._beside = result, beside
        self._timelines = timelines(result.traces)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        scale = _Scale.of(self._timelines)
        if self._beside:
            yield _beside(self._timelines, scale)
        else:
            yield from self._groups(scale)
        for text in missing(self._result):
            yield Text(f"{text}\n", style="cyan")
        unknown = [f"{_UNTOLD} not told"] if any(one.is_untold for one in self._timelines) else []
        yield Text(_in_lines([*LEGEND, *unknown], options.max_width), style="dim")
        yield Text(of_traces(self._result), style="dim")

    def _groups(self, scale: _Scale) -> Iterator[RenderableType]:
        for _, members in grouped(self._timelines):
            if said := _heading(members):
                yield Text(f"{said}\n", style="bold cyan")
            for one in members:
                yield _Lines(one, scale)
                yield Text()


def steps(result: Result, *, beside: bool = False) -> Iterator[RenderableType]:
    """Request by request what became of it: each strategy on its own, or all of them beside each other."""
    drawn = timelines(result.traces)
    scale = _Scale.of(drawn)
    yield Text(f"{_in_lines(LEGEND, WIDTH)}\n{of_traces(result)}\n", style="dim")
    for together in [drawn] if beside else [[one] for one in drawn]:
        for number in range(1, max((one.requests for one in together), default=0) + 1):
            yield Group(_beside(together, scale, number), *_told(together, number), Text())


def _in_lines(several: Sequence[str], width: int) -> str:
    """As many beside each other as there is room for."""
    lines = [""]
    for text in several:
        beside = f"{lines[-1]}   {text}".lstrip()
        if len(beside) > width:
            lines.append(text)
        else:
            lines[-1] = beside
    return "\n".join(lines)


def _told(drawn: Sequence[Timeline], number: int) -> Iterator[Text]:
    """The fate of the request with that number in each of them."""
    for one in drawn:
        if number <= one.requests:
            who = f"{name_of_timeline(one)}: " if len(drawn) > 1 else ""
            yield Text(f"{who}{fates(one)[number - 1]}")


def _beside(drawn: Sequence[Timeline], scale: _Scale, most: int | None = None) -> RenderableType:
    if len(drawn) == 1:
        return _Lines(drawn[0], scale, most)
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in drawn:
        grid.add_column(ratio=1)
    grid.add_row(*(Group(Text(_heading([one]), style="bold cyan"), _Lines(one, scale, most)) for one in drawn))
    return grid


def _heading(members: Sequence[Timeline]) -> str:
    """Of those that show the same; nothing where nobody can say what that is."""
    kind = pattern(members[0])
    return heading(kind, members) if kind.at_once is not None or kind.is_failed or kind.is_crowded else ""


class _Lines:
    """One timeline; of requests only the first so many, if a number says so."""

    def __init__(self, one: Timeline, scale: _Scale, most: int | None = None) -> None:
        self._one, self._scale, self._most = one, scale, most

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        one = self._one
        self._label = 14 if options.max_width > _NARROW else 11
        self._columns = max(_LEAST, options.max_width - self._label - _MARGIN)
        self._column_s = self._scale.to_s / self._columns
        self._elsewhere = waits_elsewhere(one.lanes)
        yield Text(name_of_timeline(one), style="bold")
        if self._most is None or one.failure:
            yield Text(in_a_line(one), style="red" if one.failure else "")
        if one.failure:
            return
        if one.is_untold:
            yield Text(f"{UNTOLD}: {_UNTOLD} is from when a request was sent until it was answered", style="cyan")
        for lane in one.lanes:
            for place, bar in enumerate(lane.bars):
                line = self._labelled("" if place else lane.worker)
                yield line.append_text(self._bar(bar)) if self._most is None or bar.number <= self._most else line
        yield self._labelled("pings").append_text(self._pings(one))
        yield self._axis()

    def _labelled(self, label: str) -> Text:
        return Text(f"{label[: self._label - 1]:{self._label}}", no_wrap=True)

    def _bar(self, bar: Bar) -> Text:
        """Waiting and computing column by column, and its number where it ends."""
        line = Text(" " * self._column(bar.sent_s))
        first, last = self._column(bar.sent_s), self._column(bar.answered_s)
        done = last if bar.done_s is None else max(self._column(bar.ran[0].from_s), self._column(bar.done_s))
        for column in range(first, last + 1):
            from_s = column * self._column_s
            share = bar.share_between(from_s, from_s + self._column_s)
            nothing, style = (_UNTOLD, _WAITING) if not bar.ran else (_WAITS, _WAITING)
            if any(since <= from_s + self._column_s / 2 < to for since, to in self._elsewhere.get(bar.number, ())):
                nothing = _ELSEWHERE
            if bar.ran and column > done:
                nothing, style = _READY, _LATE
            shade = next((shade for least, shade in _SHADES if share >= least), nothing)
            line.append(shade, style=style if shade == nothing else _COMPUTING)
        return line.append(f" {bar.number}")

    def _pings(self, one: Timeline) -> Text:
        """For each column the ping that was due in it, and the longest wait behind them."""
        longest_s: dict[int, float] = {}
        for ping in (ping for ping in one.pings if ping.due_s >= 0):
            column = self._column(ping.due_s)
            longest_s[column] = max(ping.until_s - ping.due_s, longest_s.get(column, 0.0))
        line = Text(style=_PINGS)
        for column in range(self._columns):
            line.append(self._mark(longest_s[column]) if column in longest_s else " ")
        return line.append(f" {formatting.seconds(one.longest_ping_s)}")

    def _mark(self, waited_s: float) -> str:
        return _HEIGHTS[min(len(_HEIGHTS) - 1, int(len(_HEIGHTS) * waited_s / self._scale.tallest_s))]

    def _axis(self) -> Text:
        line = " " * self._label
        for at_s in ticks_s(self._scale.to_s, self._columns // 12):
            column = self._label + self._column(at_s)
            if column >= len(line):
                line = f"{line:{column}}{formatting.seconds(at_s) if at_s else '0'}  "
        return Text(line.rstrip(), style="dim", no_wrap=True)

    def _column(self, at_s: float) -> int:
        return min(self._columns - 1, max(0, int(at_s / self._column_s)))
