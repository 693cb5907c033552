"""Parse goals. A goal is a limit for a metric, such as `p99 < 1s`, `ping p99 < 50ms` or `rate >= 30/s`.

The operators and the names `p(99)`, `med` and `http_req_duration` are from k6's thresholds. Unlike in k6, times need a
unit.
"""

import difflib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from common.errors import BadInputError

GRAMMAR = (
    "METRIC < LIMIT (or <=, >, >=), where METRIC is p50, p95, p99, max, ping p50, ping p95, ping p99, ping max, rate, "
    "of ceiling, availability, cpu or memory"
)
EXAMPLES = (
    *("p99 < 1s", "ping p99 < 50ms", "rate >= 30/s", "availability >= 99.9%", "of ceiling >= 80%", "memory < 200MB"),
    "cpu < 60ms",
)
_PERCENTILES = ("p50", "p95", "p99", "max")
_TIMES = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}
_SHARES = {"%": 0.01, "": 1.0}
_RATES = {"/s": 1.0, "/min": 1 / 60, "": 1.0}
_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_FIGURES = {  # name in a goal: (name in a result, units)
    **{name: (f"response_{name}_s", _TIMES) for name in _PERCENTILES},
    **{f"response {name}": (f"response_{name}_s", _TIMES) for name in _PERCENTILES},
    **{f"ping {name}": (f"ping_{name}_s", _TIMES) for name in _PERCENTILES},
    "rate": ("rate_per_s", _RATES),
    "of ceiling": ("of_ceiling", _SHARES),
    "availability": ("availability_pct", {"%": 1.0, "": 100.0}),
    "cpu": ("cpu_s_per_transaction", _TIMES),
    "memory": ("memory_bytes", _SIZES),
}
_GOAL = re.compile(
    r"(?P<figure>[a-z_][a-z_ 0-9().]*?)\s*(?P<operator><=|>=|<|>)\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[a-zµ%/]*)"
    r"(?:\s+of\s+(?P<of>base|ceiling))?"
)
_K6_NAMES = {"p(": "p", ")": "", "http_req_duration": "response", "http_reqs rate": "rate", "med": "p50"}
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_MAX_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Goal:
    """A metric and its limit."""

    text: str  # as the user wrote it, with single spaces
    figure: str  # the name of the metric in a result: `ping_p99_s`, `rate_per_s`
    operator: str
    limit: float  # in the unit of the metric or, if `of_base` is set, as a multiple of the base
    of_base: bool = False

    @property
    def is_at_most(self) -> bool:
        """Return whether the limit is an upper limit."""
        return self.operator.startswith("<")

    def holds(self, value: float) -> bool:
        return bool(_OPERATORS[self.operator](value, self.limit))

    def decided(self, low: float, high: float) -> bool | None:
        """Return True if the goal holds in the whole interval, False if it holds nowhere in it, and None otherwise."""
        is_held = self.holds(low)
        return is_held if is_held is self.holds(high) else None


def goal(text: str) -> Goal:
    """Return the parsed goal; raise BadInputError if it is invalid."""
    normalized = " ".join(text[:_MAX_LENGTH].split())
    match = _GOAL.fullmatch(normalized.lower())
    name = match["figure"] if match else ""
    for theirs, ours in _K6_NAMES.items():
        name = name.replace(theirs, ours)
    figure, units = _FIGURES.get(" ".join(name.split()), ("", {}))
    if not match or not figure or (match["of"] == "ceiling" and figure != "rate_per_s"):
        example = (difflib.get_close_matches(text.lower(), EXAMPLES, n=1, cutoff=0.3) or EXAMPLES)[0]
        raise BadInputError(f"{text[:_MAX_LENGTH]!r} is not a goal: expected {GRAMMAR}; for example {example!r}")
    if match["of"] == "ceiling":
        figure = "of_ceiling"
    of_base = match["of"] == "base"
    if of_base and not _has_base(figure):
        metrics = ", ".join(name for name, other in goal_names().items() if _has_base(other))
        raise BadInputError(f"{normalized!r}: this metric can't be compared with the base; use one of {metrics}")
    amount, unit = match["amount"], match["unit"]
    if match["of"]:
        units = _SHARES
    if unit not in units:
        raise BadInputError(_unit_error(normalized, unit, units, match.start("unit")))
    return Goal(normalized, figure, match["operator"], float(amount) * units[unit], of_base)


def _unit_error(text: str, unit: str, units: Mapping[str, float], position: int) -> str:
    """Return an error message such as `p99 < 1: missing unit; use us, µs, ms, s, m or min, as in p99 < 1s`."""
    *others, last = filter(None, units)
    expected = f"{', '.join(others)} or {last}" if others else last
    usual = next(name for name in ("s", "/s", "%", "mb") if name in units)
    example = f"{text[:position].rstrip()}{usual}{text[position + len(unit) :]}"
    return f"{text}: {f'unknown unit {unit!r}' if unit else 'missing unit'}; use {expected}, as in {example}"


def _has_base(figure: str) -> bool:
    """Return whether the bench estimates how this metric changes between two results."""
    return figure not in ("of_ceiling", "availability_pct") and not figure.endswith("_max_s")


def goal_names() -> dict[str, str]:
    """Return a dict that maps each metric's name in goals to its name in results."""
    return {name: figure for name, (figure, _) in _FIGURES.items() if not name.startswith("response")}


class Required(msgspec.Struct, frozen=True):
    """A requirement that the cases of a result, except the ceiling, must meet."""

    text: str  # such as `ping p99 < 50ms`
    server: str = ""  # empty: applies to all servers

    @property
    def goal(self) -> Goal:
        """Return the parsed goal; raise BadInputError if it is invalid."""
        return goal(self.text)


def required(texts: Sequence[str], server: str = "") -> tuple[Required, ...]:
    """Return the distinct requirements; raise BadInputError if one is invalid."""
    return tuple(Required(text, server) for text in dict.fromkeys(goal(text).text for text in texts))
