"""Limits of the values in a result file, which may come from anybody, and which the report computes with."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

LONGEST_S, MOST = 1e6, 10**6  # far beyond any siege, and still nothing that the report could not allocate
FAR_S, LARGEST = 1e10, 2**53

Positive = Annotated[int, Meta(ge=1, le=MOST)]
Few = Annotated[int, Meta(ge=0, le=MOST)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Bytes = Annotated[int, Meta(ge=-1, le=LARGEST)]  # -1: they differ
Number = Annotated[int, Meta(ge=-1, le=MOST)]  # of a CPU or a user; -1: not known
Status = Annotated[int, Meta(ge=0, le=999)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
PositiveSeconds = Annotated[float, Meta(ge=1e-6, le=LONGEST_S)]  # something is divided by them
CpuSeconds = Annotated[float, Meta(ge=0, le=FAR_S)]
Moment = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]  # since the load began, which may be later
Clock = Annotated[float, Meta(ge=-FAR_S, le=FAR_S)]
Share = Annotated[float, Meta(ge=0, le=MOST)]  # of a CPU
Rate = Annotated[float, Meta(ge=1e-6, le=MOST)]
Seen = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]

_NUMBERS = ("users", "workers")  # axes whose values are whole numbers
_TABLES = (
    *("Transactions", "Bursts", "Pings", "Checks", "TracedRequests", "Beats"),
    *("CpuTimes", "Samples", "Ports", "Requests", "Recovery", "Arrivals"),
)
_MAY_LACK = ("memory_bytes", "odd_bytes", "wrong_contents", "waited_s")  # unknown without a server, or in older files


def faults(result: msgspec.Struct) -> Iterator[str]:
    """What can't be true of it, each in a few words."""
    yield from _faults(result, "")


def _faults(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, msgspec.Struct):
        if type(value).__name__ in _TABLES:
            yield from _unequal(value, where)
            yield from _back_in_time(value, where)
        for name in value.__struct_fields__:
            yield from _field(getattr(value, name), name, f"{where}.{name}" if where else name)
    elif isinstance(value, list) and value and isinstance(value[0], msgspec.Struct):
        for place, one in enumerate(value):
            yield from _faults(one, f"{where}[{place}]")


def _field(value: Any, name: str, where: str) -> Iterator[str]:
    if name == "ran_s":
        yield from _spans(value, where)
    elif name == "values":
        yield from _values(value, where)
    else:
        yield from _faults(value, where)


def _values(values: dict[str, Any], where: str) -> Iterator[str]:
    """Yield axes whose value is no number, or too small or large."""
    for axis, value in values.items():
        least, most = (1, MOST) if axis in _NUMBERS else (-LARGEST, LARGEST)
        if axis in _NUMBERS and not isinstance(value, int):
            yield f"{where}.{axis} is not a number"
        elif isinstance(value, int) and not least <= value <= most:
            yield f"{where}.{axis} is {_short(value)}"


def _short(number: float) -> str:
    return f"{number:.6g}" if abs(number) < FAR_S**2 else "huge"


def _unequal(table: msgspec.Struct, where: str) -> Iterator[str]:
    """A table whose columns have not the same number of entries."""
    lengths: dict[tuple[str, int], int] = {}
    for name in table.__struct_fields__:
        column = getattr(table, name)
        columns = list(column.values()) if isinstance(column, dict) else [column]
        lengths |= {(name, place): len(one) for place, one in enumerate(columns) if one or name not in _MAY_LACK}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for (name, _), length in lengths.items())
        yield f"{where} has columns of different lengths: {told[:200]}"


def _back_in_time(table: msgspec.Struct, where: str) -> Iterator[str]:
    """What is told from moment to moment, by each CPU for itself."""
    last: dict[int, float] = {}
    at_s = getattr(table, "at_s", [])
    for at, cpu in zip(at_s, getattr(table, "cpu", [0] * len(at_s)), strict=False):
        if at < last.get(cpu, at):
            yield f"{where}.at_s goes back in time"
            return
        last[cpu] = at


def _spans(requests: list[list[tuple[float, float, float | None]]], where: str) -> Iterator[str]:
    for since, to, cpu_s in (span for request in requests for span in request):
        if not -LONGEST_S <= since <= to <= LONGEST_S or not 0 <= (cpu_s or 0) <= LONGEST_S:
            yield f"{where} has a span from {_short(since)} to {_short(to)}"
            return
