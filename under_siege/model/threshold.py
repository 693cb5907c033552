"""Goals: what a figure of a measurement has to be, as one writes it: `p99 < 1s`, `ping p99 < 50ms`, `rate >= 30/s`.

The operators, and `p(99)`, `med` and `http_req_duration`, are those of k6's thresholds; but a time has its unit here.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from common.errors import BadInputError

GRAMMAR = (
    "FIGURE < AMOUNT, or with <=, >, >=; FIGURE is p50, p95, p99 or max of the answers, ping p50 ... ping max, rate, "
    "of ceiling, availability, cpu or memory"
)
EXAMPLES = (
    "p99 < 1s",
    "ping p99 < 50ms",
    "rate >= 30/s",
    "availability >= 99.9%",
    "of ceiling >= 80%",
    "memory < 200MB",
    "cpu < 60ms",
)
_PERCENTILES = ("p50", "p95", "p99", "max")
_TIMES = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}
_SHARES = {"%": 0.01, "": 1.0}
_RATES = {"/s": 1.0, "/min": 1 / 60, "": 1.0}
_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_UNITS = {  # of each figure, by the name that it has in a result
    **{f"{what}_{one}_s": _TIMES for what in ("response", "ping") for one in _PERCENTILES},
    "rate_per_s": _RATES,
    "of_ceiling": _SHARES,
    "availability_pct": {"%": 1.0, "": 100.0},
    "cpu_s_per_transaction": _TIMES,
    "memory_bytes": _SIZES,
}
_FIGURES = {  # as it is written
    **{one: f"response_{one}_s" for one in _PERCENTILES},
    **{f"response {one}": f"response_{one}_s" for one in _PERCENTILES},
    **{f"ping {one}": f"ping_{one}_s" for one in _PERCENTILES},
    "rate": "rate_per_s",
    "of ceiling": "of_ceiling",
    "availability": "availability_pct",
    "cpu": "cpu_s_per_transaction",
    "memory": "memory_bytes",
}
# Of these the change between two results is estimated.
_OF_BASE = [name for name in _UNITS if name not in ("of_ceiling", "availability_pct") and not name.endswith("_max_s")]
_WORDS = re.compile(
    r"(?P<figure>[a-z_][a-z_ 0-9().]*?)\s*(?P<operator><=|>=|<|>)\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[a-zµ%/]*)"
    r"(?:\s+of\s+(?P<of>base|ceiling))?"
)
_AS_IN_K6 = {"p(": "p", ")": "", "http_req_duration": "response", "http_reqs rate": "rate", "med": "p50"}
_MOST_LETTERS = 200


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and the limit that it must keep."""

    text: str  # as it was written, with single spaces
    figure: str  # its name in a result: `ping_p99_s`, `rate_per_s`
    operator: str  # one of <, <=, >, >=
    limit: float  # in the unit of the figure's name; with `of_base` a multiple
    of_base: bool = False  # whether the limit is a multiple of what the other result has

    @property
    def is_at_most(self) -> bool:
        """Whether less is better."""
        return self.operator.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether that value keeps the limit."""
        return {
            "<": value < self.limit,
            "<=": value <= self.limit,
            ">": value > self.limit,
            ">=": value >= self.limit,
        }[self.operator]

    def decided(self, low: float, high: float) -> bool | None:
        """Whether it holds wherever in that interval the figure is; None if that depends on where."""
        kept = self.holds(low)
        return kept if kept is self.holds(high) else None


def goal(text: str) -> Goal:
    """The goal that is written so; raises BadInputError: it can't be read."""
    words = " ".join(text[:_MOST_LETTERS].split())
    found = _WORDS.fullmatch(words.lower())
    if not found:
        raise _unreadable(text)
    figure = _FIGURES.get(_plain(found["figure"]))
    if figure is None:
        raise _unreadable(text)
    of, amount, unit = found["of"], float(found["amount"]), found["unit"]
    if of == "ceiling":
        if figure != "rate_per_s":
            raise _unreadable(text)
        figure = "of_ceiling"
    if of == "base" and figure not in _OF_BASE:
        known = ", ".join(name for name, one in goal_names().items() if one in _OF_BASE)
        raise BadInputError(f"{words!r}: that figure can't be compared with base: expected one of {known}")
    units = _SHARES if of else _UNITS[figure]
    if unit not in units:
        expected = ", ".join(filter(None, units))
        raise BadInputError(f"{text!r}: {found['amount']}{unit} has no unit of that figure: expected one of {expected}")
    return Goal(words, figure, found["operator"], amount * units[unit], of == "base")


def _plain(figure: str) -> str:
    for theirs, ours in _AS_IN_K6.items():
        figure = figure.replace(theirs, ours)
    return " ".join(figure.split())


def _unreadable(text: str) -> BadInputError:
    near = difflib.get_close_matches(text.lower(), EXAMPLES, n=1, cutoff=0.3)
    return BadInputError(f"{text[:_MOST_LETTERS]!r} is no goal: expected {GRAMMAR}; such as {(near or EXAMPLES)[0]!r}")


def goal_names() -> dict[str, str]:
    """What every figure is called here, and by its name in a result."""
    return {name: figure for name, figure in _FIGURES.items() if not name.startswith("response")}


class Required(msgspec.Struct, frozen=True):
    """A requirement, as it is kept with a result. The ceiling is what others are measured against, and never meant."""

    text: str  # such as `ping p99 < 50ms`
    server: str = ""  # whose cases it is about; empty: all

    @property
    def goal(self) -> Goal:
        """What that means; raises BadInputError: it can't be read."""
        return goal(self.text)


def required(texts: Sequence[str], server: str = "") -> tuple[Required, ...]:
    """Each once, with single spaces; raises BadInputError: one can't be read."""
    return tuple(Required(text, server) for text in dict.fromkeys(goal(text).text for text in texts))


def together(*several: Sequence[Required]) -> list[Required]:
    """All of them, each once."""
    return list(dict.fromkeys(one for some in several for one in some))
