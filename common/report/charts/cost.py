"""What it costs: memory against throughput, and the CPU time of each transaction."""

from collections.abc import Sequence

import altair as alt

from common.report import numbers
from common.report.charts.look import Drawing, Look
from common.report.charts.rows import Rows
from common.report.charts.sheet import Sheet
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import label, short

_HEIGHT, _LINE, _BAR = 240, 16, 16  # pixels


def memory_chart(cases: Sequence[Summary], look: Look) -> Drawing:
    """A dot for each case: the higher the more work, the further right the more memory; its name beside it."""
    known = sorted((case for case in cases if case.memory_bytes), key=_rate)
    labels = 75 if look.is_narrow else 240
    width = look.width - labels - 60
    most_mb = max((_mb(case) for case in known), default=1.0) * 1.15
    most = max((_rate(case) for case in known if case.verdict == OK), default=1.0) * 1.2
    sheet = Sheet(
        width,
        _HEIGHT,
        alt.Scale(domain=[0, most_mb], nice=False),
        alt.Axis(title="← memory in MB: less is better", tickCount=width // 90),
    )
    dots, leaders, names = [], [], []
    ys = [_HEIGHT * (1 - min(_rate(case), most) / most) for case in known]
    for case, y, at in zip(known, ys, _apart(ys), strict=True):
        dots.append({"x": _mb(case), "y": y})
        leaders.append({"x": _mb(case), "y": y, "x2": most_mb, "y2": at})
        name = short(case.server) if look.is_narrow else label(case, cases)
        names.append({"y": at, "text": f"{name}: {numbers.megabytes(case.memory_bytes or 0)}"})
    rate_axis = alt.Axis(title="trans/s: more is better →", tickCount=5)
    rates = sheet.of("rates", [{"y": 0.0}, {"y": most}]).mark_point(opacity=0)
    lines = (
        sheet.of("leaders", leaders).mark_rule(color=look.grid).encode(sheet.x, sheet.y, alt.X2("x2:Q"), alt.Y2("y2:Q"))
    )
    drawn = sheet.drawn(
        lines,
        sheet.of("memory", dots).mark_circle(size=110, color=look.work, opacity=1).encode(sheet.x, sheet.y),
        sheet.text("names", names, width + 6, align="left", fontSize=12, color=look.ink),
    )
    scale = alt.Scale(domain=[0, most], nice=False)
    with_axis = alt.layer(drawn.chart, rates.encode(alt.Y("y:Q", scale=scale, axis=rate_axis)))
    sized = with_axis.resolve_scale(y="independent").properties(width=width, height=_HEIGHT)
    return Drawing(sized, sheet.rows)


def cpu_chart(cases: Sequence[Summary], task_cpu_s: float | None, look: Look) -> Drawing:
    """A bar for each case, against what the task alone needs."""
    known = [case for case in cases if case.cpu_s_per_transaction is not None]
    rows = Rows(known, _BAR, look)
    most = 1.2 * max([task_cpu_s or 0.0, 1e-9, *(case.cpu_s_per_transaction or 0.0 for case in known)])
    axis = alt.Axis(title="CPU time per transaction, in ms", orient="top", tickCount=look.width // 100)
    sheet = rows.sheet(alt.Scale(domain=[0, 1000 * most], nice=False), axis)
    bars = []
    for number, case in enumerate(known):
        y, used_s = rows.top(number), case.cpu_s_per_transaction or 0.0
        bars.append({"x": 0, "x2": 1000 * used_s, "y": y, "y2": y + _BAR})
    alone = [{"x": 1000 * task_cpu_s, "y": 0, "y2": rows.height}] if task_cpu_s else []
    label = [{"x": 1000 * task_cpu_s, "y": rows.height - 2, "text": "the task itself"}] if task_cpu_s else []
    return sheet.drawn(
        sheet.bars("cpu", bars, color=look.work),
        sheet.posts("task", alone, color=look.limit, strokeWidth=2, strokeDash=[5, 3]),
        sheet.text("task_label", label, align="right", dx=-5, color=look.ink),
        *rows.texts(sheet, [numbers.seconds(case.cpu_s_per_transaction or 0.0) for case in known]),
    )


def _apart(ys: Sequence[float]) -> list[float]:
    """Places for labels, in the order of the dots from the bottom to the top, so that none covers another."""
    places: list[float] = []
    for y in ys:
        places.append(min(y, places[-1] - _LINE) if places else y)
    if places and places[-1] < 0:
        places = [place - places[-1] for place in places]
    return places


def _rate(case: Summary) -> float:
    return case.rate_per_s.mean if case.rate_per_s else 0.0


def _mb(case: Summary) -> float:
    return (case.memory_bytes or 0) / 1e6
