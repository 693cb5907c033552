"""Format numbers, ranges, lists of names, and untrusted text."""

import math
import re
from collections.abc import Callable, Sequence

# Control characters, characters that change the writing direction, other invisible characters (Unicode's Cc, Cf, Zl, Zp
# and Default_Ignorable_Code_Point), and surrogates, which UTF-8 can't encode.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ILLEGIBLE = re.compile(f"[{_HIDDEN}]")
_STYLE_OF_EMOJI = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff])[\ufe0e\ufe0f]")


def rate(per_s: float) -> str:
    """Format a rate with three significant digits, such as `0.833`, `47.3` or `5,120`."""
    return significant(per_s)


def significant(value: float, digits: int = 3) -> str:
    """Format a number with `digits` significant digits, and with commas as thousands separators."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def seconds(value: float) -> str:
    """Format seconds as a time, such as `0.047 ms`, `5.2 ms`, `37 ms` or `1.03 s`, without digits below 1 µs."""
    if 0.0000005 <= value < 0.000995:
        return f"{value * 1000:.{3 if value < 0.0000995 else 2}f} ms"
    if value < 0.00995:
        return f"{value * 1000:.1f} ms"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def seconds_or(value: float | None, missing: str) -> str:
    """Format seconds as a time, or return `missing` if they are unknown."""
    return missing if value is None else seconds(value)


def percent(value: float) -> str:
    """Format a percentage, such as `99.98 %`; return `100 %` only for exactly 100."""
    return "100 %" if value == 100 else f"{min(value, 99.99):.2f} %"


def share(value: float) -> str:
    """Format a fraction as a percentage, such as `97 %` for 0.97."""
    return f"{100 * value:.0f} %"


def megabytes(size_bytes: float) -> str:
    """Format a size, such as `72 MB`; 1 MB is a million bytes."""
    return f"{size_bytes / 1e6:.0f} MB"


def duration(value_s: float) -> str:
    """Format a duration, such as `4 s`, `1.5 s` or `2 min 5 s`."""
    if value_s < 60:
        return f"{value_s:g} s"
    minutes, rest = divmod(round(value_s), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 request` or `8 requests`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def with_margin(text: str, value: float, low: float | None, high: float | None) -> str:
    """Append half the width of the interval of a value: ` ± 0.83`, or ` ± > 100 %` if only the magnitude is known."""
    if low is None or high is None:
        return text
    half = (high - low) / 2
    if half > value:
        return f"{text} ± > 100 %"
    return f"{text} ± {significant(half, 2) if half < 10 else f'{half:,.0f}'}"


def unbroken(text: str) -> str:
    """Replace the spaces between numbers and units with no-break spaces."""
    return re.sub(r"(?<=\d) (?=(?:ms|s|MB)\b|%)", "\N{NO-BREAK SPACE}", text)


def listed(names: Sequence[str], most: int | None = None, word: str = "and") -> str:
    """Join names, as in `a, b and c`; replace two or more beyond `most` with a count, as in `a, b and 7 others`."""
    if most is not None and len(names) > most + 1:
        names = [*names[:most], f"{len(names) - most} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def span(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Format the range of sorted values, such as `3 ms to 5 ms`, or `3 ms` if both ends have the same text."""
    return between(text(values[0]), text(values[-1]))


def between(low: str, high: str) -> str:
    """Join two texts, as in `3 ms to 5 ms`, or return one of them if they are equal."""
    return low if low == high else f"{low} to {high}"


def cut(text: str, most: int) -> str:
    """Shorten a text in its middle, because the beginning says what failed, and the end says where and why."""
    rest = most // 3
    return text if len(text) <= most else f"{text[:rest]} … {text[rest + 3 - most :]}"


def capitalized(text: str) -> str:
    """Capitalize the first letter and leave the rest unchanged."""
    return f"{text[:1].upper()}{text[1:]}"


def ticks(most: float, count: int) -> list[float]:
    """Return round tick values from 0 to at most `most`, with at most `count` steps."""
    steps = (factor * 10.0**power for power in range(-6, 12) for factor in (1, 2, 5))
    step = next((step for step in steps if most / step <= max(1, count)), most)
    return [number * step for number in range(int(most / step) + 1)]


def legible(text: str, *, lines: bool = False) -> str:
    """Replace invisible characters with `\ufffd` and, unless `lines` is set, line breaks and tabs with spaces."""
    if text.isascii() and text.isprintable():
        return text
    text = _STYLE_OF_EMOJI.sub("", text)
    return _ILLEGIBLE.sub("\ufffd", text.replace("\r\n", "\n") if lines else re.sub(r"[\t\n\r]+", " ", text))
