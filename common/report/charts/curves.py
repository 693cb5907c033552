"""Several numbers of users: the rate over them, a curve for each strategy."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from common.report.charts.look import Drawing, Look
from common.report.judging.rules import OK
from common.report.judging.summary import Summary
from common.report.words.columns import name_of

_CEILING = "the ceiling"
_MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]


def curves(cases: Sequence[Summary], look: Look) -> Drawing:
    """Of cases with the same task; colour, dash and mark each tell the strategies apart."""
    known = [case for case in cases if case.verdict == OK and case.rate_per_s]
    names = list(dict.fromkeys(name_of(case, known) for case in known))
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

    axis = alt.Axis(values=sorted({case.users for case in known}))
    base = alt.Chart(alt.NamedData("curves"), name="curves").encode(
        alt.X("users:Q", title="users at the same time", scale=alt.Scale(zero=False), axis=axis),
        alt.Y("rate:Q", title="transactions per second", scale=alt.Scale(zero=True)),
        alt.Color("name:N", scale=scale(colours), legend=legend),
    )
    line = base.mark_line(strokeWidth=2).encode(alt.StrokeDash("name:N", scale=scale(dashes), legend=None))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        alt.Shape("name:N", scale=scale(shapes), legend=legend)
    )
    chart = alt.layer(line, points).properties(width=look.width - 70, height=260)
    return Drawing(chart, {"curves": _rows(known)})


def _rows(known: Sequence[Summary]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in known:
        assert case.rate_per_s is not None
        rows.append({"users": case.users, "rate": case.rate_per_s.mean, "name": name_of(case, known)})
        if case.ceiling_per_s:
            rows.append({"users": case.users, "rate": case.ceiling_per_s, "name": _CEILING})
    return rows
