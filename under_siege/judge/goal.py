"""Parse goals. A goal is a limit for a metric, such as `p99 < 1s`, `ping p99 < 50ms` or `rate >= 30/s`.

The operators and the names `p(99)`, `med` and `http_req_duration` are from k6's thresholds. Unlike in k6, times need a
unit.
"""

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from common.errors import BadInputError
from under_siege.judge.metrics import METRICS
from under_siege.judge.units import SHARES
from under_siege.record.result import Required

NAMES = {metric.name: metric for metric in METRICS.values() if metric.name}  # the metrics that goals can limit
_FULL_NAMES = NAMES | {f"response {name}": each for name, each in NAMES.items() if each.key.startswith("response_")}
EXAMPLES = (
    *("p99 < 1s", "ping p99 < 50ms", "rate >= 30/s", "availability >= 99.9%", "of ceiling >= 80%", "memory < 200MB"),
    "cpu < 60ms",
)
_GOAL = re.compile(
    r"(?P<name>.+?)\s*(?P<operator><=|>=|<|>)\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[a-zµ%/]*)"
    r"(?:\s+of\s+(?P<of>base|ceiling))?"
)
OF_REQUESTS = ("response_p50_s", "response_p99_s", "availability_pct")  # metrics of single requests
_REQUEST = re.compile(r"((?:GET|POST|PUT|PATCH|DELETE)(?:/[A-Z]+)* /\S*) ")
_K6_NAMES = {"p(": "p", ")": "", "http_req_duration": "response", "http_reqs rate": "rate", "med": "p50"}
_OTHER_NAMES = {**_K6_NAMES, "first text": "first event"}  # the latter is its name in tables if only text counts
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_MAX_LENGTH = 200
# Returns the key of the metric with this name, and its units in goals; the key is empty if there is no such metric.
Lookup = Callable[[str], tuple[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A metric and its limit."""

    text: str  # as the user wrote it, with single spaces
    figure: str  # the key of the metric: `ping_p99_s`, `rate_per_s`
    operator: str
    limit: float  # in the unit of the metric or, if `of_base` is set, as a multiple of the base
    of_base: bool = False
    request: str = ""  # the request of a mix that it limits, such as `GET /list`; empty: all requests

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


def in_table(name: str) -> tuple[str, Mapping[str, float]]:
    """Look up a metric in the table, by its name, its name in k6, or its name in tables."""
    for theirs, ours in _OTHER_NAMES.items():
        name = name.replace(theirs, ours)
    metric = _FULL_NAMES.get(" ".join(name.split()))
    return (metric.key, metric.unit.factors) if metric else ("", {})


def goal(text: str) -> Goal:
    """Return the parsed goal; raise BadInputError if it is invalid."""
    request = _REQUEST.match(" ".join(text[:_MAX_LENGTH].split()))
    if request:
        return _of_request(request[1], text[request.end() :])
    found = parsed(text, in_table)
    if found.of_base and not has_base(found.figure):
        names = ", ".join(name for name, metric in NAMES.items() if has_base(metric.key))
        raise BadInputError(f"{found.text!r}: this metric can't be compared with the base; use one of {names}")
    return found


def _of_request(request: str, text: str) -> Goal:
    """Return the goal for one request of a mix."""
    found = parsed(text, in_table)
    if found.figure not in OF_REQUESTS:
        names = ", ".join(name for name, metric in NAMES.items() if metric.key in OF_REQUESTS)
        raise BadInputError(f"{request} {text}: this metric is not known for single requests; use one of {names}")
    return replace(found, text=f"{request} {found.text}", request=request)


def parsed(text: str, lookup: Lookup) -> Goal:
    """Return the parsed goal for a metric that the function finds; raise BadInputError if it is invalid."""
    normalized = " ".join(text[:_MAX_LENGTH].split())
    match = _GOAL.fullmatch(normalized.lower())
    figure, units = lookup(match["name"]) if match else ("", {})
    if not match or not figure or (match["of"] == "ceiling" and figure != "rate_per_s"):
        raise BadInputError(f"{text[:_MAX_LENGTH]!r} is not a goal: expected {_grammar()}; for example {_like(text)!r}")
    if match["of"]:
        figure, units = ("of_ceiling" if match["of"] == "ceiling" else figure), SHARES
    unit = match["unit"]
    if unit not in units:
        raise BadInputError(_unit_error(normalized, unit, units, match.start("unit")))
    return Goal(normalized, figure, match["operator"], float(match["amount"]) * units[unit], match["of"] == "base")


def _grammar() -> str:
    *others, last = NAMES
    return f"METRIC < LIMIT (or <=, >, >=), where METRIC is {', '.join(others)} or {last}"


def _like(text: str) -> str:
    """Return the example that is most similar to the text."""
    return (difflib.get_close_matches(text.lower(), EXAMPLES, n=1, cutoff=0.3) or EXAMPLES)[0]


def _unit_error(text: str, unit: str, units: Mapping[str, float], position: int) -> str:
    """Return an error message such as `p99 < 1: missing unit; use us, µs, ms, s, m or min, as in p99 < 1s`."""
    *others, last = filter(None, units)
    expected = f"{', '.join(others)} or {last}" if others else last
    usual = next(name for name in ("s", "/s", "%", "mb") if name in units)
    example = f"{text[:position].rstrip()}{usual}{text[position + len(unit) :]}"
    return f"{text}: {f'unknown unit {unit!r}' if unit else 'missing unit'}; use {expected}, as in {example}"


def has_base(figure: str) -> bool:
    """Return whether the bench estimates how this metric changes between two results."""
    return METRICS[figure].of_round is not None


def required(texts: Sequence[str], server: str = "") -> tuple[Required, ...]:
    """Return the distinct requirements; raise BadInputError if one is invalid."""
    return tuple(Required(text, server) for text in dict.fromkeys(goal(text).text for text in texts))
