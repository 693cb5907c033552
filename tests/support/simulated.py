"""Simulate the responses that siege would observe in a closed loop of known rate."""

import heapq
import itertools
import random
from collections.abc import Callable, Iterator

from under_siege.judge.estimators import Rows, Spans, cycles_of
from under_siege.record.requests import CORRECT, LOAD, Requests

Service = Callable[[float], float]  # start of the service → its duration, both in seconds


def constant(seconds: float) -> Service:
    return lambda _: seconds


def uniform(mean_s: float, seed: int) -> Service:
    rng = random.Random(seed)
    return lambda _: rng.uniform(0.2, 1.8) * mean_s


def exponential(mean_s: float, seed: int) -> Service:
    rng = random.Random(seed)
    return lambda _: rng.expovariate(1 / mean_s)


def queue(
    users: int, workers: int, service: Service, pause: tuple[float, float] | None = None
) -> Iterator[tuple[float, int]]:
    """Yield the time and user of each response of workers that share a first-come, first-served queue.

    No worker computes during `pause`, which is given by its start and end in seconds.
    """
    waiting = list(range(users))
    free = [0.0] * workers
    busy: list[tuple[float, int]] = []
    now = 0.0
    while True:
        while waiting and free:
            begin = max(heapq.heappop(free), now)
            if pause and pause[0] <= begin < pause[1]:
                begin = pause[1]
            end = begin + service(begin)
            if pause and begin < pause[0] < end:
                end += pause[1] - pause[0]
            heapq.heappush(busy, (end, waiting.pop(0)))
        now, user = heapq.heappop(busy)
        heapq.heappush(free, now)
        waiting.append(user)
        yield now, user


def shared(users: int, work_s: float, slice_s: float = 0.0005) -> Iterator[tuple[float, int]]:
    """Yield the time and user of each response of a worker that gives each user a time slice in turn."""
    left = [work_s] * users
    now = 0.0
    for user in itertools.cycle(range(users)):
        now += slice_s
        left[user] -= slice_s
        if left[user] <= 1e-9:
            left[user] = work_s
            yield now, user


def siege_of(answers: Iterator[tuple[float, int]], time_s: float) -> Spans:
    """Return the responses within a siege of this length, without requests that are in flight at its end."""
    requests = Requests()
    last: dict[int, float] = {}
    for at, user in itertools.takewhile(lambda answer: answer[0] <= time_s, answers):
        took_s = round(at - last.get(user, 0.0), 2)
        requests.add(LOAD, user=user, sent_s=at - took_s, ended_s=at, outcome=CORRECT)
        last[user] = at
    return cycles_of(Rows.of(requests, LOAD))
