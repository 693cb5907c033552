"""Format numbers as text, for every report."""

import math
import re
from collections.abc import Callable, Sequence


def rate(per_s: float) -> str:
    """Three significant digits: `0.833`, `47.3`, `5,120`."""
    return significant(per_s)


def significant(value: float, digits: int = 3) -> str:
    """So many significant digits, thousands grouped."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def seconds(value: float) -> str:
    """`0.047 ms`, `0.83 ms`, `5.2 ms`, `37 ms`, `1.03 s`: no more than a microsecond can be told."""
    if 0.0000005 <= value < 0.000995:
        return f"{value * 1000:.{3 if value < 0.0000995 else 2}f} ms"
    if value < 0.00995:
        return f"{value * 1000:.1f} ms"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def percent(value: float) -> str:
    """`100 %`, and `99.98 %` where something is missing: nothing is rounded up to all."""
    return "100 %" if value == 100 else f"{min(value, 99.99):.2f} %"


def share(value: float) -> str:
    """`97 %` of 0.97."""
    return f"{100 * value:.0f} %"


def megabytes(size_bytes: float) -> str:
    """`72 MB`, of a million bytes each."""
    return f"{size_bytes / 1e6:.0f} MB"


def duration(value_s: float) -> str:
    """`4 s`, `1.5 s`, `2 min 5 s`."""
    if value_s < 60:
        return f"{value_s:g} s"
    minutes, rest = divmod(round(value_s), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def margin(value: float) -> str:
    """What stands behind a ±: two significant digits below ten, none behind the point above."""
    return significant(value, 2) if value < 10 else f"{value:,.0f}"


def unbroken(text: str) -> str:
    """With spaces between numbers and their units at which no line ends."""
    return re.sub(r"(?<=\d) (?=(?:ms|s|MB)\b|%)", "\N{NO-BREAK SPACE}", text)


def listed(names: Sequence[str], most: int | None = None) -> str:
    """`a, b and c`; with a limit `a, b and 7 others`."""
    if most is not None and len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def span(values: Sequence[float], text: Callable[[float], str]) -> str:
    """`3 ms to 5 ms`: the first and the last of sorted values, or one if they read the same."""
    return between(text(values[0]), text(values[-1]))


def between(low: str, high: str) -> str:
    """`3 ms to 5 ms`, or one if they are the same."""
    return low if low == high else f"{low} to {high}"


def capitalized(text: str) -> str:
    """The text with a capital at its beginning, and the rest as it is."""
    return f"{text[:1].upper()}{text[1:]}"


def ticks(most: float, count: int) -> list[float]:
    """Round values from 0 to at most that, in at most so many steps."""
    steps = (factor * 10.0**power for power in range(-6, 12) for factor in (1, 2, 5))
    step = next((step for step in steps if most / step <= max(1, count)), most)
    return [number * step for number in range(int(most / step) + 1)]
