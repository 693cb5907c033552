"""The siege as it went on: each answer and each ping of one round, so that a stall can be seen."""

from collections.abc import Sequence

import altair as alt

from common.report import numbers
from common.report.charts.look import Drawing, Look
from common.report.charts.rows import Rows
from common.report.figures.rounds import Round
from common.report.judging.summary import Summary

_TICK, _PINGS = 8, 26  # pixels


def moments_chart(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], most_ticks: int, look: Look) -> Drawing:
    """Of the first round of each case; where it has more answers than ticks, every second or third is drawn."""
    rows = Rows(cases, _TICK + _PINGS + 2, look)
    first = [case[0] for case in rounds]
    end_s = max(one.record.load_s or one.record.time_s for one in first)
    longest_s = max([0.001, *(value for one in first for value in one.record.pings.waited_s)])
    axis = alt.Axis(title="seconds since the siege began", orient="top", tickCount=look.width // 100)
    sheet = rows.sheet(alt.Scale(domain=[0, end_s], nice=False), axis)
    answers, pings, grounds = [], [], []
    for number, one in enumerate(first):
        y, record = rows.top(number), one.record
        ground = y + _TICK + 2 + _PINGS
        finished_s = [at for at in record.transactions.finished_s if at <= end_s]
        for at in finished_s[:: 1 + len(finished_s) // most_ticks]:
            answers.append({"x": at, "y": y, "y2": y + _TICK})
        for due_s, waited_s in zip(record.pings.due_s, record.pings.waited_s, strict=True):
            if due_s <= end_s:
                tall = max(1.5, _PINGS * waited_s / longest_s)
                pings.append({"x": due_s, "y": ground - tall, "y2": ground})
        grounds.append({"x": 0, "x2": end_s, "y": ground + 0.5})
    return sheet.drawn(
        sheet.rules("grounds", grounds, color=look.grid),
        sheet.posts("answers", answers, color=look.work, strokeWidth=1.2),
        sheet.posts("pings", pings, color=look.ping, strokeWidth=3),
        *rows.texts(sheet, [_told(one) for one in first]),
    )


def _told(one: Round) -> str:
    longest_s = max(one.record.pings.waited_s, default=0.0)
    return f"{one.completed} answers above, longest ping {numbers.seconds(longest_s)} below"
