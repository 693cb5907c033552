#!/usr/bin/env python3
"""Simulate how often a Kubernetes liveness probe would restart a container, based on the pings in a result file.

    .venv/bin/python scripts/simulate_probes.py results/questions/11-health-check-timeouts.json.gz

A probe fails if the ping at that moment took longer than timeoutSeconds or was not answered. After failureThreshold
consecutive failures, the container is restarted. The first restart is immediate; the next ones are delayed by 10, 20,
40 s, ..., at most 5 min. The delay is reset after 10 min without a restart (defaults of the kubelet). While the
container starts, probes fail.

A simulated hour lasts longer than the load, so the moments of the probes are drawn by a stationary bootstrap (Politis
and Romano 1994, doi:10.1080/01621459.1994.10476870). From one probe to the next, the simulation moves on in the same
round or jumps to a random moment of a random round. The time between jumps is exponentially distributed, by default
with a mean of 2 s, so successive pings stay together. Pings due before the first response are omitted.

Lost requests are those that would have been answered at the measured rate while the container was down, plus one
in-flight request of each user per restart. A server that stops gracefully completes some of its in-flight requests.
"""

import argparse
import math
import random
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_table import Cell, MeasuredTable, show

from common.errors import BadInputError
from under_siege import formatting
from under_siege.host.limits import LIMITS
from under_siege.judge.round_statistics import Round
from under_siege.load.request import PING_INTERVAL_S
from under_siege.record.record import Record
from under_siege.record.result import Result, load
from under_siege.show.case_names import in_words

HOUR_S, STRETCH_S = 3600.0, 2.0
FIRST_DELAY_S = 10.0  # the kubelet's first restart delay
LONGEST_DELAY_S = 300.0
RESET_S = 600.0  # when its delays are reset


class Probe(NamedTuple):
    """The settings of a liveness probe."""

    period_s: float = 10.0
    timeout_s: float = 1.0
    threshold: int = 3

    def __str__(self) -> str:
        return f"{self.period_s:g}/{self.timeout_s:g}/{self.threshold}"


DEFAULT = Probe()


class Outcome(NamedTuple):
    """The restarts and the downtime in a simulated period."""

    restarts: int
    down_s: float


class PingClock:
    """Draw the latencies of pings at successive moments from measured rounds, by a stationary bootstrap.

    Args:
        rounds: the latencies of each round, in the order in which the pings were due; infinite if there was no
            response.
        interval_s: the time between two pings.
        stretch_s: the mean time between jumps.
    """

    def __init__(
        self, rounds: Sequence[Sequence[float]], interval_s: float, stretch_s: float, chance: random.Random
    ) -> None:
        self._rounds = rounds
        self._interval_s = interval_s
        self._stretch_s = stretch_s
        self._chance = chance
        self._sizes = [len(each) for each in rounds]
        self._at_s = -math.inf
        self._round, self._position_s = rounds[0], 0.0

    def latency_s(self, at_s: float) -> float:
        """Return the latency of a ping that is due at this moment, which must be later than the previous moment."""
        passed_s, self._at_s = at_s - self._at_s, at_s
        if self._chance.random() < math.exp(-passed_s / self._stretch_s):
            self._position_s += passed_s
        else:
            [self._round] = self._chance.choices(self._rounds, self._sizes)
            self._position_s = self._chance.uniform(0, len(self._round) * self._interval_s)
        return self._round[int(self._position_s / self._interval_s) % len(self._round)]


def simulate(
    pings: PingClock,
    probe: Probe,
    ready_s: float,
    chance: random.Random,
    lasts_s: float = HOUR_S,
    first_delay_s: float = FIRST_DELAY_S,
) -> Outcome:
    """Simulate a container under constant load, starting at the moment when it is ready.

    Args:
        ready_s: the time from the container's start to its first response.
        first_delay_s: the delay before the second restart; with 0, no restart is delayed.
    """
    at_s = chance.uniform(0, probe.period_s)
    started_s = 0.0
    ready_at_s = 0.0
    delay_s = 0.0
    failures = 0
    restarts = 0
    down_s = 0.0
    while at_s < lasts_s:
        if at_s >= started_s:
            has_failed = at_s < ready_at_s or pings.latency_s(at_s) > probe.timeout_s
            failures = failures + 1 if has_failed else 0
        if failures == probe.threshold:
            killed_s, failures = at_s + probe.timeout_s, 0
            if not restarts or killed_s - started_s > RESET_S:
                delay_s = 0.0
            else:
                delay_s = min(LONGEST_DELAY_S, 2 * delay_s or first_delay_s)
            restarts, started_s = restarts + 1, killed_s + delay_s
            ready_at_s = started_s + ready_s
            down_s += max(0.0, min(ready_at_s, lasts_s) - killed_s)
        at_s += probe.period_s
    return Outcome(restarts, down_s)


def latencies_s(record: Record) -> list[float]:
    """Return the latencies of the pings due after the first response; by then, all users have sent a request."""
    first_s = min(record.requests.only("load").ended_s, default=0.0)
    rows = record.requests.only("ping")
    pings = sorted(
        (due_s, ended_s - due_s, problem)
        for due_s, ended_s, problem in zip(rows.due_s, rows.ended_s, rows.problem, strict=True)
    )
    return [math.inf if problem else waited_s for due_s, waited_s, problem in pings if due_s >= first_s]


