"""Draw a chart of timelines with a common time axis, either grouped by pattern or side by side."""

import textwrap
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from under_siege import formatting
from under_siege.show.canvas import Drawing, Sheet, Theme, quantity
from under_siege.trace.timeline import Bar, Timeline, TimelinePattern, axis_end_s, grouped
from under_siege.trace.timeline_text import full_name, heading, summary_line

_BAR, _LANE_GAP, _PING, _GAP, _LINE = 11, 5, 2.5, 14, 16  # pixels
_BARS_OF_A_SLIDE = (11, 9, 8, 7, 6, 5, 4, 3)  # heights of a bar in pixels; the first that fits is used
_LABEL = 11  # height in pixels that is reserved for each label, so that labels don't overlap
_COLUMN_GAP = 24
_PING_ROWS, _PING_ROWS_OF_A_SLIDE = 12, 6
_LETTER = 6.3  # approximate width of a letter in pixels
_MOST_PANELS = 4  # maximum number of panels on a slide, unless several columns are requested
_LEGEND = {
    "waits for its turn": "waiting",
    "waits for something other than a core": "elsewhere",
    "computes": "computing",
    "response ready, not yet sent": "late",
    "ping, as long as it took": "pings",
    "not reported": "unreported",
}
_NOTE = "1, 2, 3: the order in which tasks started. Broken or fainter blue: another process used the core."


