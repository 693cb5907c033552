"""What it costs: memory against throughput, and the CPU time that is spent beside the task."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.analysis.metric_value import MetricValue
from under_siege.analysis.summary import Summary
from under_siege.charts.canvas import either
from under_siege.charts.rows import Rows
from under_siege.charts.scatter import Across, scatter
from under_siege.charts.theme import Drawing, Look

_BAR = 16  # pixels


def memory_chart(cases: Sequence[Summary], look: Look) -> Drawing:
    """A point for each case: the higher the more work, the further right the more memory; its name beside it."""
    across = Across(_memory_bytes, formatting.megabytes, "memory", "memory_bytes")
    return scatter(cases, across, None, look)


def tradeoff_chart(cases: Sequence[Summary], ceiling: Summary | None, look: Look) -> Drawing:
    """A point for each case: the higher the more work, the further left the sooner a ping is answered."""
    across = Across(_ping_p99_s, formatting.seconds, "99 of 100 pings took at most", "ping_p99_s", True, _ping_edges)
    return scatter(cases, across, ceiling, look)


def cpu_chart(cases: Sequence[Summary], spent: Sequence[MetricValue], look: Look, *, beside_task: bool) -> Drawing:
    """A bar with its interval for each case, as far as they are above 0; strong where that is sure.

    Args:
        spent: CPU seconds for each answer, of each case.
        beside_task: whether what the task itself needs is taken off.
    """
    rows = Rows(cases, _BAR, look, "cpu_s_per_transaction")
    values = [1000 * max(0.0, one.value or 0.0) for one in spent]
    edges = [tuple(1000 * max(0.0, edge) for edge in one.interval) if one.interval else None for one in spent]
    most = max([1e-6, *values, *(edge[1] for edge in edges if edge)])
    what = "CPU time for each answer beside the task" if beside_task else "CPU time for each answer"
    axis = {"title": f"{what}, in ms", "orient": "top", "tickCount": look.width // 100}
    sheet = rows.sheet({"domain": [0, 1.1 * most], "nice": False}, axis)
    bars, intervals, figures = [], [], []
    for number, (case, value, edge) in enumerate(zip(cases, values, edges, strict=True)):
        strong = edge is None or edge[0] > 0 if beside_task else rows.leads(case) or not rows.has_leaders
        y = rows.top(number)
        bars.append({"x": 0.0, "x2": value, "y": y, "y2": y + rows.marks, "strong": strong})
        if edge:
            intervals.append({"x": edge[0], "x2": edge[1], "y": y + rows.marks / 2})
        figures.append(_told(value, edge, look))
    color = either("datum.strong", look.work, look.mute)
    return sheet.drawn(
        sheet.bars("cpu", bars, {"color": color}),
        sheet.posts("zero", [{"x": 0, "y": row["y"] - 2, "y2": row["y2"] + 2} for row in bars], color=look.limit),
        sheet.rules("halo", intervals, color=look.paper, strokeWidth=5, opacity=0.75),
        sheet.rules("margins", intervals, color=look.ink, strokeWidth=2),
        *rows.texts(sheet, figures),
    )


def _told(value_ms: float, edges_ms: tuple[float, ...] | None, look: Look) -> str:
    value = f"{_in_two_digits(value_ms)} ms"
    if edges_ms is not None and not edges_ms[0]:
        return f"at most {_in_two_digits(edges_ms[1])} ms" if edges_ms[1] else "nothing"
    if edges_ms is None or look.is_slide:
        return value
    return f"{value}, between {_in_two_digits(edges_ms[0])} and {_in_two_digits(edges_ms[1])}"


def _in_two_digits(value_ms: float) -> str:
    """No more than two behind the point, and a minus only where there is something behind it."""
    return formatting.significant(round(value_ms, 2), 2) if round(value_ms, 2) else "0"


def _memory_bytes(case: Summary) -> float | None:
    return case.memory_bytes


def _ping_p99_s(case: Summary) -> float | None:
    return None if case.ping_s is None else case.ping_s.p99 or case.ping_s.max


def _ping_edges(case: Summary) -> tuple[float | None, float | None]:
    return (None, None) if case.ping_s is None else (case.ping_s.p99_low, case.ping_s.p99_high)
