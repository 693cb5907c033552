"""How much work got done: a bar with its interval for each case, against the ceiling with its own."""

from collections.abc import Sequence
from typing import Any

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.charts.canvas import Sheet, Words, either
from under_siege.charts.rows import Rows
from under_siege.charts.theme import Drawing, Look
from under_siege.checks.verdict import OK
from under_siege.report.columns import half_width

_BAR = 20
_ROOM = 1.25  # of the largest value that can be true: what is longer is cut and says so
Row = dict[str, Any]


def throughput_chart(cases: Sequence[Summary], look: Look, ceilings: Sequence[Summary | None] = ()) -> Drawing:
    """Of cases that have numbers, with the same task and users, all at the usual speed of the machine.

    Args:
        ceilings: of each case; none where that is not known.
    """
    ceilings = ceilings or [None] * len(cases)
    rows = Rows(cases, _BAR, look, "rate_per_s")
    limits = [_high(one) for one in ceilings if one is not None and one.rate_per_s]
    most = _ROOM * max([*limits, 1e-9, *(_high(case) for case in cases if case.verdict == OK)])
    limit = " (dashed: the ceiling)" if look.is_slide and limits else ""
    axis = {"title": f"answers per second{limit}", "orient": "top", "tickCount": look.width // 100}
    sheet = rows.sheet({"domain": [0, most], "nice": False, "clamp": True}, axis)
    bars, intervals = [], []
    for number, case in enumerate(cases):
        rate, y = case.rate_per_s, rows.top(number)
        assert rate is not None
        strong = rows.leads(case) or not rows.has_leaders
        sound = {"sound": case.verdict == OK, "strong": strong}
        bars.append({"x": 0, "x2": min(case.usual_rate_per_s, most), "y": y, "y2": y + rows.marks, **sound})
        if rate.low is not None and rate.high is not None and rate.high < most:
            intervals.append({"x": max(0.0, rate.low), "x2": rate.high, "y": y + rows.marks / 2})
    told = {"opacity": either("datum.sound", 1, 0.35), "color": either("datum.strong", look.work, look.mute)}
    band, lines = _ceilings(sheet, rows, ceilings, most)
    return sheet.drawn(
        band,
        sheet.bars("bars", bars, told),
        sheet.rules("halo", intervals, color=look.paper, strokeWidth=5, opacity=0.75),
        sheet.rules("intervals", intervals, color=look.ink, strokeWidth=2),
        *lines,
        *rows.texts(sheet, [_told(case, most, look) for case in cases]),
    )


def _ceilings(
    sheet: Sheet, rows: Rows, ceilings: Sequence[Summary | None], most: float
) -> tuple[Words, Sequence[Words]]:
    """One through all rows where they share it, else one for each row: a line, and its interval as a grey band."""
    look = rows.look
    known = [(rows.top(row), one) for row, one in enumerate(ceilings) if one is not None and one.rate_per_s]
    shared = len({one.case for _, one in known}) == 1
    places: list[tuple[float, float, Summary]]
    if shared:
        places = [(0, sheet.height, known[0][1])]
    else:
        places = [(top - 4, top + rows.marks + 4, one) for top, one in known]
    lines = [{"x": one.usual_rate_per_s, "y": top, "y2": bottom} for top, bottom, one in places]
    bands: list[Row] = []
    for top, bottom, one in places:
        assert one.rate_per_s is not None
        if one.rate_per_s.low is not None and one.rate_per_s.high is not None:
            high = min(most, one.rate_per_s.high)
            bands.append({"x": min(most, one.rate_per_s.low), "x2": high, "y": top, "y2": bottom})
    texts = (
        [{"x": places[-1][2].usual_rate_per_s, "y": sheet.height - 2, "text": _at_the_line(shared, places, look)}]
        if places
        else []
    )
    texts = [] if look.is_slide else texts
    return sheet.bars("ceiling_interval", bands, color=look.limit, opacity=0.13), [
        sheet.posts("ceiling", lines, color=look.limit, strokeWidth=2, strokeDash=[5, 3]),
        sheet.text("ceiling_label", texts, align="left", dx=6, dy=-2, color=look.ink),
    ]


def _at_the_line(shared: bool, places: Sequence[tuple[float, float, Summary]], look: Look) -> str:
    if look.is_narrow:
        return "ceiling"
    if not shared:
        return "dashed: the ceiling of that Python"
    ceiling = places[0][2]
    width = half_width(ceiling)
    margin = f" ± {formatting.margin(width)}" if width is not None else ""
    return f"ceiling: {formatting.rate(ceiling.usual_rate_per_s)}/s{margin}"


def _told(case: Summary, most: float, look: Look) -> str:
    width = half_width(case)
    interval = f" ± {formatting.margin(width)}" if width is not None else ""
    cut = ", off the scale" if case.usual_rate_per_s > most and not look.is_slide else ""
    return f"{formatting.rate(case.usual_rate_per_s)}/s{interval}{cut}"


def _high(case: Summary) -> float:
    assert case.rate_per_s is not None
    return max(case.rate_per_s.high or 0.0, case.usual_rate_per_s)