class _Canvas:
    """Collect the data rows for each layer of the chart, with positions in pixels."""

    def __init__(self, theme: Theme, end_s: float, columns: int, bar: float) -> None:
        self.theme, self._end_s, self._columns, self._bar = theme, end_s, columns, bar
        self._margin = 92 if columns == 1 else 62
        self._wide = (theme.width - 8 - _COLUMN_GAP * (columns - 1)) / columns
        self._left, self.height = 0.0, 0.0
        self._ticks = formatting.ticks(end_s, int((self._wide - self._margin) / 62))
        self.rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def legend(self, unused: Collection[str]) -> None:
        x, y = 0.0, 4.0
        for text, layer in _LEGEND.items():
            if layer in unused:
                continue
            width = 24 + _LETTER * len(text) + 14
            if x and x + width > self.theme.width:
                x, y = 0.0, y + _LINE
            is_line = layer in ("pings", "unreported", "elsewhere")
            span = {"y": y + _BAR / 2} if is_line else {"y": y, "y2": y + _BAR, "share": 1}
            self.rows[layer].append({"x": x, "x2": x + 18, **span})
            self._text("legend", x + 24, y + _BAR / 2, text)
            x += width
        self.height = y + _LINE + 8
        if not self.theme.is_slide:
            self.note(_NOTE)
            self.height += 6

    def group(self, kind: TimelinePattern, members: Sequence[Timeline]) -> None:
        self._lines("groups", heading(kind, members), 9.2, 20, middle=10)
        self.height += 6
        for timeline in members:
            self.panel(timeline, 0)

    def panels(self, drawn: Sequence[Timeline]) -> None:
        for first in range(0, len(drawn), self._columns):
            top, bottoms = self.height, []
            for column, timeline in enumerate(drawn[first : first + self._columns]):
                self.height = top
                self.panel(timeline, column)
                bottoms.append(self.height)
            self.height = max(bottoms)

    def panel(self, timeline: Timeline, column: int) -> None:
        self._left = column * (self._wide + _COLUMN_GAP)
        name = full_name(timeline, is_narrow=self.theme.is_narrow, is_plain=self.theme.is_slide)
        self._lines("names", name, 7.4, _LINE, middle=7)
        if self._columns > 1:
            self._lines("results", heading(timeline.pattern, [timeline]), _LETTER * 0.95, 0.9 * _LINE)
        summary = summary_line(timeline, is_short=self._columns > 1)
        self._lines("results", summary, _LETTER * 0.95, 0.9 * _LINE)
        if not timeline.failure:
            self._lanes(timeline)
        self.height += _GAP

    def _lanes(self, timeline: Timeline) -> None:
        self.height += _LINE
        top = self.height
        for lane in timeline.lanes:
            below_label = self.height + _LABEL
            self._label(lane.worker)
            for bar in lane.bars:
                self._request(bar)
            self.height = max(self.height, below_label) + _LANE_GAP * self._bar / _BAR
        if timeline.pings:
            self._pings(timeline)
        for at_s in self._ticks:
            x, text = self._x(at_s), formatting.seconds(at_s) if at_s else "sent"
            self.rows["ticks"].append({"x": x, "y": top - 7, "text": text})
            self.rows["grid"].append({"x": x, "y": top, "y2": self.height})

    def _request(self, bar: Bar) -> None:
        edges, middle = {"y": self.height, "y2": self.height + self._bar - 1}, self.height + self._bar / 2
        sent, answered = self._x(bar.sent_s), self._x(bar.answered_s)
        if bar.done_s is None:
            self.rows["unreported"].append({"x": sent, "x2": answered, "y": middle})
        else:
            done = self._x(bar.done_s)
            changes = [sent, *(self._x(at_s) for span in sorted(bar.io_waits) for at_s in span), done]
            for since, to in zip(changes[::2], changes[1::2], strict=True):
                self.rows["waiting"].append({**edges, "x": since, "x2": to})
            for since, to in zip(changes[1:-1:2], changes[2:-1:2], strict=True):
                self.rows["elsewhere"].append({"x": since, "x2": to, "y": middle})
            if answered - done > 0.5:
                self.rows["late"].append({**edges, "x": done, "x2": answered})
        for span in bar.spans:
            row = {**edges, "x": self._x(span.from_s), "x2": self._x(span.to_s)}
            self.rows["computing"].append({**row, "share": 0.6 if span.share is None else span.share})
        if self._bar >= 8:
            self.rows["numbers"].append({"y": middle, "x": answered + 3, "text": str(bar.number)})
        self.height += self._bar

    def _pings(self, timeline: Timeline) -> None:
        """Draw each ping as a line, and distribute the lines over several rows so that they don't overlap."""
        self._label(f"pings ≤ {formatting.seconds(timeline.longest_ping_s)}" if self._columns == 1 else "pings")
        max_rows = _PING_ROWS_OF_A_SLIDE if self.theme.is_slide else _PING_ROWS
        step = max(3.2, 4.0 * self._bar / _BAR)
        free_at_s: list[float] = []
        for ping in (ping for ping in timeline.pings if ping.due_s >= 0):
            row = next((row for row, free_s in enumerate(free_at_s) if free_s < ping.due_s), len(free_at_s))
            end_s = ping.due_s + ping.waited_s
            free_at_s[row : row + 1] = [end_s + 0.004]
            y = self.height + 4 + step * (row % max_rows)
            self.rows["pings"].append({"y": y, "x": self._x(ping.due_s), "x2": self._x(end_s)})
        self.height += max(self._bar, 8 + step * min(len(free_at_s), max_rows))

    def note(self, text: str) -> None:
        self._left = 0.0
        self._lines("results", text, _LETTER, _LINE)

    def _lines(self, layer: str, text: str, letter: float, line_height: float, middle: float = 6) -> None:
        for line in textwrap.wrap(text, max(12, int(self._wide / letter))):
            self._text(layer, 0, self.height + middle, line)
            self.height += line_height

    def _label(self, text: str) -> None:
        self._text("labels", self._margin - 6, self.height + max(self._bar, 9) / 2, text)

    def _x(self, at_s: float) -> float:
        return self._left + self._margin + at_s * ((self._wide - self._margin - 16) / self._end_s)

    def _text(self, layer: str, x: float, y: float, text: str) -> None:
        self.rows[layer].append({"x": self._left + x, "y": y, "text": text})


