"""The siege as it went on: the answers that had come by each moment, and each ping, so that a stall can be seen."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.charts.canvas import Words, kind, quantity
from under_siege.charts.rows import Rows
from under_siege.charts.scatter import round_values
from under_siege.charts.theme import Drawing, Look
from under_siege.stats.rounds_data import Round

_ANSWERS, _PINGS, _BETWEEN = 34, 24, 5  # pixels


def moments_chart(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]], most_steps: int, look: Look) -> Drawing:
    """Of the first round of each case, all with the same scales; where there are more answers, some are left out."""
    rows = Rows(cases, _ANSWERS + _PINGS + _BETWEEN, look, "rate_per_s")
    part = rows.marks / rows.wanted
    answers_px, pings_px = _ANSWERS * part, _PINGS * part
    climb_px = answers_px - (0 if look.is_slide else 6)  # below the name of the row
    first = [case[0] for case in rounds]
    end_s = max(one.record.load_s or one.record.time_s for one in first)
    most = max([1, *(_by_then(one, end_s)[-1][1] for one in first)])
    longest_s = max([0.001, *(value for one in first for value in one.record.pings.waited_s)])
    sheet = rows.sheet({"domain": [0, end_s], "nice": False}, _axis(look))
    answers, pings, grounds, marks = [], [], [], []
    for number, one in enumerate(first):
        floor = rows.top(number) + answers_px
        ground = floor + _BETWEEN * part + pings_px
        came = _by_then(one, end_s)
        for at_s, count in [*came[:-1][:: 1 + len(came) // most_steps], came[-1]]:
            answers.append(
                {
                    "x": at_s,
                    "y": floor - climb_px * count / most,
                    "row": number,
                }
            )
        for due_s, waited_s in zip(one.record.pings.due_s, one.record.pings.waited_s, strict=True):
            if due_s <= end_s:
                pings.append({"x": due_s, "y": ground - max(1.5, pings_px * waited_s / longest_s), "y2": ground})
        grounds += [{"x": 0, "x2": end_s, "y": floor + 0.5}, {"x": 0, "x2": end_s, "y": ground + 0.5}]
        marks += _scales(floor, climb_px, most, ground, pings_px, longest_s) if not look.is_slide else []
    curve = {"x": sheet.x, "y": sheet.y, "detail": kind("row"), "order": quantity("x")}
    return sheet.drawn(
        sheet.rules("grounds", grounds, color=look.grid),
        sheet.rules("scales", [{**row, "x": 0, "x2": end_s} for row in marks], color=look.grid, strokeDash=[2, 3]),
        sheet.of("answers", answers, "line", curve, interpolate="step-after", strokeWidth=2, color=look.work),
        sheet.posts("pings", pings, color=look.ping, strokeWidth=3 if not look.is_narrow else 1.5),
        sheet.text("counts", marks[::2], 2, align="left", dy=-5, fontSize=9.5, color=look.quiet),
        sheet.text("waits", marks[1::2], sheet.width - 2, align="right", dy=-5, fontSize=9.5, color=look.quiet),
        *rows.texts(sheet, [_told(one, look) for one in first]),
    )


def _axis(look: Look) -> Words:
    """Of the seconds; on a slide it says what the colours are, too."""
    colours = "seconds · blue: answers so far, and their rate · orange: each ping, and the longest"
    title = colours if look.is_slide else "seconds since the siege began"
    return {"title": title, "orient": "top", "tickCount": look.width // 100}


def _by_then(one: Round, end_s: float) -> list[tuple[float, int]]:
    """The moments at which answers came, and how many there were by then; 0 at the beginning, all at the end."""
    finished_s = sorted(at for at in one.record.transactions.finished_s if at <= end_s)
    lasted_s = min(end_s, one.record.load_s or one.record.time_s)
    told = [(0.0, 0), *((at, number) for number, at in enumerate(finished_s, 1))]
    return [*told, (max(lasted_s, told[-1][0]), len(finished_s))]


def _scales(
    floor: float, answers_px: float, most: int, ground: float, pings_px: float, longest_s: float
) -> list[dict[str, object]]:
    """A round number of answers, and a round time of a ping, as lines at their height."""
    count, wait_s = round_values(most, 2)[-1], round_values(longest_s, 2)[-1]
    return [
        {"y": floor - answers_px * count / most, "text": f"{count:g} answers"},
        {"y": ground - pings_px * wait_s / longest_s, "text": f"a ping of {formatting.seconds(wait_s)}"},
    ]


def _told(one: Round, look: Look) -> str:
    longest_s = max(one.record.pings.waited_s, default=0.0)
    rate = f"{formatting.rate(one.rate.per_s)}/s" if one.rate.per_s else "no rate"
    if look.is_slide:
        return f"{rate}, {formatting.seconds(longest_s)}"
    settled = f", {rate} as measured" if one.rate.per_s else ""
    return f"{one.completed} answers{settled}; longest ping {formatting.seconds(longest_s)}"
