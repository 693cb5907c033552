"""Simulate servers of known capacity; arrival times and the search are those of bench.py."""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np
from queue_theory import capacity, deterministic
from queue_theory import exponential as exponential_share
from simulated_cpus import Machine
from simulated_record import record_of, result_of

from under_siege.capacity.estimate import Capacity, capacities_of, search_steps
from under_siege.capacity.search import NOTHING_PER_S, next_load
from under_siege.capacity.step import PING_EVERY_S, TIMEOUT, typical_arrivals
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.judge.goal import goal
from under_siege.record.record import RateStep, Record
from under_siege.record.requests import CORRECT, LOAD, OPEN, PING, REFUSED, Outcome, Requests
from under_siege.record.result import Result

GOALS = ("p99 < 1s", "ping p99 < 50ms")
CASE_BESIDE_S = 1.5  # time to start and stop a server
Ping = Callable[[float], float]  # rate → latency of a ping, in seconds
Service = Callable[[Random], float]  # random generator → service time of one request, in seconds


@dataclass(frozen=True)
class Server:
    """Workers that share one first-come, first-served queue."""

    workers: int
    service: Service
    computes: bool = False  # CPU-bound, so it slows down with the machine
    most_waiting_s: float = math.inf  # refuses requests that would wait longer

    def waits_s(self, due_s: Sequence[float], random: Random, machine: Machine) -> list[float]:
        """Return the latency of each request, which is infinite for a refused request."""
        free, waits = [(0.0, cpu) for cpu in range(self.workers)], []
        for due in due_s:
            free_s, cpu = free[0]
            if free_s - due > self.most_waiting_s:
                waits.append(math.inf)
                continue
            begin, service = max(due, free_s), self.service(random)
            end = machine.end_s(begin, service, cpu) if self.computes else begin + service
            heapq.heapreplace(free, (end, cpu))
            waits.append(end - due)
        return waits


@dataclass(frozen=True)
class Sharing:
    """One CPU that all requests share equally, as threads share the GIL."""

    service: Service
    workers: int = 40
    computes: bool = False

    def waits_s(self, due_s: Sequence[float], random: Random, _: Machine) -> list[float]:
        """Return the latency of each request (egalitarian processor sharing, in virtual time)."""
        now, shared, inside, ends = 0.0, 0.0, [], [math.inf] * len(due_s)
        for number, due in enumerate([*due_s, math.inf]):
            while inside and now + (inside[0][0] - shared) * len(inside) <= due:
                finish, leaving = heapq.heappop(inside)
                now += (finish - shared) * (len(inside) + 1)
                shared, ends[leaving] = finish, now
            if inside:
                shared += (due - now) / len(inside)
            now = due
            if number < len(due_s):
                heapq.heappush(inside, (shared + self.service(random), number))
        return [end - due for end, due in zip(ends, due_s, strict=True)]


AnyServer = Server | Sharing


def fixed(service_s: float) -> Service:
    """Return a function that always returns this service time."""
    return lambda _: service_s


def exponential(service_s: float) -> Service:
    """Return a function that draws exponential service times with this mean."""
    return lambda random: random.expovariate(1 / service_s)


SERVERS: dict[str, AnyServer] = {
    "M/D/1": Server(1, fixed(0.05)),
    "M/D/2": Server(2, fixed(0.05)),
    "M/M/2": Server(2, exponential(0.05)),
    "M/D/1 cpu": Server(1, fixed(0.05), computes=True),
    "M/D/2 cpu": Server(2, fixed(0.05), computes=True),
    "M/M/2 cpu": Server(2, exponential(0.05), computes=True),
    "refuses": Server(1, fixed(0.05), most_waiting_s=0.2),
    "shares": Sharing(fixed(0.05)),
}


def late_share(server: AnyServer, arrivals: int = 300_000) -> Callable[[float, float], float]:
    """Return a function of rate and limit that returns the share of late requests in a long simulation."""
    unit = np.random.default_rng(7).exponential(1.0, arrivals).cumsum()

    def share(per_s: float, limit_s: float) -> float:
        waits = server.waits_s((unit / per_s).tolist(), Random(3), Machine())
        return sum(wait > limit_s for wait in waits) / arrivals

    return share


# For each server: the share of late requests as a function of rate and limit, and the saturation rate.
TRUTHS: dict[str, tuple[Callable[[float, float], float], float]] = {
    "M/D/1": (deterministic(1, 0.05), 20.0),
    "M/D/2": (deterministic(2, 0.05), 40.0),
    "M/M/2": (exponential_share(2, 0.05), 40.0),
    "refuses": (late_share(SERVERS["refuses"]), 20.0),
    "shares": (late_share(SERVERS["shares"]), 20.0),
}


@cache
def capacity_of(name: str, limit_s: float) -> float:
    """Return the true capacity of a server in `SERVERS` for the p99; a CPU-bound one has that of a steady CPU."""
    share, saturation_per_s = TRUTHS[name.removesuffix(" cpu")]
    return capacity(share, saturation_per_s, limit_s)