def timeline_chart(drawn: Sequence[Timeline], theme: Theme, columns: int = 1, missing: Sequence[str] = ()) -> Drawing:
    """Draw timelines grouped by pattern or, if there are several columns, side by side.

    A slide shows one timeline from each group (or the first few of a single group), as large as possible, or all
    timelines if there are several columns.

    Args:
        missing: a sentence for each strategy that could not be traced, shown below the groups, but not on slides.
    """
    if theme.is_slide and len(drawn) > 1:
        groups = [members for _, members in grouped(drawn)]
        if columns > 1:
            drawn = [timeline for members in groups for timeline in members]
        elif len(groups) == 1:
            drawn = drawn[:_MOST_PANELS]
        else:  # the fastest timeline of a group shows its pattern best
            drawn = [min(members, key=lambda timeline: timeline.done_s) for members in groups[:_MOST_PANELS]]
        columns = 2 if theme.width > theme.height * 1.1 and len(drawn) > 1 else columns  # type: ignore[operator]
    for bar in _BARS_OF_A_SLIDE if theme.is_slide else (_BAR,):
        canvas = _canvas(drawn, theme, columns, bar, missing)
        if theme.height is None or canvas.height <= theme.height:
            break
    return _as_drawing(canvas)


def _canvas(drawn: Sequence[Timeline], theme: Theme, columns: int, bar: float, missing: Sequence[str]) -> _Canvas:
    canvas = _Canvas(theme, axis_end_s(drawn), columns, bar)
    used = {
        "late": any(each.late_s > 0.0005 for timeline in drawn for each in timeline.bars),
        "unreported": any(timeline.is_unreported for timeline in drawn),
        "elsewhere": any(bar.io_waits for timeline in drawn for bar in timeline.bars),
    }
    canvas.legend([layer for layer, is_used in used.items() if not is_used])
    if columns == 1 and not theme.is_slide:
        for kind, members in grouped(drawn):
            canvas.group(kind, members)
        for text in missing:
            canvas.note(text)
    else:
        canvas.panels(drawn)
    return canvas


def _as_drawing(canvas: _Canvas) -> Drawing:
    theme, rows = canvas.theme, canvas.rows
    width = theme.width - 8
    sheet = Sheet(width, canvas.height, {"domain": [0, width], "nice": False}, None)
    share = {"opacity": quantity("share", scale=None)}
    bold: dict[str, Any] = {"align": "left", "fontWeight": "bold", "color": theme.ink}
    dotted: dict[str, Any] = {"color": theme.work, "strokeWidth": 1.5, "strokeDash": [1, 4], "strokeCap": "round"}
    pings: dict[str, Any] = {"color": theme.ping, "strokeWidth": 2 if theme.is_slide else _PING, "strokeCap": "round"}
    return sheet.drawn(
        sheet.posts("grid", rows["grid"], color=theme.grid),
        sheet.bars("waiting", rows["waiting"], color=theme.wait),
        sheet.rules("elsewhere", rows["elsewhere"], **dotted),
        sheet.bars("computing", rows["computing"], share, color=theme.work),
        sheet.bars("late", rows["late"], color=theme.late),
        sheet.rules("unreported", rows["unreported"], color=theme.quiet, strokeWidth=1.5, strokeDash=[3, 3]),
        sheet.rules("pings", rows["pings"], **pings),
        sheet.text("numbers", rows["numbers"], align="left", fontSize=9.5, color=theme.ink),
        sheet.text("labels", rows["labels"], align="right", fontSize=10.5, color=theme.quiet),
        sheet.text("ticks", rows["ticks"], fontSize=10.5, color=theme.quiet),
        sheet.text("groups", rows["groups"], fontSize=15.5, **{**bold, "color": theme.work}),
        sheet.text("names", rows["names"], fontSize=13, **bold),
        sheet.text("results", rows["results"], align="left", fontSize=11.5, color=theme.ink),
        sheet.text("legend", rows["legend"], align="left", fontSize=11.5, color=theme.ink),
    )
