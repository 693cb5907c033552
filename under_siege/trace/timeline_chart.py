"""Who computed when: timelines below or beside each other on the same axis, grouped by what they show."""

import textwrap
from collections.abc import Collection, Sequence
from typing import Any

from under_siege import formatting
from under_siege.charts.canvas import Drawing, Look, Sheet, quantity
from under_siege.trace.timeline import Bar, Pattern, Timeline, end_s, grouped, pattern, waits_elsewhere
from under_siege.trace.timeline_text import heading, in_a_line, in_short, name_of_timeline, plain_name_of_timeline

_BAR, _LANE_GAP, _PING, _GAP, _LINE = 11, 5, 2.5, 14, 16  # pixels
_BARS_OF_A_SLIDE = (11, 9, 8, 7, 6, 5, 4, 3)
_LABEL = 11  # the height of one, so that no two stand in each other
_BETWEEN = 24  # two panels
_PING_ROWS, _PING_ROWS_OF_A_SLIDE = 12, 6
_LETTER = 6.3  # pixels, about
_MOST_PANELS = 4  # of a slide
_LEGEND = {
    "waits for its turn": "waiting",
    "waits for something else, and needs no core": "elsewhere",
    "computes": "computing",
    "computed, not yet sent": "late",
    "ping, as long as it took": "pings",
    "not told": "untold",
}
_BESIDE_THE_LEGEND = (
    "1, 2, 3: the order in which they were begun. Broken or paler blue: something else had the core for a moment."
)
_LAYERS = ("grid", "waiting", "elsewhere", "computing", "late", "untold", "pings", "numbers", "labels")
_TEXTS = ("names", "groups", "results", "ticks", "legend")
Row = dict[str, Any]


