"""Draw charts with one row per case: throughput, pings, CPU time, and responses and pings over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from under_siege import formatting
from under_siege.judge.case_names import plain_name, with_file
from under_siege.judge.metrics import MetricValue
from under_siege.judge.round_statistics import Round
from under_siege.judge.steady_rate import Floats
from under_siege.judge.summary import Summary, half_width
from under_siege.judge.verdict_rules import OK
from under_siege.show.canvas import Drawing, Sheet, Theme, VegaLite, either, kind, quantity

_LINE, _GAP = 18, 12  # height of a line of text, and gap between rows, in pixels
_AXIS, _NAMES, _FIGURES = 34, 226, 104  # margins of a slide in pixels: above, left and right
_LETTERS = 36  # maximum length of a name on a slide, in characters
_RATE, _PING, _CPU = 20, 26, 16  # height of the marks in a row, in pixels
_ANSWERS, _PINGS, _BETWEEN = 34, 24, 5  # heights in a row of the chart over time, in pixels
_ROOM = 1.25  # axis length as a multiple of the largest plausible value; longer bars are labelled `off the scale`
_LEAST_S = 0.0005  # shorter pings are drawn at this value, because the axis is logarithmic
_LABELS = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """One row per case, with its name, a figure on the right, and its marks below.

    On a phone, the figure is below the name. On a slide, all three share one line.
    """

    cases: Sequence[Summary]
    wanted: float  # preferred height of the marks in pixels
    theme: Theme
    best: str = ""  # metric whose best cases get a star, as in `Summary.best`

    @property
    def height(self) -> float:
        return len(self.cases) * self._step

    @property
    def marks(self) -> float:
        return max(4.0, min(self.wanted * 1.4, self._step - 5)) if self.theme.is_slide else self.wanted

    def top(self, row: int) -> float:
        return row * self._step + (self._head if not self.theme.is_slide else (self._step - self.marks) / 2)

    def sheet(self, across: VegaLite, axis: VegaLite) -> Sheet:
        beside = _NAMES + _FIGURES if self.theme.is_slide else 20
        return Sheet(self.theme.width - beside, self.height, across, axis)

    def leads(self, case: Summary) -> bool:
        """Return whether the case gets a star."""
        return self.best in case.best if self.best else False

    @property
    def has_leaders(self) -> bool:
        return any(map(self.leads, self.cases))

    def texts(self, sheet: Sheet, figures: Sequence[str]) -> list[VegaLite]:
        theme, names, labels = self.theme, [], []
        for index, (case, figure) in enumerate(zip(self.cases, figures, strict=True)):
            middle = (index + 0.5) * self._step
            name_y, figure_y = index * self._step + _LINE / 2, self.top(index) - _LINE / 2
            names.append(
                {"y": middle if theme.is_slide else name_y, "text": self._name(case), "best": self.leads(case)}
            )
            labels.append({"y": middle if theme.is_slide else figure_y, "text": figure})
        align, dx = ("right", -8) if theme.is_slide else ("left", 0)
        style = {"align": align, "dx": dx, "fontSize": self._letters, "color": theme.ink}
        at, side = (sheet.width + 8, "left") if theme.is_slide else (sheet.width, "right")
        at, side = (0, "left") if theme.is_narrow else (at, side)
        bold = [row for row in names if row["best"] or not theme.is_slide]
        return [
            sheet.text("names", bold, 0, fontWeight="bold", **style),
            sheet.text("names_rest", [row for row in names if row not in bold], 0, **style),
            sheet.text("figures", labels, at, align=side, fontSize=min(12.5, self._letters), color=theme.ink),
        ]

    def _name(self, case: Summary) -> str:
        flag = "" if case.verdict == OK else f"  ({case.verdict})"
        star = "★ " if self.leads(case) else ""
        if not self.theme.is_slide:
            return f"{star}{with_file(case, self.cases, is_narrow=self.theme.is_narrow)}{flag}"
        name = plain_name(case, self.cases)
        most = _LETTERS - len(flag) - len(star)
        return f"{star}{name if len(name) <= most else f'{name[: most - 1]}…'}{flag}"

    @property
    def _letters(self) -> float:
        return min(13.0, self._step * 0.62)

    @property
    def _head(self) -> float:
        return 2 * _LINE if self.theme.is_narrow else _LINE

    @property
    def _step(self) -> float:
        if self.theme.height is not None:
            return min(46.0, (self.theme.height - _AXIS) / max(1, len(self.cases)))
        return self._head + self.wanted + _GAP


def throughput_chart(cases: Sequence[Summary], theme: Theme, ceilings: Sequence[Summary | None] = ()) -> Drawing:
    """Draw the speed-adjusted rate of each case as a bar with an interval, and the ceilings as lines.

    Args:
        cases: cases with a rate and the same load.
        ceilings: the ceiling of each case, or None if it is unknown.
    """
    ceilings = ceilings or [None] * len(cases)
    rows = Rows(cases, _RATE, theme, "rate_per_s")
    limits = [_high(ceiling) for ceiling in ceilings if ceiling is not None and ceiling.rate_per_s]
    most = _ROOM * max([*limits, 1e-9, *(_high(case) for case in cases if case.verdict == OK)])
    limit = " (dashed: the ceiling)" if theme.is_slide and limits else ""
    axis = {"title": f"responses per second{limit}", "orient": "top", "tickCount": theme.width // 100}
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
    style = {"opacity": either("datum.sound", 1, 0.35), "color": either("datum.strong", theme.work, theme.mute)}
    band, lines = _ceilings(sheet, rows, ceilings, most)
    return sheet.drawn(
        band,
        sheet.bars("bars", bars, style),
        sheet.rules("halo", intervals, color=theme.paper, strokeWidth=5, opacity=0.75),
        sheet.rules("intervals", intervals, color=theme.ink, strokeWidth=2),
        *lines,
        *rows.texts(sheet, [_rate_with_margin(case, most, theme) for case in cases]),
    )


def _ceilings(
    sheet: Sheet, rows: Rows, ceilings: Sequence[Summary | None], most: float
) -> tuple[VegaLite, Sequence[VegaLite]]:
    """Return a grey band and a dashed line for the ceiling: through all rows if they share it, or else in each row."""
    theme = rows.theme
    known = [
        (rows.top(row), ceiling) for row, ceiling in enumerate(ceilings) if ceiling is not None and ceiling.rate_per_s
    ]
    shared = len({ceiling.case for _, ceiling in known}) == 1
    places: list[tuple[float, float, Summary]]
    if shared:
        places = [(0, sheet.height, known[0][1])]
    else:
        places = [(top - 4, top + rows.marks + 4, ceiling) for top, ceiling in known]
    lines = [{"x": ceiling.usual_rate_per_s, "y": top, "y2": bottom} for top, bottom, ceiling in places]
    bands: list[Row] = []
    for top, bottom, ceiling in places:
        assert ceiling.rate_per_s is not None
        if ceiling.rate_per_s.low is not None and ceiling.rate_per_s.high is not None:
            high = min(most, ceiling.rate_per_s.high)
            bands.append({"x": min(most, ceiling.rate_per_s.low), "x2": high, "y": top, "y2": bottom})
    texts = []
    if places and not theme.is_slide:
        text = _at_the_line(shared, places, theme)
        texts = [{"x": places[-1][2].usual_rate_per_s, "y": sheet.height - 2, "text": text}]
    return sheet.bars("ceiling_interval", bands, color=theme.limit, opacity=0.13), [
        sheet.posts("ceiling", lines, color=theme.limit, strokeWidth=2, strokeDash=[5, 3]),
        sheet.text("ceiling_label", texts, align="left", dx=6, dy=-2, color=theme.ink),
    ]


def _at_the_line(shared: bool, places: Sequence[tuple[float, float, Summary]], theme: Theme) -> str:
    if theme.is_narrow:
        return "ceiling"
    if not shared:
        return "dashed: the ceiling with the same Python"
    ceiling = places[0][2]
    width = half_width(ceiling)
    margin = f" ± {formatting.margin(width)}" if width is not None else ""
    return f"ceiling: {formatting.rate(ceiling.usual_rate_per_s)}/s{margin}"


def _rate_with_margin(case: Summary, most: float, theme: Theme) -> str:
    width = half_width(case)
    interval = f" ± {formatting.margin(width)}" if width is not None else ""
    cut = ", off the scale" if case.usual_rate_per_s > most and not theme.is_slide else ""
    return f"{formatting.rate(case.usual_rate_per_s)}/s{interval}{cut}"


def _high(case: Summary) -> float:
    assert case.rate_per_s is not None
    return max(case.rate_per_s.high or 0.0, case.usual_rate_per_s)


def pings_chart(
    cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], task_s: float | None, dots_each: int, theme: Theme
) -> Drawing:
    """Draw the ping latencies of each case as a quantile dot plot (Kay et al., CHI 2016).

    Args:
        cases: cases with the same load.
        task_s: duration of the task without concurrent requests.
        dots_each: dots per case; each represents an equal share of the pings.
    """
    rows = Rows(cases, _PING, theme, "ping_p99_s")
    waited_s = [np.maximum(_LEAST_S, np.concatenate([run.record.pings.waited_s for run in case])) for case in rounds]
    longest_s = float(max([0.1, task_s or 0.0, *(values.max() for values in waited_s if len(values))]))
    steps = [10.0**power for power in range(-3, 4) if 10.0**power <= longest_s * 2]
    title = "ping latency, logarithmic"
    title += " (dashed: one task)" if theme.is_slide and task_s else ""
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
            figures[number] = _percentiles(cases[number], theme)
    alone = [{"x": task_s, "y": 0, "y2": sheet.height}] if task_s else []
    label = [{"x": task_s, "y": sheet.height - 4, "text": f"one task: {formatting.seconds(task_s)}"}] if task_s else []
    label = label if not theme.is_slide else []
    return sheet.drawn(
        sheet.posts("one_task", alone, color=theme.limit, strokeWidth=1.5, strokeDash=[5, 3]),
        sheet.text("one_task_label", label, align="left", dx=5, color=theme.ink),
        sheet.of("pings", dots, "circle", {"x": sheet.x, "y": sheet.y}, size=22, opacity=0.55, color=theme.ping),
        sheet.posts("medians", medians, color=theme.ink, strokeWidth=2.5),
        *rows.texts(sheet, figures),
    )


def _percentiles(case: Summary, theme: Theme) -> str:
    if case.ping_s is None:
        return "no pings"
    longest = formatting.seconds(case.ping_s.max)
    half, most = (
        f"less than {share} within {longest}" if value is None else f"{share} below {formatting.seconds(value)}"
        for share, value in (("half", case.ping_s.p50), ("99 %", case.ping_s.p99))
    )
    return most.replace("below", "<") if theme.is_slide else f"{half}, {most}"


def _quantiles(values: Floats, count: int) -> list[float]:
    if not len(values):
        return []
    return [float(value) for value in np.percentile(values, (np.arange(count) + 0.5) * 100 / count)]


def _scattered(number: int) -> float:
    """Return a value between 0 and 1, far from those of nearby numbers (additive recurrence with the golden ratio)."""
    return number * 0.6180339887 % 1


def cpu_chart(cases: Sequence[Summary], spent: Sequence[MetricValue], theme: Theme, *, beside_task: bool) -> Drawing:
    """Draw the CPU time of each case as a bar with an interval.

    With `beside_task`, bars not significantly above 0 are faint; otherwise, if a case has a star, the others are.

    Args:
        spent: CPU seconds per response, for each case.
        beside_task: whether the CPU time of the task itself is subtracted.
    """
    rows = Rows(cases, _CPU, theme, "cpu_s_per_transaction")
    values = [1000 * max(0.0, metric.value or 0.0) for metric in spent]
    edges = [tuple(1000 * max(0.0, edge) for edge in metric.interval) if metric.interval else None for metric in spent]
    most = max([1e-6, *values, *(edge[1] for edge in edges if edge)])
    what = "CPU time per response on top of the task" if beside_task else "CPU time per response"
    axis = {"title": f"{what}, in ms", "orient": "top", "tickCount": theme.width // 100}
    sheet = rows.sheet({"domain": [0, 1.1 * most], "nice": False}, axis)
    bars, intervals, figures = [], [], []
    for number, (case, value, edge) in enumerate(zip(cases, values, edges, strict=True)):
        strong = edge is None or edge[0] > 0 if beside_task else rows.leads(case) or not rows.has_leaders
        y = rows.top(number)
        bars.append({"x": 0.0, "x2": value, "y": y, "y2": y + rows.marks, "strong": strong})
        if edge:
            intervals.append({"x": edge[0], "x2": edge[1], "y": y + rows.marks / 2})
        figures.append(_with_edges(value, edge, theme))
    color = either("datum.strong", theme.work, theme.mute)
    return sheet.drawn(
        sheet.bars("cpu", bars, {"color": color}),
        sheet.posts("zero", [{"x": 0, "y": row["y"] - 2, "y2": row["y2"] + 2} for row in bars], color=theme.limit),
        sheet.rules("halo", intervals, color=theme.paper, strokeWidth=5, opacity=0.75),
        sheet.rules("margins", intervals, color=theme.ink, strokeWidth=2),
        *rows.texts(sheet, figures),
    )


def _with_edges(value_ms: float, edges_ms: tuple[float, ...] | None, theme: Theme) -> str:
    value = f"{_in_two_digits(value_ms)} ms"
    if edges_ms is not None and not edges_ms[0]:
        return f"at most {_in_two_digits(edges_ms[1])} ms" if edges_ms[1] else "nothing"
    if edges_ms is None or theme.is_slide:
        return value
    return f"{value}, between {_in_two_digits(edges_ms[0])} and {_in_two_digits(edges_ms[1])}"


def _in_two_digits(value_ms: float) -> str:
    return formatting.significant(round(value_ms, 2), 2) if round(value_ms, 2) else "0"


def moments_chart(
    cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], most_steps: int, theme: Theme
) -> Drawing:
    """Draw responses and pings over time in the first round of each case, all with the same scales.

    A curve with more than `most_steps` steps is thinned.
    """
    rows = Rows(cases, _ANSWERS + _PINGS + _BETWEEN, theme, "rate_per_s")
    part = rows.marks / rows.wanted
    answers_px, pings_px = _ANSWERS * part, _PINGS * part
    climb_px = answers_px - (0 if theme.is_slide else 6)  # the curve stays below the name of the row
    first = [case[0] for case in rounds]
    end_s = max(run.record.load_s or run.record.time_s for run in first)
    most = max([1, *(_by_then(run, end_s)[-1][1] for run in first)])
    longest_s = max([0.001, *(value for run in first for value in run.record.pings.waited_s)])
    sheet = rows.sheet({"domain": [0, end_s], "nice": False}, _axis(theme))
    answers, pings, grounds, marks = [], [], [], []
    for number, run in enumerate(first):
        floor = rows.top(number) + answers_px
        ground = floor + _BETWEEN * part + pings_px
        came = _by_then(run, end_s)
        for at_s, count in [*came[:-1][:: 1 + len(came) // most_steps], came[-1]]:
            answers.append({"x": at_s, "y": floor - climb_px * count / most, "row": number})
        for due_s, waited_s in zip(run.record.pings.due_s, run.record.pings.waited_s, strict=True):
            if due_s <= end_s:
                pings.append({"x": due_s, "y": ground - max(1.5, pings_px * waited_s / longest_s), "y2": ground})
        grounds += [{"x": 0, "x2": end_s, "y": floor + 0.5}, {"x": 0, "x2": end_s, "y": ground + 0.5}]
        marks += _scales(floor, climb_px, most, ground, pings_px, longest_s) if not theme.is_slide else []
    curve = {"x": sheet.x, "y": sheet.y, "detail": kind("row"), "order": quantity("x")}
    return sheet.drawn(
        sheet.rules("grounds", grounds, color=theme.grid),
        sheet.rules("scales", [{**row, "x": 0, "x2": end_s} for row in marks], color=theme.grid, strokeDash=[2, 3]),
        sheet.of("answers", answers, "line", curve, interpolate="step-after", strokeWidth=2, color=theme.work),
        sheet.posts("pings", pings, color=theme.ping, strokeWidth=3 if not theme.is_narrow else 1.5),
        sheet.text("counts", marks[::2], 2, align="left", dy=-5, fontSize=9.5, color=theme.quiet),
        sheet.text("waits", marks[1::2], sheet.width - 2, align="right", dy=-5, fontSize=9.5, color=theme.quiet),
        *rows.texts(sheet, [_rate_and_longest(run, theme) for run in first]),
    )


def _axis(theme: Theme) -> VegaLite:
    colours = "seconds · blue: responses so far, and their rate · orange: each ping, and the longest"
    title = colours if theme.is_slide else "seconds since the siege began"
    return {"title": title, "orient": "top", "tickCount": theme.width // 100}


def _by_then(run: Round, end_s: float) -> list[tuple[float, int]]:
    """Return the points of the curve, as (seconds, responses so far), from the start to the end of the load."""
    finished_s = sorted(at for at in run.record.transactions.finished_s if at <= end_s)
    lasted_s = min(end_s, run.record.load_s or run.record.time_s)
    points = [(0.0, 0), *((at, number) for number, at in enumerate(finished_s, 1))]
    return [*points, (max(lasted_s, points[-1][0]), len(finished_s))]


def _scales(
    floor: float, answers_px: float, most: int, ground: float, pings_px: float, longest_s: float
) -> list[dict[str, object]]:
    """Return two labelled scale lines: one at the highest tick for responses, and one at the highest tick for pings."""
    count, wait_s = formatting.ticks(most, 2)[-1], formatting.ticks(longest_s, 2)[-1]
    return [
        {"y": floor - answers_px * count / most, "text": f"{count:g} response{'s'[: count != 1]}"},
        {"y": ground - pings_px * wait_s / longest_s, "text": f"a ping of {formatting.seconds(wait_s)}"},
    ]


def _rate_and_longest(run: Round, theme: Theme) -> str:
    waited_s = run.record.pings.waited_s
    rate = f"{formatting.rate(run.rate.per_s)}/s" if run.rate.per_s else "no rate"
    if theme.is_slide:
        return f"{rate}, {formatting.seconds(max(waited_s))}" if waited_s else rate
    settled = f", {rate} as measured" if run.rate.per_s else ""
    longest = f"longest ping {formatting.seconds(max(waited_s))}" if waited_s else "no pings"
    return f"{run.completed} response{'s'[: run.completed != 1]}{settled}; {longest}"
