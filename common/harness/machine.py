"""What else the machine did: a result that was made beside other work is no result."""

import contextlib
import time
from collections.abc import AsyncIterator

import psutil

from common.record import Machine, Record


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
    """What the CPUs did between two readings of `psutil.cpu_times()`.

    Of its fields, guest times are part of user time already (proc(5)), and idle ones are idle and iowait. Interrupts
    are no process's work; here they are those of our own connections.
    """
    spent = {
        name: getattr(after, name) - getattr(before, name)
        for name in getattr(after, "_fields", ())
        if name not in ("guest", "guest_nice")
    }
    total_s = sum(spent.values())
    idle_s = spent.get("idle", 0.0) + spent.get("iowait", 0.0)
    steal_s = spent.get("steal", 0.0)
    interrupts_s = spent.get("irq", 0.0) + spent.get("softirq", 0.0)
    return Machine(total_s=total_s, busy_s=total_s - idle_s - steal_s - interrupts_s, steal_s=steal_s)