class _Canvas:
    """Rows of data for each kind of mark, placed in pixels."""

    def __init__(self, look: Look, end_s: float, columns: int, bar: float) -> None:
        self.look, self._end_s, self._columns, self._bar = look, end_s, columns, bar
        self._margin = 92 if columns == 1 else 62
        self._wide = (look.width - 8 - _BETWEEN * (columns - 1)) / columns
        self._left, self.height = 0.0, 0.0
        self.rows: dict[str, list[Row]] = {name: [] for name in (*_LAYERS, *_TEXTS)}

    def legend(self, without: Collection[str]) -> None:
        """Out of the same marks, in as many lines as it takes; without those of some layers."""
        x, y = 0.0, 4.0
        for text in (text for text, layer in _LEGEND.items() if layer not in without):
            wide = 24 + _LETTER * len(text) + 14
            if x and x + wide > self.look.width:
                x, y = 0.0, y + _LINE
            self._key(text, {"x": x, "x2": x + 18}, y)
            x += wide
        self.height = y + _LINE + 8
        if not self.look.is_slide:
            self.say(_BESIDE_THE_LEGEND)
            self.height += 6

    def _key(self, text: str, mark: Row, y: float) -> None:
        layer = _LEGEND[text]
        place = (
            {"y": y + _BAR / 2} if layer in ("pings", "untold", "elsewhere") else {"y": y, "y2": y + _BAR, "share": 1}
        )
        self.rows[layer].append({**mark, **place})
        self._text("legend", mark["x"] + 24, y + _BAR / 2, text)

    def group(self, kind: Pattern, members: Sequence[Timeline]) -> None:
        for line in self._wrapped(heading(kind, members), 9.2):
            self._text("groups", 0, self.height + 10, line)
            self.height += 20
        self.height += 6
        for one in members:
            self.panel(one, 0)

    def panels(self, drawn: Sequence[Timeline]) -> None:
        """Beside each other, so many in a row."""
        for first in range(0, len(drawn), self._columns):
            row = drawn[first : first + self._columns]
            top, bottom = self.height, self.height
            for place, one in enumerate(row):
                self.height = top
                self.panel(one, place)
                bottom = max(bottom, self.height)
            self.height = bottom

    def panel(self, one: Timeline, column: int) -> None:
        self._left = column * (self._wide + _BETWEEN)
        is_alone = self._columns == 1
        short = (
            plain_name_of_timeline(one) if self.look.is_slide else name_of_timeline(one, is_narrow=self.look.is_narrow)
        )
        for line in self._wrapped(short, 7.4):
            self._text("names", 0, self.height + 7, line)
            self.height += _LINE
        told = [in_a_line(one)] if is_alone else [heading(pattern(one), [one]), in_short(one)]
        for line in (line for text in told for line in self._wrapped(text, _LETTER * 0.95)):
            self._text("results", 0, self.height + 6, line)
            self.height += 0.9 * _LINE
        if not one.failure:
            self._lanes(one)
        self.height += _GAP

    def _lanes(self, one: Timeline) -> None:
        top, elsewhere = self.height + _LINE, waits_elsewhere(one.lanes)
        self._axis(top)
        self.height = top
        for lane in one.lanes:
            least = self.height + _LABEL
            self._label(lane.worker)
            for bar in lane.bars:
                self._request(bar, elsewhere.get(bar.number, ()))
            self.height = max(self.height, least)
            self.height += _LANE_GAP * self._bar / _BAR
        if one.pings:
            self._pings(one)
        for at_s in self._ticks():
            self.rows["grid"].append({"x": self._x(at_s), "y": top, "y2": self.height})

    def _ticks(self) -> list[float]:
        return formatting.ticks(self._end_s, int((self._wide - self._margin) / 62))

    def _axis(self, y: float) -> None:
        for at_s in self._ticks():
            self.rows["ticks"].append(
                {"x": self._x(at_s), "y": y - 7, "text": formatting.seconds(at_s) if at_s else "sent"}
            )

    def _request(self, bar: Bar, elsewhere: Sequence[tuple[float, float]]) -> None:
        place = {"y": self.height, "y2": self.height + self._bar - 1}
        sent, answered = self._x(bar.sent_s), self._x(bar.answered_s)
        if bar.done_s is None:
            self.rows["untold"].append({"x": sent, "x2": answered, "y": self.height + self._bar / 2})
        else:
            done = self._x(bar.done_s)
            edges = [sent, *(self._x(at_s) for waits in sorted(elsewhere) for at_s in waits), done]
            for since, to in zip(edges[::2], edges[1::2], strict=True):
                self.rows["waiting"].append({**place, "x": since, "x2": to})
            for since, to in zip(edges[1:-1:2], edges[2:-1:2], strict=True):
                self.rows["elsewhere"].append({"x": since, "x2": to, "y": self.height + self._bar / 2})
            if answered - done > 0.5:
                self.rows["late"].append({**place, "x": done, "x2": answered})
        for ran in bar.ran:
            share = 0.6 if ran.share is None else ran.share
            self.rows["computing"].append({**place, "x": self._x(ran.from_s), "x2": self._x(ran.to_s), "share": share})
        if self._bar >= 8:
            self.rows["numbers"].append({"y": self.height + self._bar / 2, "x": answered + 3, "text": str(bar.number)})
        self.height += self._bar

    def _pings(self, one: Timeline) -> None:
        """Each a line as long as it took, in as many rows as it takes that none hides another."""
        self._label(f"pings ≤ {formatting.seconds(one.longest_ping_s)}" if self._columns == 1 else "pings")
        most = _PING_ROWS_OF_A_SLIDE if self.look.is_slide else _PING_ROWS
        step = max(3.2, 4.0 * self._bar / _BAR)
        free_at_s: list[float] = []
        for ping in (ping for ping in one.pings if ping.due_s >= 0):
            row = next((row for row, free_s in enumerate(free_at_s) if free_s < ping.due_s), len(free_at_s))
            free_at_s[row : row + 1] = [ping.until_s + 0.004]
            y = self.height + 4 + step * (row % most)
            self.rows["pings"].append({"y": y, "x": self._x(ping.due_s), "x2": self._x(ping.until_s)})
        self.height += max(self._bar, 8 + step * min(len(free_at_s), most))

    def say(self, text: str) -> None:
        for line in self._wrapped(text, _LETTER):
            self._text("results", 0, self.height + 6, line, left=0.0)
            self.height += _LINE

    def _label(self, text: str) -> None:
        self._text("labels", self._margin - 6, self.height + max(self._bar, 9) / 2, text)

    def _x(self, at_s: float) -> float:
        return self._left + self._margin + at_s * ((self._wide - self._margin - 16) / self._end_s)

    def _text(self, layer: str, x: float, y: float, text: str, left: float | None = None) -> None:
        self.rows[layer].append({"x": (self._left if left is None else left) + x, "y": y, "text": text})

    def _wrapped(self, text: str, letter: float) -> list[str]:
        return textwrap.wrap(text, max(12, int(self._wide / letter)))


