"""What can be true of a result: a file may come from anybody, and the report counts with what it says."""

from collections.abc import Iterator
from typing import Any

import msgspec

LONGEST_S, MOST = 1e6, 10**6  # far beyond any siege, and still nothing that the report could not allocate
FAR_S, LARGEST = 1e10, 2**53

# From where to where the numbers of a field may be, whatever it is a field of.
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("round", "rounds", "workers", "usable_cpus", "cpus"), (1, MOST)),
    "answer_bytes": (-1, LARGEST),
    "warm_up_answers": (0, LARGEST),
    "warm_up_cpu_s": (0, FAR_S),
    **dict.fromkeys(("size_bytes", "memory_bytes", "socket_failures", "tool_unknown"), (0, LARGEST)),
    **dict.fromkeys(("time_s", "finished_s", "waited_s", "idle_answer_s", "ready_s", "warm_s"), (0, LONGEST_S)),
    **dict.fromkeys(
        ("stop_s", "case_s", "tool_cpu_s", "bench_cpu_s", "services_cpu_s", "server_cpu_s"), (0, LONGEST_S)
    ),
    **dict.fromkeys(("alone_wall_s", "alone_cpu_s", "cpu_s", "total_s"), (0, FAR_S)),
    **dict.fromkeys(("due_s", "sent_s", "answered_s", "at_s", "alone_at_s"), (-LONGEST_S, LONGEST_S)),
    **dict.fromkeys(("busy_s", "steal_s", "idle_s", "load_began_s"), (-FAR_S, FAR_S)),
    **dict.fromkeys(("user", "cpu", "alone_on_cpu"), (-1, MOST)),
    **dict.fromkeys(("load_average", "load_average_after", "processes"), (0, MOST)),
    **dict.fromkeys(
        ("right", "wrong_status", "wrong_contents", "unanswered", "connect_errors", "kept_alive", "body_bytes"),
        (0, LARGEST),
    ),
    "odd_bytes": (0, LARGEST),
    **dict.fromkeys(("p50_s", "p95_s", "p99_s", "max_s"), (0, LONGEST_S)),
    **dict.fromkeys(("ended_s", "fault_at_s", "seen_until_s"), (-LONGEST_S, LONGEST_S)),
    "arrivals_per_s": (1e-6, MOST),
    "seen": (-LARGEST, LARGEST),
    **dict.fromkeys(("recovery_answers", "recovery_processes"), (0, MOST)),
    **dict.fromkeys(("taken", "tool_awake", "generator_awake"), (0, MOST)),
    **dict.fromkeys(("port_range", "tool_cpus"), (1, MOST)),
    "began_s": (-LONGEST_S, LONGEST_S),
    **dict.fromkeys(("status", "answer_status"), (0, 999)),
    "schema": (1, MOST),
    "seed": (-(10.0**300), 10.0**300),
}
_RANGES_IN: dict[tuple[str, str], tuple[float, float]] = {  # of fields that others have, too
    ("Record", "load_s"): (1e-3, LONGEST_S),
    ("Transactions", "took_s"): (0, LONGEST_S),
    ("Bursts", "took_s"): (1e-6, LONGEST_S),
    ("Beats", "took_s"): (0, LONGEST_S),
    ("Record", "tool_step_s"): (0, LONGEST_S),
}
_NUMBERS = ("users", "workers")  # axes whose values are whole numbers
_TABLES = (
    "Transactions",
    "Bursts",
    "Pings",
    "Checks",
    "TracedRequests",
    "Beats",
    "CpuTimes",
    "Samples",
    "Ports",
    "Requests",
    "Recovery",
    "Arrivals",
)
_MAY_LACK = (
    "memory_bytes",
    "odd_bytes",
    "wrong_contents",
    "waited_s",
)  # what is not known of the bare case, or of older ones


def faults(result: msgspec.Struct) -> Iterator[str]:
    """What can't be true of it, each in a few words."""
    yield from _faults(result, "")


def _faults(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, msgspec.Struct):
        if type(value).__name__ in _TABLES:
            yield from _unequal(value, where)
            yield from _back_in_time(value, where)
        for name in value.__struct_fields__:
            yield from _field(value, name, f"{where}.{name}" if where else name)
    elif isinstance(value, list) and value and isinstance(value[0], msgspec.Struct):
        for place, one in enumerate(value):
            yield from _faults(one, f"{where}[{place}]")


def _field(struct: msgspec.Struct, name: str, where: str) -> Iterator[str]:
    value = getattr(struct, name)
    limits = _RANGES_IN.get((type(struct).__name__, name)) or _RANGES.get(name)
    if name == "ran_s":
        yield from _stretches(value, where)
    elif name == "values":
        yield from _values(value, where)
    elif limits is None:
        yield from _faults(value, where)
    else:
        columns = (
            [[*value.values()]]
            if name == "seen"
            else value.values()
            if isinstance(value, dict)
            else [value if isinstance(value, list) else [value]]
        )
        for column in columns:
            yield from _beyond([number for number in column if number is not None], limits, where)


def _values(values: dict[str, Any], where: str) -> Iterator[str]:
    """On axes that are known: a number where one is meant."""
    for axis, value in values.items():
        if axis in _NUMBERS and not isinstance(value, int):
            yield f"{where}.{axis} is not a number"
        elif isinstance(value, int):
            yield from _beyond([value], (1, MOST) if axis in _NUMBERS else (-LARGEST, LARGEST), f"{where}.{axis}")


def _beyond(numbers: list[float], limits: tuple[float, float], where: str) -> Iterator[str]:
    if numbers and not limits[0] <= (least := min(numbers)):
        yield f"{where} is {least:.6g}"
    elif numbers and not (most := max(numbers)) <= limits[1]:
        yield f"{where} is {_short(most)}"


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


def _stretches(requests: list[list[tuple[float, float, float | None]]], where: str) -> Iterator[str]:
    for since, to, cpu_s in (stretch for request in requests for stretch in request):
        if not -LONGEST_S <= since <= to <= LONGEST_S or not 0 <= (cpu_s or 0) <= LONGEST_S:
            yield f"{where} has a stretch from {_short(since)} to {_short(to)}"
            return
