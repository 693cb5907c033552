"""Chart how metrics depend on axes: as curves along a numeric axis, or as a heat map of several loads or axes."""

import math
from collections.abc import Sequence

from under_siege import formatting
from under_siege.judge.metric import Metric
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.sweep import Sweep
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import axis
from under_siege.show.case_names import CaseNames, in_plain_words, short
from under_siege.show.charts import Chart, Rows, kind, layer, quantity
from under_siege.show.columns import with_first_text

_TIMES = "datum.value < 1000 ? format(datum.value, '~g') + ' ms' : format(datum.value / 1000, '~g') + ' s'"
_WIDE_RANGE = 16  # an axis is logarithmic if its largest value is at least this multiple of its smallest


def curves(comparison: Comparison, sweep: Sweep, over: Metric) -> Chart:
    """Chart the metric `over` along the numeric axis of a sweep, as one curve for each strategy."""
    rows, along = _rows(comparison, sweep, over), sweep.along
    ceilings = [
        {"along": at, "value": comparison.cases[place].ceiling_per_s}
        for line in sweep.lines
        for at, place in zip(line.numbers, line.places, strict=True)
        if over.key == "rate_per_s" and comparison.cases[place].ceiling_per_s
    ]
    values = sorted({row["along"] for row in rows})
    is_wide = bool(values) and values[0] > 0 and values[-1] >= _WIDE_RANGE * values[0]
    scale = {"type": "log", "nice": False} if is_wide else {"zero": False}
    title = "concurrent users" if along == "users" else along
    x = quantity("along", title=title, scale=scale, axis={"values": values, "format": "~g"})
    of_values = with_first_text(over.chart_title, comparison.cases)
    y = quantity("value", title=f"{of_values}{' · dashed: the ceiling' if ceilings else ''}")
    if over.is_logarithmic:
        y |= {"scale": {"type": "log"}, "axis": {"labelExpr": _TIMES, "tickCount": 5}}
    names = list(dict.fromkeys(row["name"] for row in rows))
    colour, shape = (kind("name", scale={"domain": names}) for _ in ("color", "shape"))
    limit = {"x": x, "y": {**y, "aggregate": "mean"}}
    return {
        "data": {"values": rows},
        "width": "container",
        "height": 300,
        "layer": [
            {"data": {"values": ceilings}, **layer("line", "limit", limit)},
            layer("line", "line", {"x": x, "y": y, "color": colour}, strokeWidth=2),
            layer("rule", "rule", {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}),
            layer("point", "point", {"x": x, "y": y, "color": colour, "shape": shape}, filled=True, size=70),
        ],
    }


def _rows(comparison: Comparison, sweep: Sweep, over: Metric) -> Rows:
    """Return a row with the metric and its interval for each case of the sweep."""
    rows: Rows = []
    names, factor = CaseNames(comparison.cases), over.unit.chart_factor
    for line in sweep.lines:
        name = names.name(line.case, without=[sweep.along])
        for at, place in zip(line.numbers, line.places, strict=True):
            found = comparison.cases[place].metrics.get(over.key)
            if found is not None and found.value:
                low, high = (None, None) if found.interval is None or math.isinf(found.interval[1]) else found.interval
                values = {"value": found.value, "low": low, "high": high}
                scaled = {name: None if value is None else value * factor for name, value in values.items()}
                rows.append({"along": at, "name": name, **scaled})
    return rows


def heat_map(cases: Sequence[Summary]) -> Chart:
    """Chart a cell for each case with its rate and its share of the ceiling; larger shares have stronger colours."""
    names = CaseNames(cases)
    headings = {
        setting: "\n".join(axis(name).label(value or "") for name, value in zip(names.across, setting, strict=True))
        for setting in names.settings
    }
    rows = [
        {"name": _name(case, names), "setting": heading, "text": _text(case), "share": _share(case)}
        for case in cases
        for setting, heading in headings.items()
        if names.is_shown_in(case.case, setting)
    ]
    columns = {"style": "columns", "orient": "top"}
    x = kind("setting", title=None, sort=list(headings.values()), axis=columns)
    y = kind("name", title=None, sort=None, axis={"style": "rows"})
    opacity = quantity("share", scale={"domain": [0, 1], "range": [0.05, 0.55], "round": False}, legend=None)
    return {
        "data": {"values": rows},
        "width": "container",
        "height": {"step": 44},
        "layer": [
            layer("rect", "cell", {"x": x, "y": y, "opacity": opacity}),
            layer("text", "cell_text", {"x": x, "y": y, "text": kind("text")}),
        ],
    }


def _name(case: Summary, names: CaseNames) -> str:
    name, plain = names.name(case.case, without=names.across), in_plain_words(case.server, case.title)
    return name if plain == case.server else f"{plain} ({short(case.server)}){name.removeprefix(case.server)}"


def _text(case: Summary) -> str:
    if case.verdict == FAILED or case.rate_per_s is None:
        return case.verdict
    share = formatting.share(case.of_ceiling.mean) if case.of_ceiling is not None else ""
    star = " ★" if case.rank == 1 else ""
    return f"{formatting.rate(case.rate)}/s{star}\n{share if case.verdict == OK else case.verdict}"


def _share(case: Summary) -> float:
    return min(1.0, case.of_ceiling.mean) if case.of_ceiling and case.verdict == OK else 0.0
