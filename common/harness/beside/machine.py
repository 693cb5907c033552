"""What else the machine did: a result that was made beside other work is no result."""

import contextlib
import time
from collections.abc import AsyncIterator

import psutil

from common.model.record import Machine, Record


@contextlib.asynccontextmanager
async def watching_machine(record: Record) -> AsyncIterator[None]:
    """Writes into the record what all CPUs, and this program itself, did while the body ran."""
    before, own_before_s = psutil.cpu_times(), time.process_time()
    try:
        yield
    finally:
        record.bench_cpu_s = time.process_time() - own_before_s
        record.machine = machine_between(before, psutil.cpu_times())
        record.load_average_after = psutil.getloadavg()[0]


def machine_between(before: object, after: object) -> Machine:
    """What the CPUs did between two readings of `psutil.cpu_times()`."""
    spent = _fields(after)
    for name, earlier_s in _fields(before).items():
        spent[name] -= earlier_s
    return Machine(
        total_s=sum(spent.values()),
        busy_s=_busy_s(spent),
        steal_s=spent.get("steal", 0.0),
        idle_s=spent.get("idle", 0.0) + spent.get("iowait", 0.0),
    )


def busy_s(times: object) -> float:
    """How long a CPU has worked for processes, from a reading of `psutil.cpu_times()`."""
    return _busy_s(_fields(times))


def _fields(times: object) -> dict[str, float]:
    """Guest times are left out: they are part of user time already (proc(5))."""
    names = getattr(times, "_fields", ())
    return {name: getattr(times, name) for name in names if name not in ("guest", "guest_nice")}


def _busy_s(spent: dict[str, float]) -> float:
    """Interrupts are no process's work; here they are those of our own connections."""
    others = ("idle", "iowait", "steal", "irq", "softirq")
    return sum(spent.values()) - sum(spent.get(name, 0.0) for name in others)
