"""The timelines in words and as blocks of characters: below each other, beside each other, or step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.record import Result
from under_siege.report.labels import in_plain_words, with_name
from under_siege.report.notes import of_traces
from under_siege.trace.timeline import (
    UNTOLD,
    Bar,
    Pattern,
    Timeline,
    at_once,
    bars_of,
    computed_s,
    end_s,
    grouped,
    longest_late_s,
    pattern,
    take_turns,
    timelines,
    waits_elsewhere,
)

_MOST_NAMES = 3  # in a title
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
HOW = (
    "A bar is a request, in the lane of the worker that had it: pale blue while it waits for its turn, strong blue "
    "while its task computes, yellow while its answer is ready but not yet sent; the numbers say in which order they "
    "were begun. Where the strong blue is broken or paler, something else had the core. "
    "Below are pings, one every 25 ms: each line is as long as that ping had to wait."
)

GIL = (
    "Why do threads compute one at a time, though there are several cores? Each Python process has a lock, the GIL "
    "(global interpreter lock), and only the thread that holds it can run Python code. "
    "The event loop is such a thread, too, so that pings wait even where each task has a thread of its own: threads "
    "change places every few milliseconds, but nobody sees to it that they do so in turn, and for each step of a ping "
    "(to accept, to read, to answer) the loop has to get the lock anew, against all that compute. "
    "Every process has a lock of its own, so that two of them compute at the same moment."
)


def name_of_timeline(one: Timeline, *, is_narrow: bool = False) -> str:
    """In plain words, with the name of its file, and what it was traced with."""
    server, *differing = one.name.split(" · ")
    told = with_name(in_plain_words(server, one.title), server, is_narrow=is_narrow)
    return " · ".join([told, *differing])


def plain_name_of_timeline(one: Timeline) -> str:
    server, *differing = one.name.split(" · ")
    return " · ".join([in_plain_words(server, one.title), *differing])


def heading(kind: Pattern, members: Sequence[Timeline]) -> str:
    """Of a group: `Two at once, and pings are quick`."""
    if kind.is_failed:
        return "Failed"
    if kind.is_crowded:
        return f"Other work {_too_crowded(members)}"
    if kind.at_once is None:
        pings = "pings have to wait for it" if kind.is_stuck else "pings are quick"
        return f"Whether one computes at a time or more can't be told; {pings}"
    if not kind.at_once:
        return f"One at a time, {'and pings are stuck until it is over' if kind.is_stuck else 'but nobody is stuck'}"
    pings = "but pings stand in line with the tasks" if kind.is_stuck else "and pings are quick"
    counts = sorted({count for one in members if (count := at_once(one))})
    return f"{_count(counts).capitalize()} at once, {pings}"


def _too_crowded(members: Sequence[Timeline]) -> str:
    """Continue the sentence `other work …`."""
    shares = sorted(one.other_work or 0.0 for one in members)
    low, high = formatting.share(shares[0]), formatting.share(shares[-1])
    used = low if low == high else f"{low} to {high}"
    return f"used {used} of the CPUs, so this trace can't show whether tasks ran in parallel"


def _count(counts: Sequence[int]) -> str:
    words = [_NUMBERS[count] if count < len(_NUMBERS) else str(count) for count in counts]
    return words[0] if len(words) == 1 else f"{words[0]} to {words[-1]}"


def in_a_line(one: Timeline) -> str:
    """What this one shows beside what its group has in common."""
    if one.failure:
        return f"failed: {one.failure}"
    told = [f"all {one.requests} answered after {formatting.seconds(one.done_s)}"]
    if one.is_untold:
        told.append(UNTOLD)
    elif pattern(one).is_crowded:
        told.append(f"other work {_too_crowded([one])}")
    elif at_once(one) is None:
        told.append("the task waits in between, or something else had the cores")
    if take_turns(one):
        told.append("tasks take turns")
    if late_s := longest_late_s(one):
        told.append(f"an answer was ready {formatting.seconds(late_s)} before it was sent")
    if one.pings:
        told.append(f"pings took up to {formatting.seconds(one.longest_ping_s)}")
    return "; ".join(told)


def in_short(one: Timeline) -> str:
    if one.failure:
        return f"failed: {one.failure}"
    done, longest = formatting.seconds(one.done_s), formatting.seconds(one.longest_ping_s)
    return f"all {one.requests} answered after {done}; pings ≤ {longest}"


def headline(drawn: Sequence[Timeline]) -> str:
    found = grouped(drawn)
    kind, members = found[0]
    crowded = [one for each, several in found if each.is_crowded for one in several]
    if crowded and (not kind.at_once or kind.is_stuck):
        return f"{', '.join(one.name for one in crowded)}: other work {_too_crowded(crowded)}"
    if len(found) == 1:
        return heading(kind, members)
    if kind.at_once and not kind.is_stuck:
        names = [plain_name_of_timeline(one) for one in members]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        count = "" if len(names) <= _MOST_NAMES else f"{len(names)} of {len(drawn)}\n"
        return f"{heading(kind, members)}: {count}{who}"
    return f"None of these computes several at once and keeps pings quick: {_NUMBERS[len(found)]} ways to wait"


def fate(bar: Bar, worker: str, one: Timeline) -> str:
    answered = f"answered {formatting.seconds(bar.answered_s - bar.sent_s)} after it was sent"
    if bar.done_s is None:
        return f"Request {bar.number}: {answered}; {UNTOLD}."
    waited = formatting.seconds(max(0.0, bar.ran[0].from_s - bar.sent_s))
    lasted_s, used_s = bar.done_s - bar.ran[0].from_s, computed_s(bar)
    pauses = "without a pause" if len(bar.ran) == 1 else f"in {len(bar.ran)} stretches"
    late = f", and lay ready for {formatting.seconds(late_s)}" if (late_s := bar.late_s or 0.0) > 0.0005 else ""
    meanwhile = [ping.until_s - ping.due_s for ping in one.pings if bar.ran[0].from_s <= ping.due_s <= bar.done_s]
    pings = (
        f" A ping that was due while it was in hand took up to {formatting.seconds(max(meanwhile))}."
        if meanwhile
        else ""
    )
    return (
        f"Request {bar.number} waited {waited} for its turn on {worker}, computed {formatting.seconds(used_s)} within "
        f"{formatting.seconds(lasted_s)}, {pauses}{late}: {answered}.{pings}"
    )


def missing(result: Result) -> list[str]:
    """Who is not drawn, and why."""
    return [
        f"{with_name(in_plain_words(one.server, one.title), one.server)} is not drawn: it {one.reason}"
        for one in result.left_out
    ]


def fates(one: Timeline) -> list[str]:
    found = [(bar.number, fate(bar, lane.worker, one)) for lane in one.lanes for bar in lane.bars]
    assert len(found) == len(bars_of(one))
    return [told for _, told in sorted(found)]


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
        to_s = end_s(drawn)
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
            if said := _group_heading(members):
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
            yield Group(_beside(together, scale, number), *_fates(together, number), Text())


def _in_lines(several: Sequence[str], width: int) -> str:
    lines = [""]
    for text in several:
        beside = f"{lines[-1]}   {text}".lstrip()
        if len(beside) > width:
            lines.append(text)
        else:
            lines[-1] = beside
    return "\n".join(lines)


def _fates(drawn: Sequence[Timeline], number: int) -> Iterator[Text]:
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
    grid.add_row(*(Group(Text(_group_heading([one]), style="bold cyan"), _Lines(one, scale, most)) for one in drawn))
    return grid


def _group_heading(members: Sequence[Timeline]) -> str:
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
        for at_s in formatting.ticks(self._scale.to_s, self._columns // 12):
            column = self._label + self._column(at_s)
            if column >= len(line):
                line = f"{line:{column}}{formatting.seconds(at_s) if at_s else '0'}  "
        return Text(line.rstrip(), style="dim", no_wrap=True)

    def _column(self, at_s: float) -> int:
        return min(self._columns - 1, max(0, int(at_s / self._column_s)))
