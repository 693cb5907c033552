"""Describe timelines in sentences, and draw them with block characters."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.judge.case_names import in_brief, in_plain_words, with_name, without_capital
from under_siege.record.record import Result
from under_siege.show.notes import of_traces
from under_siege.trace.timeline import NOT_REPORTED, Bar, Timeline, TimelinePattern, axis_end_s, grouped, timelines

_MOST_NAMES = 3  # maximum number of names in line 1 of the headline; if exceeded, it counts them, and line 2 lists them
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
HOW_TO_READ = (
    "Each bar is a request, in the lane of its worker. Faint blue: it waits for its turn. Strong blue: its task "
    "computes. Yellow: its response is ready but not yet sent. The numbers show the order in which the tasks started. "
    "Where the strong blue is broken or fainter, another process used the core. Below are pings, one every 25 ms; each "
    "line is as long as its ping took."
)
GIL_EXPLANATION = (
    "Why do threads compute one at a time, although there are several cores? Each Python process has a lock, the GIL "
    "(global interpreter lock), and only the thread that holds it can run Python code. The event loop runs in such a "
    "thread, so pings wait even if each task has its own thread. Threads switch every few milliseconds, but in no fair "
    "order, and the loop competes for the lock at each step of a ping: to accept, to read, and to answer. Each process "
    "has its own lock, so two processes can compute at the same moment."
)


def full_name(timeline: Timeline, *, is_narrow: bool = False, is_plain: bool = False) -> str:
    """Return the name in plain words, the file name (only its number if `is_narrow` or `is_plain`) and the settings."""
    plain = in_plain_words(timeline.server, timeline.title)
    if is_plain:
        brief = in_brief(timeline.server, timeline.server, timeline.title)
        name = plain if brief == timeline.server else brief
    else:
        name = with_name(plain, timeline.server, is_narrow=is_narrow)
    return " · ".join([name, *timeline.settings])


def heading(kind: TimelinePattern, members: Sequence[Timeline]) -> str:
    """Return the heading of a group of timelines, such as `Two at once, and pings are quick`."""
    if kind.is_failed:
        return "Failed"
    if kind.is_crowded:
        return f"Other programs {_too_crowded(members)}"
    if kind.is_parallel is None:
        pings = "pings wait for tasks" if kind.is_stuck else "pings are quick"
        return f"Unknown whether tasks ran in parallel; {pings}"
    if not kind.is_parallel:
        return f"One at a time, {'and pings wait until all are done' if kind.is_stuck else 'but pings are quick'}"
    pings = "but pings queue with the tasks" if kind.is_stuck else "and pings are quick"
    counts = sorted({count for timeline in members if (count := timeline.parallelism)})
    numbers = [_NUMBERS[count] if count < len(_NUMBERS) else str(count) for count in counts]
    return f"{' to '.join(dict.fromkeys([numbers[0], numbers[-1]])).capitalize()} at once, {pings}"


def _too_crowded(members: Sequence[Timeline]) -> str:
    """Return the rest of a sentence that begins with `other programs`."""
    shares = sorted(timeline.other_work or 0.0 for timeline in members)
    used = " to ".join(dict.fromkeys([formatting.share(shares[0]), formatting.share(shares[-1])]))
    return f"used {used} of the CPUs, so this trace can't show whether tasks ran in parallel"


def summary_line(timeline: Timeline, *, is_short: bool = False) -> str:
    """Return a line with the facts about a timeline that the heading of its group does not show."""
    if timeline.failure:
        return f"failed: {timeline.failure}"
    longest_ping = formatting.seconds(timeline.longest_ping_s)
    facts = [f"all {len(timeline.bars)} answered after {formatting.seconds(timeline.done_s)}"]
    if is_short:
        return f"{facts[0]}; pings ≤ {longest_ping}"
    if timeline.is_unreported:
        facts.append(NOT_REPORTED)
    elif timeline.pattern.is_crowded:
        facts.append(f"other programs {_too_crowded([timeline])}")
    elif timeline.parallelism is None:
        facts.append("tasks paused, or other programs used the cores")
    if timeline.takes_turns:
        facts.append("tasks take turns")
    if late_s := timeline.longest_late_s:
        facts.append(f"a response was ready {formatting.seconds(late_s)} before it was sent")
    if timeline.pings:
        facts.append(f"pings took up to {longest_ping}")
    return "; ".join(facts)


def headline(drawn: Sequence[Timeline]) -> str:
    groups = grouped(drawn)
    kind, members = groups[0]
    crowded = [timeline for timeline in drawn if timeline.pattern.is_crowded]
    if crowded and (not kind.is_parallel or kind.is_stuck):
        return f"{', '.join(timeline.name for timeline in crowded)}: other programs {_too_crowded(crowded)}"
    if len(groups) == 1:
        return heading(kind, members)
    if not kind.is_parallel or kind.is_stuck:
        return "No strategy here both runs tasks in parallel and keeps pings quick"
    names = formatting.listed([full_name(timeline, is_plain=True) for timeline in members])
    if len(members) > _MOST_NAMES:
        return f"{len(members)} of {len(drawn)} servers: {without_capital(heading(kind, members))}\n{names}"
    return f"{heading(kind, members)}: {names}"


def missing(result: Result) -> list[str]:
    """Return a sentence for each strategy that could not be traced."""
    return [
        f"{with_name(in_plain_words(each.server, each.title), each.server)} is not drawn: it {each.reason}"
        for each in result.left_out
    ]


def request_sentence(timeline: Timeline, number: int) -> str:
    bar, worker = next((bar, lane.worker) for lane in timeline.lanes for bar in lane.bars if bar.number == number)
    answered = f"answered {formatting.seconds(bar.answered_s - bar.sent_s)} after it was sent"
    if bar.done_s is None:
        return f"Request {number} was {answered}; {NOT_REPORTED}."
    start_s = bar.spans[0].from_s
    pauses = "without a pause" if len(bar.spans) == 1 else f"in {len(bar.spans)} parts"
    late = f"; the response was ready {formatting.seconds(bar.late_s)} earlier" if bar.late_s > 0.0005 else ""
    waits_s = [ping.waited_s for ping in timeline.pings if start_s <= ping.due_s <= bar.done_s]
    pings = f" Pings that were due while the task ran took up to {formatting.seconds(max(waits_s))}." if waits_s else ""
    return (
        f"Request {number} waited {formatting.seconds(max(0.0, start_s - bar.sent_s))} for its turn on {worker}. "
        f"Its task took {formatting.seconds(bar.done_s - start_s)}, {pauses}, "
        f"and used {formatting.seconds(bar.cpu_s)} of CPU time. "
        f"It was {answered}{late}.{pings}"
    )


_COMPUTING, _WAITING, _LATE, _PINGS = "bold blue", "bright_black", "yellow", "dark_orange3"
_SHADES = ((0.75, "█"), (0.35, "▓"), (0.03, "▒"))  # minimum CPU time as a share of wall time, and its character
_UNREPORTED, _QUEUED, _ELSEWHERE, _READY = "┄", "░", "·", "="
_HEIGHTS = "▁▂▃▄▅▆▇█"
_MARGIN, _LEAST, _NARROW = 9, 14, 60  # columns
_WIDTH_OF_STEPS = 80
LEGEND = (
    "█ computes",
    "▓▒ shares a core with other tasks or programs",
    f"{_QUEUED} waits for its turn",
    f"{_ELSEWHERE} waits for something other than a core",
    f"{_READY} response ready, not yet sent",
    "1 2 3 order in which tasks started",
    "▁█ a ping: the taller, the longer it took",
)


class TimelinesAsText:
    """A text chart, as wide as the terminal, of all timelines grouped by pattern or side by side."""

    def __init__(self, result: Result, *, side_by_side: bool = False) -> None:
        self._result, self._is_side_by_side, self._timelines = result, side_by_side, timelines(result.traces)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        scale = _scale(self._timelines)
        if self._is_side_by_side:
            yield _side_by_side(self._timelines, scale)
        for _, members in [] if self._is_side_by_side else grouped(self._timelines):
            if title := _group_heading(members):
                yield Text(f"{title}\n", style="bold cyan")
            for timeline in members:
                yield from (_Chart(timeline, scale), Text())
        for text in missing(self._result):
            yield Text(f"{text}\n", style="cyan")
        unreported = [f"{_UNREPORTED} not reported"] if any(each.is_unreported for each in self._timelines) else []
        yield Text(_filled([*LEGEND, *unreported], options.max_width), style="dim")
        yield Text(of_traces(self._result), style="dim")


def steps(result: Result, *, side_by_side: bool = False) -> Iterator[RenderableType]:
    """Yield the legend and then, for each request, the chart up to that request and a sentence about it."""
    drawn = timelines(result.traces)
    yield Text(f"{_filled(LEGEND, _WIDTH_OF_STEPS)}\n{of_traces(result)}\n", style="dim")
    for together in [drawn] if side_by_side else [[timeline] for timeline in drawn]:
        for number in range(1, max((len(timeline.bars) for timeline in together), default=0) + 1):
            sentences = [
                Text((f"{full_name(timeline)}: " if len(together) > 1 else "") + request_sentence(timeline, number))
                for timeline in together
                if number <= len(timeline.bars)
            ]
            yield Group(_side_by_side(together, _scale(drawn), number), *sentences, Text())


def _filled(items: Sequence[str], width: int) -> str:
    """Arrange the items in lines of at most `width` characters without breaking any item."""
    text = "   ".join(item.replace(" ", "\xa0") for item in items)
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False).replace("\xa0", " ")


def _scale(drawn: Sequence[Timeline]) -> tuple[float, float]:
    """Return the common scale in seconds: the end of the time axis, and the ping latency drawn at full height."""
    end_s = axis_end_s(drawn)
    return end_s, max([end_s / 4, *(timeline.longest_ping_s for timeline in drawn)])


def _side_by_side(drawn: Sequence[Timeline], scale: tuple[float, float], last: int | None = None) -> RenderableType:
    if len(drawn) == 1:
        return _Chart(drawn[0], scale, last)
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in drawn:
        grid.add_column(ratio=1)
    grid.add_row(*(Group(Text(_group_heading([each]), style="bold cyan"), _Chart(each, scale, last)) for each in drawn))
    return grid


def _group_heading(members: Sequence[Timeline]) -> str:
    kind = members[0].pattern
    is_unknown = kind.is_parallel is None and not kind.is_failed and not kind.is_crowded
    return "" if is_unknown else heading(kind, members)


class _Chart:
    """A text chart of one timeline, up to the request with the number `last` unless `last` is None."""

    def __init__(self, timeline: Timeline, scale: tuple[float, float], last: int | None = None) -> None:
        self._timeline, self._last = timeline, last
        self._end_s, self._tallest_s = scale

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        timeline = self._timeline
        self._label_width = 14 if options.max_width > _NARROW else 11
        self._columns = max(_LEAST, options.max_width - self._label_width - _MARGIN)
        self._column_s = self._end_s / self._columns
        yield Text(full_name(timeline), style="bold")
        if self._last is None or timeline.failure:
            yield Text(summary_line(timeline), style="red" if timeline.failure else "")
        if timeline.failure:
            return
        if timeline.is_unreported:
            yield Text(f"{NOT_REPORTED}: {_UNREPORTED} is the time from a request to its response", style="cyan")
        for lane in timeline.lanes:
            for index, bar in enumerate(lane.bars):
                line = self._labelled("" if index else lane.worker)
                yield line.append_text(self._bar(bar)) if self._last is None or bar.number <= self._last else line
        yield self._labelled("pings").append_text(self._pings())
        yield self._axis()

    def _labelled(self, label: str) -> Text:
        return Text(f"{label[: self._label_width - 1]:{self._label_width}}", no_wrap=True)

    def _bar(self, bar: Bar) -> Text:
        first, last = self._column(bar.sent_s), self._column(bar.answered_s)
        done = last if bar.done_s is None else max(self._column(bar.spans[0].from_s), self._column(bar.done_s))
        line = Text(" " * first)
        for column in range(first, last + 1):
            from_s = column * self._column_s
            share = bar.cpu_share_between(from_s, from_s + self._column_s)
            pause, style = _QUEUED if bar.spans else _UNREPORTED, _WAITING
            if any(since <= from_s + self._column_s / 2 < to for since, to in bar.io_waits):
                pause = _ELSEWHERE
            if bar.spans and column > done:
                pause, style = _READY, _LATE
            shade = next((shade for least, shade in _SHADES if share >= least), pause)
            line.append(shade, style=style if shade == pause else _COMPUTING)
        return line.append(f" {bar.number}")

    def _pings(self) -> Text:
        """Return a line of bars, each as tall as the longest latency of the pings that were due in its column."""
        marks = {
            self._column(ping.due_s): _HEIGHTS[min(7, int(8 * ping.waited_s / self._tallest_s))]
            for ping in sorted(self._timeline.pings, key=lambda ping: ping.waited_s)
            if ping.due_s >= 0
        }
        line = "".join(marks.get(column, " ") for column in range(self._columns))
        return Text(f"{line} {formatting.seconds(self._timeline.longest_ping_s)}", style=_PINGS)

    def _axis(self) -> Text:
        line = " " * self._label_width
        for at_s in formatting.ticks(self._end_s, self._columns // 12):
            column = self._label_width + self._column(at_s)
            if column >= len(line):
                line = f"{line:{column}}{formatting.seconds(at_s) if at_s else '0'}  "
        return Text(line.rstrip(), style="dim", no_wrap=True)

    def _column(self, at_s: float) -> int:
        return min(self._columns - 1, max(0, int(at_s / self._column_s)))
