"""Find out what each process of a server did under load: its role, its share of the CPU time, and its connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from under_siege.judge.round_statistics import Round
from under_siege.record.record import ServerProcess
from under_siege.record.requests import CORRECT, LOAD, PING

Role = Literal["parent", "worker", "helper", "unknown"]
PARENT, WORKER, HELPER, UNKNOWN = "parent", "worker", "helper", "unknown"


class StartAndEnd(msgspec.Struct, frozen=True):
    """A value when the load began, or the process was first seen; and when the load or the process ended."""

    start: int
    end: int


class LeastAndMost(msgspec.Struct, frozen=True):
    """The numbers of connections at once under load."""

    least: int
    most: int


class ProcessSummary(msgspec.Struct, frozen=True):
    """What one process did in one round. Don't rename fields, because programs that read JSON rely on them."""

    round: int
    name: str  # such as `worker 2`
    role: str
    pid: int
    parent: int
    command: str
    cpu_share: float  # of the CPU time of all processes of the server
    memory_bytes: StartAndEnd | None
    connections: LeastAndMost | None  # None: not counted, because connections were not kept alive
    began_s: float  # since the load began; negative before it
    ended_s: float | None  # None: it still ran when the load ended


def roles(processes: Sequence[ServerProcess]) -> list[str]:
    """Return the role of each process.

    Workers accept connections. If a process with a listening socket has children with one, the children accept, unless
    an event loop of their parent waits for connections, or has them: it then only shares its open files with a pool.
    """
    by_pid = {process.pid: process for process in processes}
    listening = {process.pid for process in processes if process.is_listening}
    if not listening:
        return [UNKNOWN] * len(processes)

    def above(process: ServerProcess) -> Iterator[int]:
        """Yield the ids of its ancestors, nearest first."""
        seen = {process.pid}
        while (parent := by_pid.get(process.parent)) and parent.pid not in seen:
            seen.add(parent.pid)
            yield parent.pid
            process = parent

    over = {pid: [parent for parent in above(by_pid[pid]) if parent in listening] for pid in listening}
    shares = {parent for parents in over.values() for parent in parents}
    idle = {pid for pid in shares if not by_pid[pid].accepts and not max(_counts(by_pid[pid]), default=0)}
    workers = {pid for pid in listening - idle if idle.issuperset(over[pid])}
    parents = {parent for pid in workers for parent in above(by_pid[pid])}
    return [
        WORKER
        if process.pid in workers
        else PARENT
        if process.pid in parents
        else UNKNOWN
        if process.is_listening is None and process.parent in parents
        else HELPER
        for process in processes
    ]


def _counts(process: ServerProcess) -> list[int]:
    return [count for count in process.samples.connections if count >= 0]


class Watched(NamedTuple):
    """A process of a round, with what was found out about it."""

    process: ServerProcess
    summary: ProcessSummary

    @property
    def role(self) -> str:
        return self.summary.role


def watched(run: Round) -> list[Watched]:
    """Return the processes of the server in a round, parents before their children; ones that ran too short are out."""
    processes = [process for process in run.record.processes if len(process.samples.at_s) > 1]
    used_s = [_used_s(process) for process in processes]
    total_s = max(sum(used_s), run.server_cpu_s() or 0.0)
    found_roles = roles(processes)
    counts = {role: found_roles.count(role) for role in found_roles}
    numbers = dict.fromkeys(counts, 0)
    found = []
    for process, role, cpu_s in zip(processes, found_roles, used_s, strict=True):
        numbers[role] += 1
        start, end = process.memory_start_bytes, process.memory_end_bytes
        connections = connected(process, run)
        summary = ProcessSummary(
            round=run.record.round,
            name=f"{role} {numbers[role]}" if counts[role] > 1 else role,
            role=role,
            pid=process.pid,
            parent=process.parent,
            command=process.command,
            cpu_share=round(cpu_s / total_s, 4) if total_s else 0.0,
            memory_bytes=None if start is None or end is None else StartAndEnd(start, end),
            connections=LeastAndMost(min(connections), max(connections)) if connections else None,
            began_s=process.began_s,
            ended_s=process.ended_s,
        )
        found.append(Watched(process, summary))
    return found


