"""Several values on an axis of numbers, such as the users: the rate over them, a curve for each strategy."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from common.report.charts.look import Drawing, Look
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import label

_CEILING = "the ceiling"
_MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]


def curves(cases: Sequence[Summary], along: str, look: Look) -> Drawing:
    """Of cases that differ along that axis; colour, dash and mark each tell the strategies apart."""
    known = [one for one in cases if one.verdict == OK and one.rate_per_s and one.case.get(along) is not None]
    names = list(dict.fromkeys(label(one, known, without=[along]) for one in known))
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=1 if look.is_narrow else 3,
        labelColor=look.ink,
        labelFontSize=12,
        symbolSize=120,
    )
    count = range(len(names))
    colours = [look.lines[number % len(look.lines)] for number in count] + [look.limit]
    dashes = [[1, 0] if number < len(look.lines) else [2, 2] for number in count] + [[6, 3]]
    shapes = [_MARKS[number % len(_MARKS)] for number in count] + ["stroke"]

    def scale(values: list[Any]) -> alt.Scale:
        return alt.Scale(domain=[*names, _CEILING], range=values)

    axis = alt.Axis(values=sorted({float(one.case.get(along) or 0) for one in known}), format="~g")
    title = "users at the same time" if along == "users" else along
    base = alt.Chart(alt.NamedData("curves"), name="curves").encode(
        alt.X("along:Q", title=title, scale=alt.Scale(zero=False), axis=axis),
        alt.Y("rate:Q", title="transactions per second", scale=alt.Scale(zero=True)),
        alt.Color("name:N", scale=scale(colours), legend=legend),
    )
    line = base.mark_line(strokeWidth=2).encode(alt.StrokeDash("name:N", scale=scale(dashes), legend=None))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        alt.Shape("name:N", scale=scale(shapes), legend=legend)
    )
    chart = alt.layer(line, points).properties(width=look.width - 70, height=260)
    return Drawing(chart, {"curves": _rows(known, along)})


def _rows(known: Sequence[Summary], along: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one in known:
        assert one.rate_per_s is not None
        at = one.case.get(along)
        rows.append({"along": at, "rate": one.rate_per_s.mean, "name": label(one, known, without=[along])})
        if one.ceiling_per_s:
            rows.append({"along": at, "rate": one.ceiling_per_s, "name": _CEILING})
    return rows
