"""A machine whose CPUs change their speed, and the records of cases that are measured on it: what is true is known."""

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from simulated_record import record_of, result_of

from common.model.record import Machine, Record, Result

WORK_S, USERS, SIEGE_S, BESIDES_S, STEP_S, BEAT_S = 0.04, 6, 4.0, 1.5, 0.02, 50e-6
SAMPLE_S = 0.25
SLOW = 1 / 1.75

Speeds = Callable[[random.Random, int, int], np.ndarray]  # how many CPUs, how many steps → a row for each CPU


def quiet(rng: random.Random, cpus: int, steps: int) -> np.ndarray:
    return np.ones((cpus, steps))


def restless(rng: random.Random, cpus: int, steps: int) -> np.ndarray:
    """Each CPU for itself changes between two speeds, about once a second."""
    rows = []
    for _ in range(cpus):
        row, fast = [], rng.random() < 0.5
        while len(row) < steps:
            row += [1.0 if fast else SLOW] * max(1, round(rng.expovariate(1.0) / STEP_S))
            fast = not fast
        rows.append(row[:steps])
    return np.array(rows)


def drifting(rng: random.Random, cpus: int, steps: int) -> np.ndarray:
    """From full speed to three quarters of it over the run, as a laptop that grows hot."""
    return np.tile(np.linspace(1.0, 0.75, steps), (cpus, 1))


@dataclass(frozen=True)
class Server:
    """So many workers, each with a CPU of its own as far as there are enough; the task computes or waits."""

    name: str
    workers: int
    waits: bool = False
    slower: float = 1.0


class Served(NamedTuple):
    """A request: when it was sent, worked on and answered, by which CPU if it computed at all."""

    start_s: float
    asked_s: float
    end_s: float
    user: int
    cpu: int | None


class Progress(NamedTuple):
    """How much a CPU could have done by the end of each step of a siege, in seconds at full speed."""

    done_s: list[float]

    @classmethod
    def of(cls, speeds: np.ndarray) -> "Progress":
        return cls([0.0, *np.cumsum(speeds * STEP_S).tolist()])

    def done_at(self, start_s: float, work_s: float) -> float:
        """When so much work is done that is begun then; after the siege if not within it."""
        steps = start_s / STEP_S
        before = min(int(steps), len(self.done_s) - 2)
        at_start_s = self.done_s[before] + (steps - before) * (self.done_s[before + 1] - self.done_s[before])
        wanted_s = at_start_s + work_s
        after = bisect_right(self.done_s, wanted_s)
        if after == len(self.done_s):
            return math.inf
        from_s, to_s = self.done_s[after - 1 : after + 1]
        return STEP_S * (after - 1 + (wanted_s - from_s) / (to_s - from_s))


