#!/usr/bin/env python3
"""Replace two instances of a server, one after the other, and count the lost requests.

    .venv/bin/python scripts/rolling_update.py uvicorn granian

The servers are those of suites/questions/13-rolling-updates. A simulated load balancer sends 100 requests per second to
the instances in turn, each over a new connection. For each old instance, the script starts a new instance and waits
until it is ready. Then, as in Kubernetes, the old instance is stopped while the load balancer still uses it: requests
arrive for another 1 s. With a preStop delay, the old instance gets SIGTERM only after that delay, which the script
reads from deployment.yaml. The measurement of all servers takes about 90 s.

With --in-flight, the script stops one instance while it handles 8 requests of 3 s each, and counts the lost requests.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from measured_table import Cell, MeasuredTable, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from under_siege import formatting
from under_siege.host.managed_process import until, until_signal
from under_siege.host.services import Services
from under_siege.load.background import cancel
from under_siege.load.http_client import client
from under_siege.measure.plan import Plan, make_plan
from under_siege.measure.prepare import with_environments
from under_siege.measure.server import Server, running
from under_siege.measure.server_readiness import until_ready
from under_siege.show.progress_bar import ProgressBar
from under_siege.suite.selection import suite_of

SUITE = Path(__file__).resolve().parents[1] / "suites" / "questions" / "13-rolling-updates"
PATH = "/report?seconds=0.1"
PER_S = 100
TIMEOUT_S = 5.0
LAG_S = 1.0  # how long the load balancer keeps sending requests to an instance that is being stopped
BEFORE_S = 0.5  # how long the load runs before the update
GRACE_PERIOD_S = 30.0  # Kubernetes kills an instance that takes longer to stop
IN_FLIGHT = 8
IN_FLIGHT_PATH = "/report?seconds=3"
SIGTERM_AT_S = 1.0
DELAY = "preStop"
VARIANTS = {
    "uvicorn": ("uvicorn", False),
    f"uvicorn, {DELAY}": ("uvicorn", True),
    "gunicorn": ("gunicorn", False),
    f"gunicorn, {DELAY}": ("gunicorn", True),
    "granian": ("granian", False),
    f"granian, {DELAY}": ("granian", True),
    "uvicorn, delay in the app": ("drain", False),
}

IN_FLIGHT_VARIANTS = {
    "uvicorn": "uvicorn",
    "uvicorn --timeout-graceful-shutdown 1": "uvicorn-1s",
    "gunicorn": "gunicorn",
    "gunicorn --graceful-timeout 1": "gunicorn-1s",
    "granian": "granian",
    "granian --workers-kill-timeout 1": "granian-1s",
}


def pre_stop_s() -> float:
    """Return the delay of the preStop hook in deployment.yaml."""
    match = re.search(r"preStop:\s+sleep: {seconds: (\d+)}", (SUITE / "deployment.yaml").read_text())
    assert match
    return float(match[1])


@dataclass
class LoadBalancer:
    """Send requests to the instances in turn at a fixed rate, and count the lost requests."""

    session: aiohttp.ClientSession
    instances: list[Server] = field(default_factory=list)
    sent: int = 0
    lost: int = 0

    async def send(self, instance: Server, path: str = PATH) -> None:
        """Send one request, and count it as lost unless the status is 200."""
        self.sent += 1
        try:
            limit = aiohttp.ClientTimeout(TIMEOUT_S)
            async with self.session.get(instance.url + path, timeout=limit) as response:
                await response.read()
                self.lost += response.status != 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.lost += 1

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Send requests while the context is active, and wait for all responses at the end."""
        began_s, waiting = time.monotonic(), []

        async def send_at_fixed_rate() -> None:
            for number in itertools.count():
                await asyncio.sleep(began_s + number / PER_S - time.monotonic())
                waiting.append(asyncio.ensure_future(self.send(self.instances[number % len(self.instances)])))

        sending = asyncio.ensure_future(send_at_fixed_rate())
        try:
            yield
        finally:
            await cancel([sending])
            await asyncio.gather(*waiting)


