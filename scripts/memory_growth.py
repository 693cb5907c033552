#!/usr/bin/env python3
"""Measure how much the memory of each server grows between 2,000 and 20,000 requests.

    .venv/bin/python scripts/memory_growth.py 2 4 --out memory.json

A third of the requests run a task of half a millisecond, a third are pings, and the clients of the last third
disconnect before the response. The measurement takes about 40 s
per server. To print a saved table again, use measured_table.py.
"""

import argparse
import asyncio
import contextlib
import os
import shlex
import sys
import time
from pathlib import Path

import aiohttp
from measured_table import Cell, MeasuredTable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.workers import usable_cpus
from under_siege import formatting
from under_siege.drill.drill_run import drill_plan
from under_siege.drill.faults import CONTROL
from under_siege.drill.loaded_server import FaultContext, Users, warm_server
from under_siege.host.interpreter import interpreter
from under_siege.host.resource_usage import tree_usage
from under_siege.host.services import Services
from under_siege.measure.plan import Plan
from under_siege.paths import PACKAGE
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Incident
from under_siege.record.requests import CORRECT, REFUSED, Requests
from under_siege.suite.expected_response import try_task
from under_siege.suite.selection import suite_of

CPU_S = 0.0005
FIRST_REQUESTS, STAY_S = 2_000, 0.005
IDLE_LIMIT_S = 30.0  # longest wait until the server has finished the requests of disconnected clients
MB, LITTLE = 1e6, 1.01


async def measure(options: argparse.Namespace) -> None:
    """Measure each server and print a line for it; save the table if `--out` is given."""
    python = interpreter(options.python)
    plan, _ = drill_plan(suite_of(options.servers), [CONTROL], {"python": [python.path]}, rounds=1, seed=1)
    print(f"{'server':<26}{'after':>7}{FIRST_REQUESTS:>7,}{options.requests:>9,}    growth   responses  refused")
    rows = {}
    for case in plan.cases:
        try:
            first, last = await _measure_server(plan, case, options)
        except CaseFailedError as failed:
            print(f"{case.server:<26}{failed}", flush=True)
            continue
        rows[case.server] = {
            f"after {FIRST_REQUESTS:,} requests": Cell(first, formatting.megabytes(first)),
            f"after {options.requests:,} requests": Cell(last, formatting.megabytes(last)),
            "growth": Cell(last / first, f"{100 * (last / first - 1):.0f} %" if last > LITTLE * first else "below 1 %"),
        }
    if options.out:
        what = f"{options.users} users · Python {python.version} · {usable_cpus()} cores"
        memory = "memory: PSS of all processes of the idle server, measured once"
        arguments = [*options.servers, "--requests", str(options.requests)]
        command = shlex.join(["scripts/memory_growth.py", *arguments])
        MeasuredTable(command, f"{what} · {memory}", rows).save(options.out)


async def _measure_server(plan: Plan, case: Case, options: argparse.Namespace) -> tuple[float, float]:
    """Print a line for the server, and return its memory in bytes after the first requests and after all requests."""
    expected = await try_task(str(case.task), plan.python_of(case))
    incident = Incident(server=case.server, title="", values=dict(case.values), fault=CONTROL, round=1)
    async with warm_server(plan, case, expected, Services(), 1) as context_of:
        context = context_of(incident)
        context.tasks.set_cpu_time(CPU_S)
        requests, sizes = Requests(), []
        for count in (FIRST_REQUESTS, options.requests - FIRST_REQUESTS):
            await _send(context, requests, count, options.users)
            await _wait_until_idle(context)
            usage = tree_usage(context.server.pid) if context.server.pid else None
            sizes.append(float(usage.memory_bytes) if usage else float("nan"))
    first, last = sizes
    right, refused = requests.outcome.count(CORRECT), requests.outcome.count(REFUSED)
    growth = f"{(last - first) / MB:+.1f} MB"
    print(
        f"{case.server:<26}{'MB':>7}{first / MB:>7.1f}{last / MB:>9.1f}{growth:>10}{right:>10,}{refused:>9,}",
        flush=True,
    )
    return first, last


async def _send(context: FaultContext, requests: Requests, count: int, users: int) -> None:
    """Send `count` requests; each user sends its next request when the previous one is finished."""
    numbers = iter(range(count))

    async def user(client: Users) -> None:
        for number in numbers:
            if number % 3 == 0:
                await client.send(requests)
            elif number % 3 == 1:
                await _ping(context)
            else:
                await client.disconnect(1, STAY_S)

    await asyncio.gather(*(user(context.users) for _ in range(users)))


async def _wait_until_idle(context: FaultContext) -> None:
    deadline_s = time.monotonic() + IDLE_LIMIT_S
    while not await context.is_idle() and time.monotonic() < deadline_s:
        pass


async def _ping(context: FaultContext) -> None:
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with context.session.get(f"{context.server.url}/ping", timeout=aiohttp.ClientTimeout(5)) as pong:
            await pong.read()


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", metavar="SERVER", help="as for bench.py run (default: all)")
    parser.add_argument(
        "--requests", type=int, default=20_000, metavar="N", help="total number of requests (default: 20,000)"
    )
    parser.add_argument("--users", type=int, default=32, metavar="N", help="concurrent users (default: 32)")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="Python that runs the servers")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the table for measured_table.py")
    folders = [str(PACKAGE / "drill" / "task"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)  # for drill_task
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
