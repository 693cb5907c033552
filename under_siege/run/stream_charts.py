"""Chart streams: how long users wait for the first event, and how long the gaps between events are."""

from collections.abc import Sequence

import numpy as np

from under_siege import formatting
from under_siege.judge.estimators import Waits, together
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import EventTimes, Summary
from under_siege.run.charts import in_rows, names_of
from under_siege.show.charts import TIME, Chart, Rows, kind, layer, quantity
from under_siege.show.columns import with_first_text

GAPS, FIRST = "gaps between events", "first event"
_LEAST_S = 0.0005  # shorter times are drawn at this value, because the axis is logarithmic


def stream_chart(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], marks_each: int) -> Chart:
    """Chart the distributions of first events and gaps of each case, which all have streams.

    Args:
        marks_each: marks per distribution; each represents an equal share of the events.
    """
    names = names_of(cases, [_text(case.gap_s) for case in cases], "gap_p99_s")
    first = with_first_text(FIRST, cases)
    colours = {GAPS: "var(--line-0)", first: "var(--line-1)"}
    marks: Rows = []
    medians: Rows = []
    for name, runs in zip(names, rounds, strict=True):
        streams = [run.streams for run in runs if run.streams]
        for what, samples in (
            (GAPS, [each.gaps for each in streams]),
            (first, [each.first_events for each in streams]),
        ):
            drawn = [
                {"row": name, "kind": what, "wait_s": value} for value in _quantiles(together(samples), marks_each)
            ]
            marks += drawn
            medians += drawn[len(drawn) // 2 : len(drawn) // 2 + 1] if len(drawn) > marks_each // 2 else []
    longest_s = max([0.1, *(float(mark["wait_s"]) for mark in marks)])
    powers = [10.0**power for power in range(-3, 4) if 10.0**power <= longest_s * 2]
    scale = {"type": "log", "domain": [_LEAST_S, longest_s * 2], "nice": False}
    axis = {"orient": "top", "values": powers, "labelExpr": TIME}
    x = quantity("wait_s", title="waiting time of users, logarithmic", scale=scale, axis=axis)
    colour = kind("kind", scale={"domain": list(colours), "range": list(colours.values())}, legend={"orient": "top"})
    place = {"x": x, "color": colour, "yOffset": kind("kind", scale={"domain": list(colours)})}
    return in_rows(
        names,
        marks,
        layer("tick", "wait", place, opacity=0.4, thickness=2, height={"band": 0.7}),
        {"data": {"values": medians}, **layer("tick", "wait", dict(place), thickness=4, height={"band": 0.9})},
    )


def _quantiles(samples: Waits, count: int) -> list[float]:
    """Return evenly spaced quantiles, as far as they were reached."""
    shares = (np.arange(count) + 0.5) * 100 / count
    return [max(_LEAST_S, value) for share in shares if (value := samples.percentile(float(share))) is not None]


def _text(gap: EventTimes | None) -> str:
    if gap is None:
        return "no gaps"
    longest = f"> {formatting.seconds(gap.max)}"
    p50, p99 = (longest if each is None else formatting.seconds(each) for each in (gap.p50, gap.p99))
    return f"gap p50 {p50}, p99 {p99}"


def headline(cases: Sequence[Summary]) -> str:
    """Return a sentence that compares the gaps of the cases."""
    known = [(case.gap_s.p99, case) for case in cases if case.gap_s and case.gap_s.p99 is not None]
    if not known:
        return "No server sent enough events to tell how long its gaps are"
    (shortest_s, best), (longest_s, worst) = min(known, key=lambda pair: pair[0]), max(known, key=lambda pair: pair[0])
    if longest_s < 1.5 * shortest_s:
        return f"Gaps (p99) are similar: up to {formatting.seconds(longest_s)}"
    return (
        f"Gaps (p99) take {formatting.seconds(shortest_s)} with {best.server}, "
        f"but {formatting.seconds(longest_s)} with {worst.server}"
    )