async def stop(instance: Server, delay_s: float) -> float:
    """Send SIGTERM after the delay, and return the seconds until the process has exited, including the delay."""
    began_s = time.monotonic()
    await asyncio.sleep(delay_s)
    assert instance.pid is not None
    os.kill(instance.pid, signal.SIGTERM)
    await until(lambda: not instance.alive(), GRACE_PERIOD_S - delay_s)
    return time.monotonic() - began_s


async def update(plan: Plan, server: str, delay_s: float) -> dict[str, Cell]:
    """Replace two instances of the server under load, and return the table row of this variant."""
    async with contextlib.AsyncExitStack() as stack:
        balancer = LoadBalancer(await stack.enter_async_context(client()))

        async def start() -> Server:
            return await stack.enter_async_context(ready_instance(plan, server, balancer.session))

        async def remove(instance: Server) -> None:
            await asyncio.sleep(LAG_S)
            balancer.instances.remove(instance)

        old = [await start(), await start()]
        balancer.instances += old
        gone_s = []
        async with balancer.load():
            await asyncio.sleep(BEFORE_S)
            for instance in old:
                balancer.instances.append(await start())
                took_s, _ = await asyncio.gather(stop(instance, delay_s), remove(instance))
                gone_s.append(took_s)
    return row(balancer, statistics.mean(gone_s))


async def stop_in_flight(plan: Plan, server: str) -> dict[str, Cell]:
    """Stop an instance while it handles requests, and return the table row of this variant."""
    async with client() as session, ready_instance(plan, server, session) as instance:
        balancer = LoadBalancer(session)
        requests = [asyncio.ensure_future(balancer.send(instance, IN_FLIGHT_PATH)) for _ in range(IN_FLIGHT)]
        await asyncio.sleep(SIGTERM_AT_S)
        exit_s = await stop(instance, 0.0)
        await asyncio.gather(*requests)
    return row(balancer, exit_s)


@contextlib.asynccontextmanager
async def ready_instance(plan: Plan, server: str, session: aiohttp.ClientSession) -> AsyncIterator[Server]:
    """Run an instance of the server, and yield it once it is ready."""
    case = next(case for case in plan.cases if case.server == server)
    async with running(plan, case, None, Services()) as instance:
        await until_ready(instance, session)
        yield instance


def row(balancer: LoadBalancer, exit_s: float) -> dict[str, Cell]:
    """Return the table row of a variant."""
    return {
        "requests": Cell(balancer.sent, f"{balancer.sent:,}"),
        "lost": Cell(balancer.lost, f"{balancer.lost:,}"),
        "instance stopped after": Cell(exit_s, formatting.seconds(exit_s)),
    }


async def measure(options: argparse.Namespace) -> None:
    """Measure each variant, and print and save the table."""
    plan = make_plan(suite_of([str(SUITE)]), {}, time_s=None, rounds=1)
    with ProgressBar(0, quiet=True) as progress:
        plan = await with_environments(plan, progress)
    delay_s, rows = pre_stop_s(), {}
    if options.in_flight:
        for title, server in IN_FLIGHT_VARIANTS.items():
            rows[title] = await stop_in_flight(plan, server)
        conditions = f"SIGTERM {SIGTERM_AT_S:g} s after the start of {IN_FLIGHT} requests of 3 s each"
    else:
        for name, (server, is_delayed) in VARIANTS.items():
            if not options.servers or server in options.servers:
                title = name.replace(DELAY, f"{DELAY} {delay_s:g} s")
                rows[title] = await update(plan, server, delay_s if is_delayed else 0.0)
        conditions = (
            f"2 instances, replaced one after the other · {PER_S} requests/s of 100 ms\n"
            f"the load balancer uses an instance until {LAG_S:g} s after its stop began"
        )
    measured = MeasuredTable(" ".join(["scripts/rolling_update.py", *sys.argv[1:]]), conditions, rows)
    show(measured)
    if options.out:
        measured.save(options.out)


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(dict.fromkeys(server for server, _ in VARIANTS.values()))
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--in-flight", action="store_true", help="instead, stop instances that handle long requests")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the table in this file")
    options = parser.parse_args()
    if unknown := set(options.servers) - set(names):
        parser.error(f"unknown servers: {', '.join(sorted(unknown))}; expected {', '.join(names)}")
    sys.exit(1 if until_signal(measure(options)) else 0)


if __name__ == "__main__":
    main()
