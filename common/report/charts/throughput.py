"""How much work got done: a bar with its interval for each case, against the line of the ceiling."""

from collections.abc import Sequence

import altair as alt

from common.report import numbers
from common.report.charts.look import Drawing, Look
from common.report.charts.rows import Rows
from common.report.charts.sheet import Layer, Sheet
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.columns import half_width

_BAR = 20
_ROOM = 1.25  # of the largest value that can be true: what is longer is cut and says so


def throughput_chart(cases: Sequence[Summary], look: Look) -> Drawing:
    """Of cases that have numbers, with the same task and users."""
    rows = Rows(cases, _BAR, look)
    ceiling = max((case.ceiling_per_s for case in cases if case.ceiling_per_s), default=0.0)
    most = _ROOM * max([ceiling, 1e-9, *(_high(case) for case in cases if case.verdict == OK)])
    axis = alt.Axis(title="transactions per second", orient="top", tickCount=look.width // 100)
    sheet = rows.sheet(alt.Scale(domain=[0, most], nice=False, clamp=True), axis)
    bars, intervals = [], []
    for number, case in enumerate(cases):
        rate = case.rate_per_s
        assert rate is not None
        y = rows.top(number)
        bars.append({"x": 0, "x2": min(rate.mean, most), "y": y, "y2": y + _BAR, "sound": case.verdict == OK})
        if rate.low is not None and rate.high is not None and rate.high < most:
            intervals.append({"x": max(0.0, rate.low), "x2": rate.high, "y": y + _BAR / 2})
    opacity = alt.condition("datum.sound", alt.value(1), alt.value(0.35))
    return sheet.drawn(
        sheet.bars("bars", bars, color=look.work).encode(opacity=opacity),
        sheet.rules("intervals", intervals, color=look.ink, strokeWidth=2),
        *_ceilings(sheet, rows, look),
        *rows.texts(sheet, [_told(case, most) for case in cases]),
    )


def _ceilings(sheet: Sheet, rows: Rows, look: Look) -> list[Layer]:
    """One line through all rows where they share a ceiling, else one for each row."""
    known = [(rows.top(row), case.ceiling_per_s) for row, case in enumerate(rows.cases) if case.ceiling_per_s]
    if not known:
        return []
    highest = max(ceiling for _, ceiling in known)
    if len({ceiling for _, ceiling in known}) == 1:
        lines = [{"x": highest, "y": 0, "y2": sheet.height}]
        text = "ceiling" if look.is_narrow else f"ceiling: {numbers.rate(highest)}/s is all that this machine can do"
    else:
        lines = [{"x": ceiling, "y": top - 4, "y2": top + _BAR + 4} for top, ceiling in known]
        text = (
            "dashed: its ceiling"
            if look.is_narrow
            else "dashed: the ceiling, all that this machine can do with that Python"
        )
    label = [{"x": highest, "y": sheet.height - 2, "text": text}]
    return [
        sheet.posts("ceiling", lines, color=look.limit, strokeWidth=2, strokeDash=[5, 3]),
        sheet.text("ceiling_label", label, align="right", dx=-5, color=look.ink),
    ]


def _told(case: Summary, most: float) -> str:
    assert case.rate_per_s is not None
    fastest = "fastest: " if case.rank == 1 else ""
    rate = case.rate_per_s
    width = half_width(case)
    interval = f" ± {numbers.margin(width)}" if width is not None else ""
    cut = ", off the scale" if rate.mean > most else ""
    return f"{fastest}{numbers.rate(rate.mean)}/s{interval}{cut}"


def _high(case: Summary) -> float:
    assert case.rate_per_s is not None
    return case.rate_per_s.high or case.rate_per_s.mean
