"""Several loads, or values on several axes: a heat map of strategies and settings."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.charts.canvas import Sheet, quantity
from under_siege.charts.theme import Drawing, Look
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.case import Value, axis
from under_siege.report.labels import across, at, cases_of, in_plain_words, label, short

_CELL, _HEAD = 44, 38  # pixels
_LETTER = 7  # pixels, about
FEW_LETTERS = 4
Setting = tuple[Value | None, ...]  # values on the axes across


def heat_map(cases: Sequence[Summary], look: Look) -> Drawing:
    """A cell for each case with its rate and its share of the ceiling: the stronger, the nearer to it."""
    axes = across(cases_of(cases))
    settings = list(dict.fromkeys(setting for one in cases if None not in (setting := at(one.case, axes))))
    called = {label(one, cases, without=axes): _plainly(one, cases, axes) for one in cases}
    names = list(called)
    shown = [_narrow(name) if look.is_narrow else called[name] for name in names]
    left = 240 if not look.is_narrow else 30 if max(map(len, shown)) <= FEW_LETTERS else 90
    width = look.width - left - 10
    wide = width / len(settings)
    sheet = Sheet(width, _HEAD + _CELL * len(names), {"domain": [0, width], "nice": False}, None)
    cells, rates, shares = [], [], []
    placed = [(one, place) for one in cases for place in _columns(at(one.case, axes), settings)]
    for case, place in placed:
        x, y = wide * place, _HEAD + _CELL * names.index(label(case, cases, without=axes))
        share = min(1.0, case.of_ceiling.mean if case.of_ceiling else 0.0) if case.verdict == OK else 0.0
        cells.append({"x": x + 1, "x2": x + wide - 1, "y": y + 1, "y2": y + _CELL - 1, "share": 0.05 + 0.5 * share})
        best = " ★" if case.rank == 1 else ""
        rates.append({"x": x + wide / 2, "y": y + 15, "text": _rate(case) + best})
        shares.append({"x": x + wide / 2, "y": y + 31, "text": _share(case)})
    heads = [
        {"x": wide * (place + 0.5), "y": 10 + 16 * line, "text": text}
        for place, setting in enumerate(settings)
        for line, text in enumerate(_heading(axes, setting, wide))
    ]
    labels = [{"y": _HEAD + _CELL * (row + 0.5), "text": name} for row, name in enumerate(shown)]
    size = 10 if look.is_narrow else 12
    return sheet.drawn(
        sheet.bars("cells", cells, {"opacity": quantity("share", scale=None)}, color=look.work),
        sheet.text("rates", rates, fontSize=size + 1, fontWeight="bold", color=look.ink),
        sheet.text("shares", shares, fontSize=size, color=look.ink),
        sheet.text("heads", heads, fontSize=size, fontWeight="bold", color=look.ink),
        sheet.text("names", labels, -8, align="right", fontSize=12, color=look.ink),
    )


def _columns(values: Setting, settings: Sequence[Setting]) -> list[int]:
    """Where a case stands: what does not depend on an axis, at each value of that."""
    return [
        place
        for place, setting in enumerate(settings)
        if all(value in (None, wanted) for value, wanted in zip(values, setting, strict=True))
    ]


def _heading(axes: Sequence[str], setting: Setting, wide: float) -> list[str]:
    """The values of a column, each in a line and as long as there is room for; numbers without a word if need be."""
    most, told = int(wide / _LETTER), []
    for name, value in zip(axes, setting, strict=True):
        brief = str(value).split(":")[-1]
        words = axis(name).told(value if isinstance(value, int) else brief)
        told.append(words if len(words) <= most else brief if len(brief) <= most else f"{brief[: most - 1]}…")
    return told


def _plainly(case: Summary, cases: Sequence[Summary], axes: Sequence[str]) -> str:
    """In plain words, with its number."""
    name, plain = label(case, cases, without=axes), in_plain_words(case.server, case.title)
    return name if plain == case.server else f"{plain} ({short(case.server)}){name.removeprefix(case.server)}"


def _narrow(name: str) -> str:
    """`4` of `4_async_processexecutor`, and `4 3.14.7` of it on that Python."""
    server, *rest = name.split(" ")
    return " ".join([short(server), *(word for word in rest if any(map(str.isdigit, word)))])


def _rate(case: Summary) -> str:
    if case.verdict == FAILED or case.rate_per_s is None:
        return "failed"
    return f"{formatting.rate(case.usual_rate_per_s)}/s"


def _share(case: Summary) -> str:
    if case.verdict != OK:
        return case.verdict if case.verdict != FAILED else ""
    return formatting.share(case.of_ceiling.mean) if case.of_ceiling is not None else ""
