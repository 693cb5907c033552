"""Steps as servers would give them whose capacity is known by arithmetic, with real arrivals and the real search."""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
from simulated_record import record_of, result_of

from common.harness.capacity.arrivals import typical_arrivals
from common.harness.capacity.step import CLEARLY, FEWEST_MISSED, LATER, PING_EVERY_S
from common.model.goal import goal
from common.model.record import Beats, Pings, Result, Step
from common.model.requests import Arrivals
from common.report.judging.capacity import Capacity, capacities, wanted

GOALS = ("p99 < 1s", "ping p99 < 50ms")
BEAT_S = 2e-5
Serve = Callable[[Sequence[float], Random], list[float]]  # when requests are due → how long each takes; or for ever
Ping = Callable[[float], float]  # the rate → how long a ping takes


def queue_of(workers: int, service: Callable[[Random], float]) -> Serve:
    """Workers with one line before them."""

    def serve(due_s: Sequence[float], luck: Random) -> list[float]:
        free, waits = [0.0] * workers, []
        for due in due_s:
            ended = max(due, heapq.heappop(free)) + service(luck)
            heapq.heappush(free, ended)
            waits.append(ended - due)
        return waits

    return serve


def deterministic(workers: int, service_s: float) -> Serve:
    return queue_of(workers, lambda _: service_s)


def memoryless(workers: int, service_s: float) -> Serve:
    return queue_of(workers, lambda luck: luck.expovariate(1 / service_s))


def refusing(most_waiting_s: float, service_s: float) -> Serve:
    """One worker that refuses what would have to wait longer than that."""

    def serve(due_s: Sequence[float], _luck: Random) -> list[float]:
        free, waits = 0.0, []
        for due in due_s:
            if free - due > most_waiting_s:
                waits.append(math.inf)
            else:
                free = max(due, free) + service_s
                waits.append(free - due)
        return waits

    return serve


def stalling(service_s: float, every_s: float = 10.0, for_s: float = 1.0) -> Serve:
    """One worker that does nothing for a second in ten."""

    def serve(due_s: Sequence[float], luck: Random) -> list[float]:
        free, waits, phase = 0.0, [], luck.uniform(0, every_s)
        for due in due_s:
            begins = max(due, free)
            into = (begins + phase) % every_s
            free = begins + (for_s - into if into < for_s else 0.0) + service_s
            waits.append(free - due)
        return waits

    return serve


SERVERS = {
    "M/D/1": deterministic(1, 0.05),
    "M/D/2": deterministic(2, 0.1),
    "M/M/2": memoryless(2, 0.05),
    "stalls 1 s in ten": stalling(0.02),
    "refuses": refusing(0.2, 0.05),
}


def capacity_by_arithmetic(serve: Serve, limit_s: float = 1.0, percent: float = 99.0, arrivals: int = 50_000) -> float:
    """From an endless process: the rate at which the percentile is the limit."""
    luck = Random(7)
    unit = list(itertools.accumulate(luck.expovariate(1) for _ in range(arrivals)))
    least, most = 8.0, 50.0
    for _ in range(8):
        rate = (least * most) ** 0.5
        beyond = sum(wait > limit_s for wait in serve([at / rate for at in unit], Random(3)))
        least, most = (rate, most) if beyond <= (1 - percent / 100) * arrivals else (least, rate)
    return (least * most) ** 0.5


def offered(
    serve: Serve,
    rate: float,
    time_s: float,
    number: int,
    seed: int,
    ping: Ping = lambda _: 0.002,
    goals: Sequence[str] = GOALS,
    speed: float = 1.0,
) -> Step:
    """What the harness would write down; at a speed of the machine of 2 a service takes half as long."""
    due_s = typical_arrivals(max(5, round(rate * time_s)), [seed, number]) / rate
    at_usual = np.array(serve([float(at) * speed for at in due_s], Random(f"{seed} {number}")))
    waits = at_usual / speed
    limit_s = max((one.limit for one in map(goal, goals) if one.figure.startswith("response_")), default=1.0)
    late = np.sort((due_s + np.minimum(waits, limit_s))[waits > limit_s])
    most = max(FEWEST_MISSED, math.ceil(CLEARLY * 0.01 * len(due_s)))
    broke = len(late) >= most
    until_s = float(late[most - 1]) if broke else float(due_s[-1] + min(LATER * limit_s, max(waits[-20:])))
    seen = due_s <= until_s
    due_s, waits = due_s[seen], waits[seen]
    ended = np.minimum(due_s + np.where(np.isinf(waits), 0.001, waits), until_s)
    outcome = [_outcome(*both, until_s) for both in zip(waits, ended, strict=True)]
    record = record_of("3_some", number, users=25, time_s=time_s, case_s=until_s + 1.5, load_s=until_s, workers=1)
    pings = np.arange(0, until_s, PING_EVERY_S).tolist()
    record.pings = Pings(pings, pings, [ping(rate)] * len(pings), [""] * len(pings))
    beats = np.arange(0, until_s + 1, 0.05).tolist()
    record.beats = Beats(beats, [0] * len(beats), [BEAT_S / speed] * len(beats))
    record.idle_answer_s = float(min(waits))
    record.samples.cpu_s[:] = np.linspace(0.0, until_s, len(record.samples.at_s)).tolist()
    arrivals = Arrivals(due_s.tolist(), due_s.tolist(), ended.tolist(), outcome)
    return Step(
        record=record, goals=list(goals), arrivals_per_s=rate, arrivals=arrivals, seen_until_s=until_s, broke=broke
    )


def _outcome(wait_s: float, ended_s: float, until_s: float) -> str:
    if wait_s == math.inf:
        return "refused"
    return "unanswered" if ended_s >= until_s else ""


def searched(
    serve: Serve,
    seed: int = 1,
    *,
    budget_s: float = 60.0,
    task_s: float = 0.05,
    ping: Ping = lambda _: 0.002,
    goals: Sequence[str] = GOALS,
    speed: Callable[[int], float] = lambda _: 1.0,
) -> tuple[Capacity, Result]:
    """The whole search, as `bench.py capacity` makes it."""
    result = result_of([])
    case = record_of("3_some", users=25).case
    for number in itertools.count(1):
        found = wanted(result, case, budget_s, task_s)
        if found is None:
            break
        result.steps.append(offered(serve, *found, number, seed, ping, goals, speed(number)))
    (one,) = capacities(result)
    return one, result
