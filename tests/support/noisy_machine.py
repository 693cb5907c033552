"""Simulate runs on a two-CPU machine that is as noisy as the machines on which results were recorded.

Each CPU alternates between full speed and `SLOW`. Half of the variance of its speed decorrelates within 50 ms, the rest
over 0.6 to 40 s. Or its speeds are those of a recorded run. Noisy neighbours steal CPU time in bursts. The rate of each
server at full speed is known.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from simulated_record import record_of, result_of

from under_siege.judge.stopping_rule import MOST_ROUNDS
from under_siege.measure.racing import LIMITS_S, Decide, Race
from under_siege.measure.siege_length import Length
from under_siege.record.case import Case
from under_siege.record.record import Machine, Record
from under_siege.record.requests import CORRECT, LOAD, PING, Requests, close_loop
from under_siege.record.result import Result, load
from under_siege.suite.expected_response import Expectation

STEP_S = 0.005
SLOW = 0.57
USERS = 25
TASK_S = 0.055  # CPU time at full speed
BEFORE_S, AFTER_S = 0.7, 0.7  # periods that are recorded before and after each siege
HORIZON_S = 30.0  # maximum length of a siege, if the task does not take longer than TASK_S
STARTS_S = 0.9  # time for the start, warm-up and stop of a server
FOLLOWS, FOLLOWS_DEVIATION = 0.9, 0.08  # task speed = probe speed ** FOLLOWS; standard deviation of this exponent
LEAST_UNSEEN = 0.7  # lowest speed of the task alone on a shifting machine, as a share of the speed that the probe sees
PROBES_PER_S = 50
PING_EVERY_S, PING_DEVIATION = 0.05, 0.25  # the deviation is that of the logarithms of the latencies in a siege
Floats = np.ndarray
Answer = tuple[float, int, float]  # time of the response, user, time of the request


@dataclass(frozen=True)
class Server:
    """A simulated server: its number of workers and its work per request."""

    name: str
    workers: int = 1
    in_turns: bool = False  # computes all requests concurrently, in slices
    work: float = 1.0  # CPU time per response, as a multiple of the task's
    waits_s: float = 0.0  # waiting time per response, instead of CPU time
    tells_cpu: bool = True
    honest_when_idle: bool = False  # does the full work for the first response
    own_deviation: float = 0.0  # standard deviation of the logarithm of the server's work between rounds
    ping_s: float = 0.0  # median latency of pings at full speed; 0 for constant pings of 2 ms
    starts_s: float = STARTS_S


NO_SERVER = Server("bare", 2, in_turns=True)


class NoisyMachine:
    """Measure servers one after the other, as a run does."""

    def __init__(
        self,
        seed: int,
        kind: str = "noisy",
        *,
        probes_per_s: float = PROBES_PER_S,
        beside_a_busy_cpu: float = 1.0,
        seconds: float = 400.0,
        ceiling_per_s: float | None = None,
    ) -> None:
        """Draw the CPU speeds at random.

        Args:
            seed: seed of all random numbers.
            kind: noisy, recorded (noisy, with the speeds of recorded runs), quiet, drifting (slowing down to 75 % of
                the full speed over `seconds`), or shifting (other speeds during sieges than before and after them, in
                part unseen by the speed probe; also noisy if the seed is odd).
            probes_per_s: samples of the speed probe per CPU and second.
            beside_a_busy_cpu: relative speed of a CPU while its sibling on the same core is busy.
            seconds: period after which the speeds repeat.
            ceiling_per_s: rate of the ceiling at the mean speed, which determines the duration of the task; None for
                that of TASK_S.
        """
        self._rng = np.random.default_rng(seed)
        self._probes_per_s, self._beside = probes_per_s, beside_a_busy_cpu
        self._noisy = kind in ("noisy", "recorded") or (kind == "shifting" and seed % 2 == 1)
        shape = "noisy" if kind == "shifting" and self._noisy else kind
        self.speeds = _recorded(seed) if kind == "recorded" else _speeds(self._rng, round(seconds / STEP_S), shape)
        self.task_s = TASK_S
        if ceiling_per_s:
            self.task_s = 2 * float((self.speeds**FOLLOWS).mean()) / ceiling_per_s
        # Factors of the speed during sieges, and before and after them.
        self.during, self.around = self._rng.uniform(SLOW, 1.0, 2) if kind == "shifting" else (1.0, 1.0)
        self.unseen = self._rng.uniform(LEAST_UNSEEN, 1.0) if kind == "shifting" else 1.0
        self.horizon_s = HORIZON_S * max(1.0, self.task_s / TASK_S)
        self.now_s = 1.0
        self.said: list[str] = []  # what a race has announced
        self.records: list[Record] = []

    def run(self, servers: Sequence[Server], rounds: int) -> Result:
        """Measure all servers and the ceiling in each round, in random order."""
        everything = [replace(NO_SERVER, waits_s=servers[0].waits_s), *servers]
        for round_ in range(1, rounds + 1):
            for place in self._rng.permutation(len(everything)):
                self.measure(everything[place], round_)
        return self.result()

    def race(self, servers: Sequence[Server], decide: Decide, limits_s: tuple[float, float] = LIMITS_S) -> Result:
        """Measure all cases briefly, then those that `decide` selects, like `--rounds auto`."""
        everything = {server.name: server for server in (NO_SERVER, *servers)}
        began_s, took_s = self.now_s, dict[object, float]()
        race = Race(decide, _with_ceiling, self.said.append, limits_s=limits_s, clock=lambda: self.now_s)
        chosen = [*everything]
        for round_ in range(1, MOST_ROUNDS + 1):
            for place in self._rng.permutation(len(chosen)):
                record = self.measure(everything[chosen[place]], round_, is_screening=round_ == 1)
                took_s[record.case] = record.case_s
            cases = [record.case for record in self.records[: len(everything)]]
            chosen = [case.server for case in race.choose(self.result(), cases, took_s)]
            if not chosen:
                break
        result = self.result()
        result.until_certain = True
        self.took_s = self.now_s - began_s
        return result

    def result(self) -> Result:
        """Return a result with all measurements so far."""
        return result_of(list(self.records))

    def measure(self, server: Server, round_: int, *, is_screening: bool = False) -> Record:
        """Measure the server in one siege."""
        one = _Siege(self, server, round_, is_screening=is_screening)
        self.records.append(one.record)
        self.now_s += one.record.case_s
        return one.record


class _Siege:
    """One siege and its record."""

    def __init__(self, machine: NoisyMachine, server: Server, round_: int, *, is_screening: bool) -> None:
        self._is_screening = is_screening
        self._rng, self._server, self._machine = machine._rng, server, machine
        count, first = (
            round((BEFORE_S + machine.horizon_s + AFTER_S) / STEP_S),
            int((machine.now_s - BEFORE_S) / STEP_S),
        )
        self._begin = round(BEFORE_S / STEP_S)
        self._speed = machine.speeds[:, np.arange(first, first + count) % machine.speeds.shape[1]] * machine.during
        self._speed[:, : self._begin] *= machine.around / machine.during
        self._follows = max(0.4, self._rng.normal(FOLLOWS, FOLLOWS_DEVIATION)) if machine._noisy else FOLLOWS
        self._task_speed = self._speed**self._follows
        self._stolen = self._steal(count)
        self._other = self._rng.uniform(0.05, 0.15) if machine._noisy and self._rng.random() < 0.02 else 0.01
        self._times = np.arange(count - self._begin + 1) * STEP_S
        self._serve(round_)

    def _steal(self, count: int) -> Floats:
        """Return the steps in which each CPU is stolen: up to 0.3 % in most sieges, up to 14 % in one of ten sieges."""
        stolen, kind = np.zeros((2, count), dtype=bool), self._rng.random()
        if not self._machine._noisy:
            return stolen
        low, high = (0.0, 0.003) if kind < 0.66 else (0.004, 0.03) if kind < 0.9 else (0.03, 0.14)
        share = self._rng.uniform(low, high)
        for row in stolen:
            for at in self._rng.integers(0, count, self._rng.poisson(share * count * STEP_S / 0.04)):
                row[at : at + max(1, int(self._rng.exponential(0.04) / STEP_S))] = True
        return stolen

    def _serve(self, round_: int) -> None:
        server, uses_both = self._server, self._server.workers > 1 and not self._server.waits_s
        slowed = (self._machine._beside if uses_both else 1.0) * (1 - max(0.0, self._other - 0.02) * uses_both)
        runs = ~self._stolen[:, self._begin :] * slowed
        homes = np.repeat(self._rng.integers(0, 2, int(self._machine.horizon_s) * 2 + 4), round(0.5 / STEP_S))[
            : runs.shape[1]
        ]
        if not uses_both:  # the scheduler moves a single worker between the CPUs
            runs = runs * (homes == np.arange(2)[:, None])
        self._ran = _summed(runs)
        done = _summed(runs * self._task_speed[:, self._begin :])
        work = (
            self._machine.task_s * server.work * math.exp(self._rng.normal(0, math.hypot(0.007, server.own_deviation)))
        )
        answers = sorted(self._answers(done if uses_both else done.sum(0)[None], work))
        load_s = min(self._machine.horizon_s - 1, self._length_s(answers))
        end = self._begin + round(load_s / STEP_S)
        self._speed[:, end:] *= self._machine.around / self._machine.during
        self._task_speed[:, end:] = self._speed[:, end:] ** self._follows
        self.record = record = record_of(server.name, round_, workers=server.workers, users=USERS, load_s=load_s)
        record.time_s, record.load_began_s = load_s, self._machine.now_s
        record.case_s = load_s + (0.5 if server.name == NO_SERVER.name else 0.4 + server.starts_s)
        if server.name != NO_SERVER.name and not self._is_screening:
            record.case_s += USERS * work / server.workers  # until the abandoned requests are computed
        kept = [answer for answer in answers if answer[0] <= load_s]
        self._keep(kept)
        self._use(len(kept))
        if server.ping_s:
            self._ping()
        self._probe()
        self._run_alone()

    def _length_s(self, answers: Sequence[Answer]) -> float:
        """Return the length of the siege, which the bench would choose for these responses."""
        task_s = self._server.waits_s or self._machine.task_s
        expected = Expectation(b"4", task_s, 0.0 if self._server.waits_s else task_s)
        length = Length(None, USERS, expected, is_screening=self._is_screening)
        for end_s, user, _ in answers:
            if length.is_over(end_s):
                break
            length.answer(user, end_s)
        return length.end_s

    def _answers(self, done: Floats, work: float) -> Iterator[Answer]:
        if self._server.waits_s:
            return self._waiting()
        return self._in_turns(done.sum(0), work) if self._server.in_turns else self._queued(done, work)

    def _queued(self, done: Floats, work: float) -> Iterator[Answer]:
        """Yield the responses of workers that handle their requests sequentially, each on its own CPU."""
        free, waiting = [(0.0, worker) for worker in range(len(done))], [(0.0, user) for user in range(USERS)]
        while True:
            now, worker = heapq.heappop(free)
            requested, user = heapq.heappop(waiting)
            until = np.interp(max(now, requested), self._times, done[worker]) + work * math.exp(
                self._rng.normal(0, 0.02)
            )
            if until >= done[worker][-1]:
                return
            end = float(np.interp(until, done[worker], self._times)) + 0.0008
            yield end, user, requested
            heapq.heappush(free, (end, worker))
            heapq.heappush(waiting, (end, user))

    def _in_turns(self, done: Floats, work: float) -> Iterator[Answer]:
        """Yield the responses of a server that divides its CPU time among requests in nearly equal slices."""
        left, share = work * np.exp(self._rng.normal(0, 0.02, USERS)), np.exp(self._rng.normal(0, 0.06, USERS))
        requested, until = np.zeros(USERS), 0.0
        while True:
            needed = left / (share / share.sum())
            user = int(np.argmin(needed))
            until += needed[user]
            if until >= done[-1]:
                return
            left -= needed[user] * share / share.sum()
            end = float(np.interp(until, done, self._times)) + 0.0008
            yield end, user, float(requested[user])
            requested[user], left[user] = end, work * math.exp(self._rng.normal(0, 0.02))
            share[user] = math.exp(self._rng.normal(0, 0.06))

    def _waiting(self) -> Iterator[Answer]:
        for user in range(USERS):
            end = 0.0
            while end < self._machine.horizon_s - 1:
                requested, end = (
                    end,
                    end + self._server.waits_s * self._server.work + 0.002 + self._rng.exponential(0.001),
                )
                yield end, user, requested

    def _keep(self, answers: Sequence[Answer]) -> None:
        self.record.requests = Requests()
        for end_s, user, requested_s in answers:
            sent_s = end_s - round(end_s - requested_s, 2)
            self.record.requests.add(
                LOAD, user=user, sent_s=sent_s, ended_s=end_s, status=200, size_bytes=4, outcome=CORRECT
            )
        close_loop(self.record.requests, USERS, self.record.load_s)

    def _use(self, answers: int) -> None:
        """Record the CPU usage."""
        record, load_s = self.record, self.record.load_s
        at_s = np.arange(0, load_s + 0.125, 0.25)
        busy = np.array([np.interp(at_s, self._times, row) for row in self._ran])
        if self._server.waits_s:
            busy = np.outer([0.001, 0.001], at_s / load_s * answers)
        used = busy.sum(0)
        for column in (record.samples.memory_bytes, record.samples.processes):
            column[:] = column[:1] * len(at_s)
        record.samples.at_s[:], record.samples.cpu_s[:] = at_s.tolist(), (1 + used).tolist()
        if not self._server.tells_cpu:
            for column in (
                record.samples.at_s,
                record.samples.cpu_s,
                record.samples.memory_bytes,
                record.samples.processes,
            ):
                column.clear()
        record.cpu_times.at_s[:] = [-BEFORE_S, *at_s.tolist(), load_s + AFTER_S]
        for cpu, row in enumerate(busy.tolist()):
            record.cpu_times.busy_s[cpu] = [row[0], *row, row[-1]]
        stolen_s = float(self._stolen[:, self._begin : self._begin + int(load_s / STEP_S)].sum() * STEP_S)
        busy_s = float(used[-1]) + 0.12 + self._other * 2 * load_s
        idle_s = max(0.0, 2 * load_s - busy_s - stolen_s)
        record.machine = Machine(total_s=2 * load_s, busy_s=busy_s, steal_s=stolen_s, idle_s=idle_s)

    def _ping(self) -> None:
        """Record pings that wait while CPU 0 is stolen, then take `ping_s`, longer if the CPU is slow."""
        count = int(self.record.load_s / PING_EVERY_S)
        due_s = np.arange(1, count) * PING_EVERY_S
        at = self._begin + (due_s / STEP_S).astype(int)
        free = np.append(np.flatnonzero(~self._stolen[0]), len(self._stolen[0]))
        stalled_s = (free[np.searchsorted(free, at)] - at) * STEP_S
        took_s = self._server.ping_s / self._task_speed[0, at] * np.exp(self._rng.normal(0, PING_DEVIATION, len(at)))
        for at_s, waited_s in zip(due_s.tolist(), (stalled_s + took_s).tolist(), strict=True):
            self.record.requests.add(PING, sent_s=at_s, ended_s=at_s + waited_s, status=200, outcome=CORRECT)

    def _probe(self) -> None:
        beats, every = self.record.speed_samples, 1 / self._machine._probes_per_s
        for cpu in range(2):
            at_s = np.arange(-0.65 + every / 2 * cpu, self.record.load_s + 0.65, every)
            speed = self._speed[cpu, ((at_s + BEFORE_S) / STEP_S).astype(int)]
            if self._server.workers > 1 and not self._server.waits_s:
                speed = speed * np.where((at_s > 0) & (at_s < self.record.load_s), self._machine._beside, 1.0)
            late = np.where(self._rng.random(len(at_s)) < 0.01, self._rng.uniform(1.2, 2, len(at_s)), 1.0)
            beats.at_s.extend(at_s.tolist())
            beats.cpu.extend([cpu] * len(at_s))
            beats.took_s.extend((15.2e-6 / speed * late * (1 + self._rng.normal(0, 0.012, len(at_s)))).tolist())

    def _run_alone(self) -> None:
        """Record the baseline runs before and after the siege, and the response time of the idle server."""
        record, server = self.record, self._server
        for at_s in (-0.6, -0.48, -0.36, record.load_s + 0.05, record.load_s + 0.17, record.load_s + 0.29):
            cpu = int(self._rng.integers(2))
            took_s = 0.002 if server.waits_s else self._alone_s(cpu, at_s, 1 / self._machine.unseen)
            record.alone_at_s.append(at_s)
            record.alone_cpu_s.append(took_s)
            record.alone_wall_s.append(took_s + server.waits_s + 0.0005)
            record.alone_on_cpu.append(cpu)
        work = max(1.0, server.work) if server.honest_when_idle else server.work
        computed_s = server.waits_s * server.work or self._alone_s(int(self._rng.integers(2)), -0.2, work)
        record.idle_answer_s = None if server.name == NO_SERVER.name else computed_s + 0.002

    def _alone_s(self, cpu: int, at_s: float, work: float) -> float:
        first = round((at_s + BEFORE_S) / STEP_S)
        done = np.concatenate(([0.0], np.cumsum(self._task_speed[cpu, first : first + 200] * STEP_S)))
        took = float(np.interp(self._machine.task_s * work, done, np.arange(len(done)) * STEP_S))
        return took * math.exp(abs(self._rng.normal(0, 0.01)))


def _with_ceiling(cases: Sequence[Case], wanted: Collection[Case]) -> list[Case]:
    return [case for case in cases if case in wanted or case.server == NO_SERVER.name]


@cache
def _recordings() -> list[Floats]:
    """Return the speeds of both CPUs at each step of each recorded run, relative to the highest."""
    found = []
    for path in sorted((Path(__file__).parents[1] / "noisy_results").glob("*.json.gz")):
        parts = []
        for record in load(path).records:
            cpu, at_s, took_s = (
                np.asarray(column)
                for column in (record.speed_samples.cpu, record.speed_samples.at_s, record.speed_samples.took_s)
            )
            steps = np.arange(0.0, record.load_s, STEP_S)
            parts.append([np.interp(steps, at_s[cpu == each], took_s[cpu == each]) for each in (0, 1)])
        took_s = np.concatenate(parts, axis=1)
        fastest_s = np.quantile(took_s, 0.01)
        found.append(np.clip(fastest_s / took_s, 0.2, 1.0))
    return found


def _recorded(seed: int) -> Floats:
    """Return the speeds of a recorded run, beginning at a random time."""
    recordings = _recordings()
    speeds = recordings[seed % len(recordings)]
    return np.roll(speeds, int(np.random.default_rng(seed).integers(speeds.shape[1])), axis=1)


def _summed(per_step: Floats) -> Floats:
    """Return the cumulative work at the end of each step, starting with 0."""
    return np.concatenate((np.zeros((2, 1)), np.cumsum(per_step * STEP_S, axis=1)), axis=1)


def _speeds(rng: np.random.Generator, count: int, kind: str) -> Floats:
    """Return the speed of both CPUs at each step."""
    if kind in ("quiet", "shifting"):
        return np.ones((2, count))
    if kind == "drifting":
        return np.tile(np.linspace(1.0, 0.75, count), (2, 1))
    rows = []
    for _ in range(2):
        level = 0.6 + sum(size * _drift(rng, count, lasts_s) for size, lasts_s in ((1.5, 0.6), (0.9, 5.0), (0.5, 40.0)))
        drawn_anew = np.where(rng.random(count) < STEP_S / 0.02, np.arange(count), 0)
        draws = rng.random(count)[np.maximum.accumulate(drawn_anew)]
        rows.append(np.where(draws < 1 / (1 + np.exp(-1.25 * level)), SLOW, 1.0))
    return np.array(rows)


def _drift(rng: np.random.Generator, count: int, lasts_s: float) -> Floats:
    """Return an Ornstein-Uhlenbeck process with variance 1, computed every few steps and interpolated."""
    from scipy.signal import lfilter

    every = max(1, int(lasts_s / STEP_S / 8))
    kept = math.exp(-every * STEP_S / lasts_s)
    steps = rng.normal(0, math.sqrt(1 - kept**2), count // every + 3)
    values = lfilter([1.0], [1.0, -kept], np.concatenate(([rng.normal()], steps)))
    return np.interp(np.arange(count) / every, np.arange(len(values)), values)