def timeline_chart(drawn: Sequence[Timeline], look: Look, columns: int = 1, missing: Sequence[str] = ()) -> Drawing:
    """Grouped by what they show; or beside each other in so many columns.

    On a slide there is one of each group, as large as there is room for; or those of a group one after the other.
    """
    if look.is_slide and len(drawn) > 1:
        alike = [one for _, members in grouped(drawn) for one in members]
        drawn = alike if columns > 1 else _one_of_each_group(drawn)
        columns = 2 if look.width > look.height * 1.1 and len(drawn) > 1 else columns  # type: ignore[operator]
    bars = _BARS_OF_A_SLIDE if look.is_slide else (_BAR,)
    for bar in bars:
        canvas = _drawn(drawn, look, columns, bar, missing)
        if look.height is None or canvas.height <= look.height:
            break
    return _as_drawing(canvas)


def _drawn(drawn: Sequence[Timeline], look: Look, columns: int, bar: float, missing: Sequence[str]) -> _Canvas:
    canvas = _Canvas(look, end_s(drawn), columns, bar)
    late = any((one.late_s or 0) > 0.0005 for timeline in drawn for lane in timeline.lanes for one in lane.bars)
    there = {"late": late, "untold": any(one.is_untold for one in drawn)}
    there["elsewhere"] = any(any(waits_elsewhere(one.lanes).values()) for one in drawn)
    canvas.legend([layer for layer, is_there in there.items() if not is_there])
    if columns == 1 and not look.is_slide:
        for kind, members in grouped(drawn):
            canvas.group(kind, members)
        for text in missing:
            canvas.say(text)
    else:
        canvas.panels(drawn)
    return canvas


def _one_of_each_group(drawn: Sequence[Timeline]) -> list[Timeline]:
    """The quickest to be done, which shows best what its group has in common."""
    found = grouped(drawn)
    if len(found) == 1:
        return list(drawn[:_MOST_PANELS])
    return [min(members, key=lambda one: one.done_s) for _, members in found[:_MOST_PANELS]]


def _as_drawing(canvas: _Canvas) -> Drawing:
    look, rows = canvas.look, canvas.rows
    width = look.width - 8
    sheet = Sheet(width, canvas.height, {"domain": [0, width], "nice": False}, None)
    share = {"opacity": quantity("share", scale=None)}
    bold: dict[str, Any] = {"align": "left", "fontWeight": "bold", "color": look.ink}
    return sheet.drawn(
        sheet.posts("grid", rows["grid"], color=look.grid),
        sheet.bars("waiting", rows["waiting"], color=look.wait),
        sheet.rules(
            "elsewhere", rows["elsewhere"], color=look.work, strokeWidth=1.5, strokeDash=[1, 4], strokeCap="round"
        ),
        sheet.bars("computing", rows["computing"], share, color=look.work),
        sheet.bars("late", rows["late"], color=look.late),
        sheet.rules("untold", rows["untold"], color=look.quiet, strokeWidth=1.5, strokeDash=[3, 3]),
        sheet.rules(
            "pings", rows["pings"], color=look.ping, strokeWidth=2 if look.is_slide else _PING, strokeCap="round"
        ),
        sheet.text("numbers", rows["numbers"], align="left", fontSize=9.5, color=look.ink),
        sheet.text("labels", rows["labels"], align="right", fontSize=10.5, color=look.quiet),
        sheet.text("ticks", rows["ticks"], fontSize=10.5, color=look.quiet),
        sheet.text("groups", rows["groups"], fontSize=15.5, **{**bold, "color": look.work}),
        sheet.text("names", rows["names"], fontSize=13, **bold),
        sheet.text("results", rows["results"], align="left", fontSize=11.5, color=look.ink),
        sheet.text("legend", rows["legend"], align="left", fontSize=11.5, color=look.ink),
    )