def offered(
    server: AnyServer,
    rate: float,
    time_s: float,
    number: int,
    seed: int,
    ping: Ping = lambda _: 0.002,
    goals: Sequence[str] = GOALS,
    machine: Machine | None = None,
) -> RateStep:
    """Simulate a step at this rate, and return it as the capacity search would record it."""
    machine = machine or Machine()
    due_s = typical_arrivals(max(5, round(rate * time_s)), [seed, number]) / rate
    waits = np.array(server.waits_s(due_s.tolist(), Random(f"{seed} {number}"), machine))
    limit_s = max((one.limit for one in map(goal, goals) if one.figure.startswith("response_")), default=1.0)
    until_s = float(due_s[-1] + min(TIMEOUT * limit_s, max(waits[-20:])))
    return _step(server, rate, due_s, waits, until_s, number, time_s, ping, goals, machine)


def sieged(
    server: AnyServer,
    users: int,
    time_s: float,
    number: int,
    seed: int,
    ping: Ping = lambda _: 0.002,
    goals: Sequence[str] = GOALS,
    machine: Machine | None = None,
) -> RateStep:
    """Simulate a closed loop, in which as many requests as users are always waiting or in service."""
    machine, endless = machine or Machine(), np.zeros(users + round(2500 * time_s))
    served = server
    if isinstance(server, Server):
        served = replace(server, workers=min(server.workers, users), most_waiting_s=math.inf)
    elif isinstance(server, Sharing):  # all requests at once would end at once, after the siege
        endless = np.arange(len(endless)) * server.service(Random())
    ends = np.sort(endless + served.waits_s(endless.tolist(), Random(f"{seed} {number}"), machine))
    due_s = np.concatenate([np.zeros(users), ends])[: len(ends)]
    due_s, ends = due_s[due_s < time_s], ends[due_s < time_s]
    step = _step(server, NOTHING_PER_S, due_s, ends - due_s, time_s, number, time_s, ping, goals, machine)
    step.closed_users = users
    step.arrivals_per_s = max(NOTHING_PER_S, StepMetrics(step).answered_per_s)
    return step


def _step(
    server: AnyServer,
    rate: float,
    due_s: np.ndarray,
    waits: np.ndarray,
    until_s: float,
    number: int,
    time_s: float,
    ping: Ping,
    goals: Sequence[str],
    machine: Machine,
) -> RateStep:
    ended = np.minimum(due_s + np.where(np.isinf(waits), 0.001, waits), until_s)
    outcome = [_outcome(*both, until_s) for both in zip(waits, ended, strict=True)]
    record = _record(server, number, time_s, until_s, machine, waits, outcome)
    record.requests = Requests()
    for at_s, ended_s, how in zip(due_s.tolist(), ended.tolist(), outcome, strict=True):
        record.requests.add(LOAD, sent_s=at_s, ended_s=ended_s, outcome=how)
    for at_s in np.arange(0, until_s, PING_EVERY_S).tolist():
        record.requests.add(PING, sent_s=at_s, ended_s=at_s + ping(rate), outcome=CORRECT)
    machine.now_s += until_s + CASE_BESIDE_S
    return RateStep(record=record, goals=list(goals), arrivals_per_s=rate, seen_until_s=until_s)


def _record(
    server: AnyServer,
    number: int,
    time_s: float,
    until_s: float,
    machine: Machine,
    waits: np.ndarray,
    outcome: Sequence[Outcome],
) -> Record:
    record = record_of("3_some", number, users=25, time_s=time_s, load_s=until_s, workers=server.workers)
    record.case_s = until_s + CASE_BESIDE_S
    record.speed_samples = machine.speed_samples(until_s + 1, min(2, server.workers))
    record.idle_answer_s = float(min(waits))
    cpu_s = record.idle_answer_s * outcome.count(CORRECT) * (1.0 if server.computes else 0.02)
    record.samples.cpu_s[:] = np.linspace(0.0, cpu_s, len(record.samples.at_s)).tolist()
    return record


def _outcome(wait_s: float, ended_s: float, until_s: float) -> Outcome:
    if wait_s == math.inf:
        return REFUSED
    return OPEN if ended_s >= until_s else CORRECT


def searched(
    server: AnyServer,
    seed: int = 1,
    *,
    budget_s: float = 60.0,
    ping: Ping = lambda _: 0.002,
    goals: Sequence[str] = GOALS,
    noisy: bool = False,
) -> tuple[Capacity, Result, Machine]:
    """Run the whole search, as `bench.py capacity` does."""
    result, machine = result_of([]), Machine(seed, noisy=noisy)
    case = record_of("3_some", users=25).case
    for number in itertools.count(1):
        load = next_load(search_steps(result, case), budget_s)
        if load is None:
            break
        simulate, amount = (sieged, load.users) if load.users else (offered, load.per_s)
        result.steps.append(simulate(server, amount, load.time_s, number, seed, ping, goals, machine))
    (one,) = capacities_of(result)
    return one, result, machine
