"""What everybody else felt: how long pings took while the siege was on, on a logarithmic axis."""

from collections.abc import Sequence

import numpy as np

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.charts.rows import Rows
from under_siege.charts.theme import Drawing, Look
from under_siege.stats.rate import Floats
from under_siege.stats.rounds_data import Round

_BAND = 26
_LEAST_S = 0.0005  # what is shorter can't be told from it
_LABELS = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"


def pings_chart(
    cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], task_s: float | None, dots_each: int, look: Look
) -> Drawing:
    """Of cases with the same task and users; `task_s` is how long the task takes alone.

    Each of the dots of a case stands for an equal part of its pings (a quantile dot plot: Kay et al., CHI 2016).
    """
    rows = Rows(cases, _BAND, look, "ping_p99_s")
    waited_s = [np.maximum(_LEAST_S, np.concatenate([one.record.pings.waited_s for one in case])) for case in rounds]
    longest_s = float(max([0.1, task_s or 0.0, *(values.max() for values in waited_s if len(values))]))
    steps = [10.0**power for power in range(-3, 4) if 10.0**power <= longest_s * 2]
    title = "how long a ping took: each step is ten times as long"
    title += " (dashed: one task)" if look.is_slide and task_s else ""
    axis = {"title": title, "orient": "top", "values": steps, "labelExpr": _LABELS}
    scale = {"type": "log", "domain": [_LEAST_S, longest_s * 1.3], "nice": False}
    sheet = rows.sheet(scale, axis)
    dots, medians, figures = [], [], ["no pings"] * len(cases)
    for number, values in enumerate(waited_s):
        y = rows.top(number)
        for place, value in enumerate(_quantiles(values, dots_each)):
            dots.append({"x": value, "y": y + 3 + (rows.marks - 6) * _scattered(place)})
        if len(values):
            medians.append({"x": float(np.percentile(values, 50)), "y": y, "y2": y + rows.marks})
            figures[number] = _told(cases[number], look)
    alone = [{"x": task_s, "y": 0, "y2": sheet.height}] if task_s else []
    label = [{"x": task_s, "y": sheet.height - 4, "text": f"one task: {formatting.seconds(task_s)}"}] if task_s else []
    label = label if not look.is_slide else []
    return sheet.drawn(
        sheet.posts("one_task", alone, color=look.limit, strokeWidth=1.5, strokeDash=[5, 3]),
        sheet.text("one_task_label", label, align="left", dx=5, color=look.ink),
        sheet.of("pings", dots, "circle", {"x": sheet.x, "y": sheet.y}, size=22, opacity=0.55, color=look.ping),
        sheet.posts("medians", medians, color=look.ink, strokeWidth=2.5),
        *rows.texts(sheet, figures),
    )


def _told(case: Summary, look: Look) -> str:
    """As the table has it."""
    if case.ping_s is None:
        return "no pings"
    p50, p99 = (
        f"below {formatting.seconds(value)}"
        if value is not None
        else f"not known: above {formatting.seconds(longest_s)}"
        for value in (case.ping_s.p50, case.ping_s.p99)
        for longest_s in (case.ping_s.max,)
    )
    return p99.replace("below", "99 % <") if look.is_slide else f"half {p50}, 99 % {p99}"


def _quantiles(values: Floats, count: int) -> list[float]:
    if not len(values):
        return []
    return [float(value) for value in np.percentile(values, (np.arange(count) + 0.5) * 100 / count)]


def _scattered(number: int) -> float:
    """Between 0 and 1, neighbours far apart (additive recurrence with the golden ratio)."""
    return number * 0.6180339887 % 1
