"""Chart how metrics depend on axes: as curves along a numeric axis, or as a heat map of several loads or axes."""

import math
from collections.abc import Sequence

from under_siege import formatting
from under_siege.judge.metric import Metric
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.sweep import number
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import Value, axis
from under_siege.show.case_names import across, at, cases_of, in_plain_words, label, name_of, with_name
from under_siege.show.charts import Chart, Rows, kind, layer, quantity
from under_siege.show.columns import with_first_text

_TIMES = "datum.value < 1000 ? format(datum.value, '~g') + ' ms' : format(datum.value / 1000, '~g') + ' s'"
_WIDE_RANGE = 16  # an axis is logarithmic if its largest value is at least this multiple of its smallest


def curves(comparison: Comparison, places: Sequence[int], along: str, over: Metric) -> Chart:
    """Chart the metric `over` of the cases at `places` along a numeric axis, as one curve for each strategy."""
    rows = _rows(comparison, places, along, over)
    ceilings = [
        {"along": number(case.case.get(along)), "value": case.ceiling_per_s}
        for case in (comparison.cases[place] for place in places)
        if over.key == "rate_per_s" and case.verdict == OK and case.ceiling_per_s
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


def _rows(comparison: Comparison, places: Sequence[int], along: str, over: Metric) -> Rows:
    """Return a row with the metric and its interval for each `ok` case."""
    rows: Rows = []
    cases, factor = cases_of(comparison.cases), over.unit.chart_factor
    for place in places:
        case, at = comparison.cases[place], number(comparison.cases[place].case.get(along))
        found = case.metrics.get(over.key) if case.verdict == OK and at is not None else None
        if found is not None and found.value:
            low, high = (None, None) if found.interval is None or math.isinf(found.interval[1]) else found.interval
            values = {"value": found.value, "low": low, "high": high}
            scaled = {name: None if value is None else value * factor for name, value in values.items()}
            rows.append({"along": at, "name": name_of(case.case, cases, without=[along]), **scaled})
    return rows


def heat_map(cases: Sequence[Summary]) -> Chart:
    """Chart a cell for each case with its rate and its share of the ceiling; larger shares have stronger colours."""
    axes = across(cases_of(cases))
    settings = list(dict.fromkeys(setting for case in cases if None not in (setting := at(case.case, axes))))
    rows = [
        {
            "name": _name(case, cases, axes),
            "setting": _heading(axes, setting),
            "text": _text(case),
            "share": _share(case),
        }
        for case in cases
        for setting in settings
        # A case without a value on an axis appears under all values.
        if all(value in (None, wanted) for value, wanted in zip(at(case.case, axes), setting, strict=True))
    ]
    columns = {"style": "columns", "orient": "top"}
    x = kind("setting", title=None, sort=[_heading(axes, setting) for setting in settings], axis=columns)
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


def _heading(axes: Sequence[str], setting: Sequence[Value | None]) -> str:
    """Return the heading of a column, with a line for each value."""
    return "\n".join(axis(name).label(value) for name, value in zip(axes, setting, strict=True) if value is not None)


def _name(case: Summary, cases: Sequence[Summary], axes: Sequence[str]) -> str:
    name, plain = label(case, cases, without=axes), in_plain_words(case.server, case.title)
    return (
        name
        if plain == case.server
        else f"{with_name(plain, case.server, is_narrow=True)}{name.removeprefix(case.server)}"
    )


def _text(case: Summary) -> str:
    if case.verdict == FAILED or case.rate_per_s is None:
        return case.verdict
    share = formatting.share(case.of_ceiling.mean) if case.of_ceiling is not None else ""
    star = " ★" if case.rank == 1 else ""
    return f"{formatting.rate(case.rate)}/s{star}\n{share if case.verdict == OK else case.verdict}"


def _share(case: Summary) -> float:
    return min(1.0, case.of_ceiling.mean) if case.of_ceiling and case.verdict == OK else 0.0
