"""Who computed when: all timelines below each other on one axis."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from common.report import numbers
from common.report.charts.look import Drawing, Look
from common.report.charts.sheet import Sheet
from common.report.figures.timeline import UNTOLD, Bar, Timeline, span_s

_BAR, _LANE_GAP, _HEADER, _PING, _PING_STEP, _GAP, _LABELS = 11, 5, 22, 2.5, 4, 20, 92  # pixels
_PING_ROWS = 12
Row = dict[str, Any]


class _Drawing:
    """Rows of data for each kind of mark, placed from top to bottom in pixels, times in milliseconds."""

    def __init__(self, look: Look, from_ms: float, ms_per_pixel: float, best_s: float) -> None:
        self._look, self._from_ms, self._ms_per_pixel, self._best_s = look, from_ms, ms_per_pixel, best_s
        self.legend: list[Row] = []
        self.titles: list[Row] = []
        self.results: list[Row] = []
        self.best: list[Row] = []
        self.heads: list[Row] = []
        self.labels: list[Row] = []
        self.waiting: list[Row] = []
        self.untold: list[Row] = []
        self.running: list[Row] = []
        self.numbers: list[Row] = []
        self.pings: list[Row] = []
        self.height = 0.0
        self._explain()

    def _explain(self) -> None:
        """A legend out of the same marks."""
        y, middle = self.height + 8, self.height + 8 + _BAR / 2
        texts = ("computes", "waits", "ping, as long as it waited")
        for text, pixels in zip(texts, (0, 90, 160), strict=True):
            x = self._from_ms + self._ms_per_pixel * pixels
            mark = {"x": x, "x2": x + 18 * self._ms_per_pixel}
            if text == "computes":
                self.running.append({**mark, "y": y, "y2": y + _BAR, "share": 1})
            elif text == "waits":
                self.waiting.append({**mark, "y": y, "y2": y + _BAR})
            else:
                self.pings.append({**mark, "y": middle})
            self.legend.append({"x": x + 24 * self._ms_per_pixel, "y": middle, "text": text})
        self.height += 3 * _BAR

    def explain_untold(self) -> None:
        """For the legend, behind the others, or below them where they leave no room."""
        pixels, y = (0, 8 + 2 * _BAR) if self._look.is_narrow else (350, 8 + _BAR / 2)
        x = self._from_ms + self._ms_per_pixel * pixels
        self.untold.append({"x": x, "x2": x + 18 * self._ms_per_pixel, "y": y})
        self.legend.append({"x": x + 24 * self._ms_per_pixel, "y": y, "text": "not told"})
        self.height += _BAR * self._look.is_narrow

    def add(self, one: Timeline) -> None:
        """A strategy, below those that are there."""
        done = f"failed: {one.failure}" if one.failure else f"all done after {numbers.seconds(one.done_s)}"
        if one.is_untold:
            done += f"; {UNTOLD}"
        best = not one.failure and one.done_s <= 1.1 * self._best_s
        self.heads.append({"y": self.height + 8, "text": one.name})
        self.height += _HEADER
        told = {"y": self.height + (3 if self._look.is_narrow else 8 - _HEADER), "text": done}
        (self.best if best else self.results).append(told)
        if not self._look.is_narrow:
            self.titles.append({"y": self.height + 3, "text": one.title})
        self.height += 16
        for lane in one.lanes:
            self.labels.append({"y": self.height + _BAR / 2, "text": lane.worker})
            for bar in lane.bars:
                self._bar(bar)
            self.height += _LANE_GAP
        if one.pings:
            self._pings(one)
        self.height += _GAP

    def _bar(self, bar: Bar) -> None:
        place = {"y": self.height, "y2": self.height + _BAR - 1}
        there = {"x": 1000 * bar.sent_s, "x2": 1000 * bar.answered_s}
        if bar.ran:
            self.waiting.append({**place, **there})
        else:
            self.untold.append({**there, "y": self.height + _BAR / 2})
        for ran in bar.ran:
            share = 0.6 if ran.share is None else ran.share
            self.running.append({**place, "x": 1000 * ran.from_s, "x2": 1000 * ran.to_s, "share": share})
        middle = self.height + _BAR / 2
        self.numbers.append({"y": middle, "x": 1000 * bar.answered_s, "text": bar.number})
        self.height += _BAR

    def _pings(self, one: Timeline) -> None:
        """Each a line as long as it waited, in as many rows as it takes that none hides another."""
        longest = f"pings ≤ {numbers.seconds(one.longest_ping_s)}"
        self.labels.append({"y": self.height + _BAR / 2, "text": longest})
        free_at_s: list[float] = []
        for ping in one.pings:
            row = next((row for row, free_s in enumerate(free_at_s) if free_s < ping.due_s), len(free_at_s))
            free_at_s[row : row + 1] = [ping.until_s + 0.004]
            y = self.height + 4 + _PING_STEP * (row % _PING_ROWS)
            self.pings.append({"y": y, "x": 1000 * ping.due_s, "x2": 1000 * ping.until_s})
        self.height += max(_BAR, 8 + _PING_STEP * min(len(free_at_s), _PING_ROWS))


def timeline_chart(drawn: Sequence[Timeline], look: Look) -> Drawing:
    """Waiting pale, computing strong and numbered, and each ping below as long as it had to wait."""
    from_s, to_s = span_s(drawn)
    best_s = min((one.done_s for one in drawn if not one.failure), default=0.0)
    width = look.width - _LABELS - 24
    drawing = _Drawing(look, 1000 * from_s, 1000 * (to_s - from_s) / width, best_s)
    if any(one.is_untold for one in drawn):
        drawing.explain_untold()
    for one in drawn:
        drawing.add(one)
    across = alt.Scale(domain=[1000 * from_s, 1000 * to_s], nice=False, zero=False)
    axis = alt.Axis(
        title="milliseconds since the requests were sent",
        orient="top",
        tickCount=width // 90,
        labelExpr="datum.value < 0 ? '' : datum.label",
    )
    sheet = Sheet(width, drawing.height, across, axis)
    share = alt.Opacity("share:Q", scale=None)
    small: dict[str, Any] = {"color": look.ink, "fontSize": 11.5}
    bold: dict[str, Any] = {"fontSize": 13, "fontWeight": "bold", "color": look.ink}
    at: dict[str, Any] = (
        {"at": 0, "align": "left", "dx": -_LABELS} if look.is_narrow else {"at": width, "align": "right"}
    )
    return sheet.drawn(
        sheet.bars("waiting", drawing.waiting, color=look.wait),
        sheet.bars("computing", drawing.running, share, color=look.work),
        sheet.rules("untold", drawing.untold, color=look.quiet, strokeWidth=1.5, strokeDash=[3, 3]),
        sheet.rules("pings", drawing.pings, color=look.ping, strokeWidth=_PING, strokeCap="round"),
        sheet.text("numbers", drawing.numbers, align="left", dx=3, fontSize=9.5, color=look.ink),
        sheet.text("labels", drawing.labels, 0, align="right", dx=-6, fontSize=10.5, color=look.quiet),
        sheet.text("names", drawing.heads, 0, align="left", dx=-_LABELS, **bold),
        sheet.text("titles", drawing.titles, 0, align="left", dx=-_LABELS, fontSize=11.5, color=look.quiet),
        sheet.text("results", drawing.results, **at, **small),
        sheet.text("best", drawing.best, **at, fontWeight="bold", **small),
        sheet.text("legend", drawing.legend, align="left", **small),
    )