class Server:
    """The measured rounds of one server under load."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.users = records[0].users
        self.rounds = [latencies_s(record) for record in records]
        self.ready_s = statistics.median(record.ready_s or 0.0 for record in records)
        self.per_s = statistics.fmean(Round(record).rate.per_s or 0.0 for record in records)

    def late(self, timeout_s: float) -> float:
        """Return the share of pings that took longer than the timeout."""
        pings = [waited_s for latencies in self.rounds for waited_s in latencies]
        return sum(waited_s > timeout_s for waited_s in pings) / len(pings)

    def outcomes(self, probe: Probe, options: argparse.Namespace) -> list[Outcome]:
        """Return the outcome of each simulated hour."""
        chance = random.Random(options.seed)  # noqa: S311 (not for secrets)
        hours = range(options.hours)
        clocks = (PingClock(self.rounds, PING_INTERVAL_S, options.stretch, chance) for _ in hours)
        return [simulate(clock, probe, self.ready_s, chance) for clock in clocks]

    def row(self, probes: Sequence[Probe], options: argparse.Namespace) -> dict[str, Cell]:
        """Return the table row of the server: the details for the first probe, and the restarts for every probe."""
        cells: dict[str, Cell] = {}
        for probe in probes:
            outcomes = self.outcomes(probe, options)
            restarts = statistics.fmean(outcome.restarts for outcome in outcomes)
            down_s = statistics.fmean(outcome.down_s for outcome in outcomes)
            if probe == probes[0]:
                late, lost = self.late(probe.timeout_s), self.per_s * down_s + self.users * restarts
                cells[f"pings > {probe.timeout_s:g} s"] = Cell(late, formatting.share(late))
            cells[f"restarts/h {probe}"] = Cell(restarts, count(restarts))
            if probe == probes[0]:
                cells["down"] = Cell(down_s / HOUR_S, formatting.share(down_s / HOUR_S))
                cells["lost/h"] = Cell(lost, f"{lost:,.0f}")
        return cells


def count(value: float) -> str:
    """Format a mean count as text; return `0` only if the count is exactly zero."""
    if 0 < value < 0.1:
        return "< 0.1"
    return f"{value:.0f}" if value >= 10 or not value else f"{value:.1f}"


def name_of(record: Record) -> str:
    """Return the server and its limits, such as `pool (0.5 CPUs)`."""
    limits = in_words(record.case, LIMITS)
    return f"{record.server} ({limits})" if limits else record.server


def table_of(result: Result, probes: Sequence[Probe], options: argparse.Namespace, command: str) -> MeasuredTable:
    """Simulate each probe for each server that has pings; raise BadInputError if no server has pings."""
    measured = [record for record in result.records if latencies_s(record) and not record.failure]
    if not measured:
        raise BadInputError("no server has pings; measure a suite with a [ping] table")
    names = sorted({name_of(record) for record in measured})
    servers = {name: Server([record for record in measured if name_of(record) == name]) for name in names}
    users, machine = max(server.users for server in servers.values()), result.environment
    conditions = (
        f"restarts per hour of constant load from {users} users, by periodSeconds/timeoutSeconds/failureThreshold\n"
        f"down, lost/h: share of time, and requests lost, with {probes[0]}\n"
        f"simulated from measured pings: {options.hours} hours for each cell, seed {options.seed}\n"
        f"{machine.available_cpus:g} CPUs · Python {', '.join(machine.pythons)}"
    )
    return MeasuredTable(command, conditions, {name: server.row(probes, options) for name, server in servers.items()})


def probe_of(text: str) -> Probe:
    """Parse a probe such as `10/1/3`: its period, timeout and threshold."""
    try:
        period, timeout, threshold = text.split("/")
        return Probe(float(period), float(timeout), int(threshold))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected PERIOD/TIMEOUT/THRESHOLD, such as 10/1/3") from None


def main() -> None:
    """Simulate, print the table and save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result of bench.py run")
    parser.add_argument(
        "--probe",
        type=probe_of,
        action="append",
        metavar="PERIOD/TIMEOUT/THRESHOLD",
        help="settings of a probe, with times in seconds; may be repeated (default: 10/1/3, 10/5/3 and 10/10/6)",
    )
    parser.add_argument("--hours", type=int, default=500, metavar="N", help="simulated hours (default: 500)")
    parser.add_argument(
        "--stretch", type=float, default=STRETCH_S, metavar="SECONDS", help="mean time between jumps (default: 2)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also save the table in this file")
    options = parser.parse_args()
    probes = options.probe or [DEFAULT, Probe(10, 5, 3), Probe(10, 10, 6)]
    try:
        result = load(options.result)
    except BadInputError as error:
        parser.exit(2, f"{parser.prog}: {error}; expected a file that bench.py run wrote with --out\n")
    try:
        measured = table_of(result, probes, options, shlex.join(sys.argv))
    except BadInputError as error:
        parser.exit(2, f"{parser.prog}: {options.result}: {error}\n")
    show(measured)
    if options.out:
        measured.save(options.out)


if __name__ == "__main__":
    main()
