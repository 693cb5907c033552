"""The local ports: a load tool that makes a connection for each request may use them up."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

from under_siege.model.record import Record

INTERVAL_S = 0.25
_SOCKETS = Path("/proc/net/sockstat")
_SETTINGS = Path("/proc/sys/net/ipv4")


@contextlib.asynccontextmanager
async def watching_ports(record: Record, began_s: float) -> AsyncIterator[None]:
    """Writes into the record how many are taken as long as the body runs; nothing where the system does not tell."""
    span, reuse = _words(_SETTINGS / "ip_local_port_range"), _words(_SETTINGS / "tcp_tw_reuse")
    if len(span) == 2 and all(word.isdecimal() for word in span):
        record.port_range = max(1, int(span[1]) - int(span[0]) + 1)
        record.ports_are_reused = reuse not in ([], ["0"])  # 1: always, 2: on the loopback interface, where we are
    watching = asyncio.create_task(_watch(record, began_s))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(record: Record, began_s: float) -> None:
    while (taken := taken_ports()) is not None:
        record.ports.at_s.append(round(time.monotonic() - began_s, 4))
        record.ports.taken.append(taken)
        await asyncio.sleep(INTERVAL_S)


def taken_ports() -> int | None:
    """How many TCP sockets have one, those in TIME_WAIT among them; None where the system does not tell."""
    counts = re.search(r"^TCP: inuse (\d+) .*\btw (\d+)", " ".join(_words(_SOCKETS)).replace(" TCP: ", "\nTCP: "), re.M)
    return int(counts[1]) + int(counts[2]) if counts else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # not on this system
        return []