def _used_s(process: ServerProcess) -> float:
    """Return the CPU seconds that the process used under load."""
    used_s = process.samples.cpu_s
    return max(0.0, used_s[-1] - (used_s[0] if process.began_s < 0 else 0.0))


def connected(process: ServerProcess, run: Round) -> list[int]:
    """Return how many connections the process had whenever they were counted under load, once all users are there."""
    from_s = max(SETTLED * run.load_s, min(run.rows.ended_s[~run.rows.is_open].tolist(), default=0.0))
    at_s, counts = process.samples.at_s, process.samples.connections
    return [count for at, count in zip(at_s, counts, strict=False) if count >= 0 and from_s <= at <= run.load_s]


SETTLED = 0.1  # share of the load after which all users are connected
UNEVEN, FEWEST_APART = 1.5, 2  # times the mean number of users, and users between the most and the fewest
SLOWER = 1.5  # times as long as those of other users; below, users don't notice whose worker they share
FEWEST_RESPONSES = 3  # of a user


class Crowding(NamedTuple):
    """How the users of a round with keep-alive shared the workers."""

    users: list[int]  # connected to each worker, the fewest first
    slower: float | None  # response time of the users of the fullest worker, in units of that of the others
    idle: float | None  # CPU time of the emptiest worker, in units of that of the fullest; None if this costs no rate


def crowding(run: Round) -> Crowding | None:
    """Return how users shared workers; None if it is unknown, or if all workers have about as many."""
    workers = [each for each in watched(run) if each.role == WORKER and each.process.ended_s is None]
    counts = [connected(each.process, run) for each in workers]
    if len(workers) < 2 or not all(counts) or run.record.is_open:
        return None
    by_users = sorted(
        (round(median(each)), min(each), worker.summary.cpu_share) for each, worker in zip(counts, workers, strict=True)
    )
    users, wanted = [each[0] for each in by_users], run.record.users
    is_complete = 0.8 * wanted <= sum(users) <= wanted + 2
    users[-1] -= max(0, sum(users) - wanted)  # pings and checks have connections, too
    # Tools that run in bursts open new connections for each burst, perhaps to another worker.
    always = min(users[-1], by_users[-1][1])
    if not is_complete or always < UNEVEN * sum(users) / len(users) or users[-1] - users[0] < FEWEST_APART:
        return None
    return Crowding(users, _slower(run, users[-1]), _idle(run, by_users[0][2], by_users[-1][2]))


def _idle(run: Round, least: float, most: float) -> float | None:
    """Return the ratio of two shares of the CPU time, or None if no worker was busy, or all workers had one CPU."""
    is_single = (run.quota or SEVERAL) <= 1 or len(run.record.cpu_times.busy_s) == 1
    wanted = run.cpu_wanted() or run.cpus_used() or 0.0
    return None if is_single or wanted < BUSY_CPUS or not most else least / most


SEVERAL = 2
BUSY_CPUS = 0.8  # CPUs that a server wants if a worker is busy all the time


def _slower(run: Round, crowded: int) -> float | None:
    """Return how many times as long as the others the slowest users waited, as many as are at the fullest worker."""
    rows = run.rows[~run.rows.is_open]
    took_s = rows.ended_s - rows.sent_s
    each = [took_s[rows.user == user] for user in np.unique(rows.user[rows.user >= 0]).tolist()]
    medians = sorted(float(np.median(values)) for values in each if len(values) >= FEWEST_RESPONSES)
    others = medians[:-crowded]
    return median(medians[-crowded:]) / median(others) if others and median(others) else None


class SpareImport(NamedTuple):
    """The memory of a parent that holds the application, but answers no requests."""

    parent_bytes: int
    all_bytes: int


SMALLEST_APPLICATION = 50e6  # private bytes; a process that only supervises needs less
AS_LARGE = 0.8  # share of the smallest worker's private memory