@dataclass
class SimulatedMachine:
    """Two CPUs, whose speed is what `speeds` says, and less where the other one works too."""

    speeds: Speeds
    seed: int
    beside_a_busy_one: float = 1.0  # as fast as beside an idle one
    noise_of_rounds: float = 0.007
    noise_of_requests: float = 0.02
    noise_of_beats: float = 0.01
    siege_s: float = SIEGE_S
    mean_speed: float = field(init=False, default=1.0)

    def result(self, servers: Sequence[Server], rounds: int) -> Result:
        rng = random.Random(self.seed)
        everything = [Server("bare", USERS if servers[0].waits else 2, servers[0].waits), *servers]
        turns = [(number, one) for number in range(1, rounds + 1) for one in rng.sample(everything, len(everything))]
        steps = round(len(turns) * (self.siege_s + BESIDES_S) / STEP_S) + 100
        weather = self.speeds(rng, 2, steps)
        self.mean_speed = float(weather[:, : round(len(turns) * (self.siege_s + BESIDES_S) / STEP_S)].mean())
        records = []
        for place, (number, one) in enumerate(turns):
            began_s = 0.75 + place * (self.siege_s + BESIDES_S)
            records.append(self._measure(one, number, began_s, weather, rng))
        return result_of(records)

    def _measure(self, server: Server, round_: int, began_s: float, weather: np.ndarray, rng: random.Random) -> Record:
        first = round((began_s - 0.7) / STEP_S)
        around = weather[:, first : first + round((self.siege_s + 1.4) / STEP_S)]
        at_s = np.arange(around.shape[1]) * STEP_S - 0.7
        computing = server.workers > 1 and not server.waits
        siege = around * (self.beside_a_busy_one if computing else 1.0)
        during = (at_s >= 0) & (at_s < self.siege_s)
        seen = np.where(during, siege, around)
        record = record_of(server.name, round_, workers=server.workers, users=USERS, load_s=self.siege_s)
        record.load_began_s = began_s
        record.idle_answer_s = WORK_S * 1.1 / SLOW if not server.waits else WORK_S * 1.02
        self._answers(record, server, siege[:, during], rng)
        self._beats(record, at_s, seen, rng)
        self._alone(record, at_s, around, server.waits, rng)
        return record

    def _answers(self, record: Record, server: Server, speeds: np.ndarray, rng: random.Random) -> None:
        columns = record.transactions
        for column in (columns.finished_s, columns.took_s, columns.status, columns.size_bytes, columns.user):
            column.clear()
        busy = np.zeros((2, speeds.shape[1] + 1))
        used_s = 0.0
        for one in self._served(server, [Progress.of(row) for row in speeds], rng):
            if one.cpu is not None:
                busy[one.cpu, int(one.start_s / STEP_S) : int(min(one.end_s, self.siege_s) / STEP_S)] = STEP_S
            if one.end_s > self.siege_s:
                break
            used_s += 0.001 if one.cpu is None else one.end_s - one.start_s
            columns.finished_s.append(one.end_s)
            columns.took_s.append(round(one.end_s - one.asked_s, 2))
            columns.status.append(200)
            columns.size_bytes.append(4)
            columns.user.append(one.user)
        _add_usage(record, np.cumsum(busy, axis=1), used_s, self.siege_s)

    def _served(self, server: Server, cpus: list[Progress], rng: random.Random) -> Iterator[Served]:
        """One request after the other, as long as anybody looks."""
        own = WORK_S * server.slower * float(np.exp(rng.gauss(0, self.noise_of_rounds)))
        # A single worker is moved about between the CPUs, as the system likes to do.
        home = [rng.randrange(2) for _ in range(200)]
        free, waiting = [(0.0, worker) for worker in range(server.workers)], [(0.0, user) for user in range(USERS)]
        while True:
            now_s, worker = heapq.heappop(free)
            asked_s, user = heapq.heappop(waiting)
            start_s = max(now_s, asked_s)
            work = own * math.exp(rng.gauss(0, self.noise_of_requests))
            cpu = worker % 2 if server.workers > 1 else home[int(start_s / 0.5) % 200]
            end_s = start_s + work if server.waits else cpus[cpu].done_at(start_s, work)
            yield Served(start_s, asked_s, end_s, user, None if server.waits else cpu)
            heapq.heappush(free, (end_s, worker))
            heapq.heappush(waiting, (end_s, user))

    def _beats(self, record: Record, at_s: np.ndarray, speeds: np.ndarray, rng: random.Random) -> None:
        for cpu in range(2):
            beats_s = np.arange(-0.65 + 0.025 * cpu, self.siege_s + 0.65, 0.05)
            steps = np.minimum(len(at_s) - 1, ((beats_s + 0.7) / STEP_S).astype(int))
            late = [
                (rng.choice((1.3, 2.0)) if rng.random() < 0.05 else 1.0) * (1 + rng.gauss(0, self.noise_of_beats))
                for _ in beats_s
            ]
            record.beats.at_s.extend(beats_s.tolist())
            record.beats.cpu.extend([cpu] * len(beats_s))
            record.beats.took_s.extend((BEAT_S / speeds[cpu, steps] * late).tolist())

    def _alone(self, record: Record, at_s: np.ndarray, speeds: np.ndarray, waits: bool, rng: random.Random) -> None:
        for when_s in (-0.6, -0.5, -0.4, self.siege_s + 0.1, self.siege_s + 0.2, self.siege_s + 0.3):
            cpu = rng.randrange(2)
            speed = float(speeds[cpu, min(len(at_s) - 1, int((when_s + 0.7) / STEP_S))])
            took_s = WORK_S * (1 + abs(rng.gauss(0, 0.01))) / (1.0 if waits else speed)
            record.alone_at_s.append(when_s)
            record.alone_wall_s.append(took_s)
            record.alone_cpu_s.append(0.0002 if waits else took_s)
            record.alone_on_cpu.append(cpu)


def _add_usage(record: Record, counted_s: np.ndarray, used_s: float, siege_s: float) -> None:
    """What CPUs and server were seen to have used; `counted_s`: of each CPU, how long it was busy by each step."""
    at_s = np.arange(0, siege_s + SAMPLE_S / 2, SAMPLE_S)
    times, samples = np.arange(counted_s.shape[1]) * STEP_S, record.samples
    record.cpu_times.at_s[:] = [-0.7, *at_s.tolist(), siege_s + 0.7]
    for cpu, row in enumerate(counted_s):
        inside = np.interp(at_s, times, row).tolist()
        record.cpu_times.busy_s[cpu] = [inside[0], *inside, inside[-1]]
    samples.at_s[:], samples.cpu_s[:] = at_s.tolist(), (1 + used_s * at_s / siege_s).tolist()
    for column in (samples.memory_bytes, samples.processes):
        column[:] = column[:1] * len(at_s)
    record.machine = Machine(total_s=2 * siege_s, busy_s=used_s + 0.12, steal_s=0.0)
    if record.is_ceiling:
        for column in (samples.at_s, samples.cpu_s, samples.memory_bytes, samples.processes):
            column.clear()
        record.machine, record.idle_answer_s = None, None