def spare_import(run: Round) -> SpareImport | None:
    """Return the memory of a parent that imported the application, although its workers do so, too; None if unknown.

    Workers that the parent forked have the same command line. They share its memory, perhaps on purpose (--preload).
    """
    found = watched(run)
    workers = [each for each in found if each.role == WORKER]
    parents = [each for each in found if each.process.pid in {worker.process.parent for worker in workers}]
    if len(parents) != 1 or parents[0].role != PARENT or parents[0].summary.cpu_share > IDLE_SHARE:
        return None
    parent, sizes = parents[0].process, [each.process.memory_end_bytes or 0 for each in found]
    if any(each.process.command == parent.command for each in workers) or not parent.memory_end_bytes:
        return None
    private = [each.process.private_bytes or 0 for each in workers]
    if (parent.private_bytes or 0) < max(SMALLEST_APPLICATION, AS_LARGE * min(private)) or not min(private):
        return None
    return SpareImport(parent.memory_end_bytes, sum(sizes))


IDLE_SHARE = 0.05  # of the CPU time


class Replacement(NamedTuple):
    """All workers were replaced at about the same time."""

    workers: int
    within_s: float  # at least `SAMPLED_S`
    silence_s: float  # how long no response came
    is_complete: bool  # whether as many workers started before the load ended


SAMPLED_S = 0.25  # between two samples of processes
NOTICEABLE_S = 0.3
LONGER = 2.0  # times the longest silence at other times
SHORTEST_START_S, SLOWER_START = 1.0, 1.5  # of a worker; and in units of the time until the server was ready


def workers_replaced(run: Round) -> list[ServerProcess]:
    """Return the workers that ended under load and were replaced by another child of their parent, in this order."""
    workers = _workers(run)
    masters = {process.parent for process in workers}
    started = sum(each.parent in masters and 0 < each.began_s < run.load_s for each in run.record.processes)
    return sorted((each for each in workers if 0 < _end_s(each, run) <= run.load_s), key=_last_seen_s)[:started]


def replaced_together(run: Round) -> Replacement | None:
    """Return the longest silence for which all workers had just been replaced, and the new ones were not ready.

    None if there is none, or if the server is often silent for as long.
    """
    workers = [each.process for each in watched(run) if each.role in (WORKER, UNKNOWN)]
    ended = [each for each in _workers(run) if 0 < _end_s(each, run) <= run.load_s] if workers_replaced(run) else []
    found = []
    start_s = max(SHORTEST_START_S, SLOWER_START * (run.record.ready_s or 0.0))
    beside_s = 0.0
    for from_s, to_s in _silences(run):
        old = [each for each in ended if from_s - start_s <= _end_s(each, run) <= to_s]
        first_s = min(map(_last_seen_s, old), default=0.0)
        others = [each for each in workers if each not in old]
        middle_s = (from_s + to_s) / 2
        if old and not any(each.began_s < first_s and _end_s(each, run) > middle_s for each in others):
            within_s = max(_end_s(each, run) for each in old) - min(_end_s(each, run) for each in old)
            started = sum(first_s < each.began_s < run.load_s for each in others)
            found.append(Replacement(len(old), max(SAMPLED_S, within_s), to_s - from_s, started >= len(old)))
        elif from_s > 0:  # workers that ended just before the load may be the cause of the first silence
            beside_s = max(beside_s, to_s - from_s)
    worst = max(found, key=lambda each: each.silence_s, default=None)
    return worst if worst and worst.silence_s >= max(NOTICEABLE_S, LONGER * beside_s) else None


def _workers(run: Round) -> list[ServerProcess]:
    return [each.process for each in watched(run) if each.role == WORKER]


def _last_seen_s(process: ServerProcess) -> float:
    return process.samples.at_s[-1]


def _end_s(process: ServerProcess, run: Round) -> float:
    """Return when the process ended, or a time after the load."""
    return process.ended_s if process.ended_s is not None else run.load_s + 1


def _silences(run: Round) -> list[tuple[float, float]]:
    """Return the spans between two correct responses to the load or to pings."""
    requests = run.record.requests.only(LOAD, PING)
    good = [at for at, outcome in zip(requests.ended_s, requests.outcome, strict=True) if outcome == CORRECT]
    edges = [0.0, *sorted(at for at in good if 0 < at < run.load_s), run.load_s]
    return list(pairwise(edges))


def workers_at_once(run: Round) -> int:
    """Return how many workers ran when the load began, or 0 if this is unknown."""
    return sum(each.role == WORKER and each.process.began_s < 0 for each in watched(run))
