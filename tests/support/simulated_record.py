"""Simulate records of honest and dishonest servers, with known figures."""

import functools
import itertools

from simulated import constant, queue

from under_siege.record.record import Machine, Record
from under_siege.record.requests import CORRECT, LOAD, PING, close_loop
from under_siege.record.result import Environment, Result

USERS, TIME_S, TASK_S, CPUS = 5, 4.0, 0.1, 2


def result_of(records: list[Record], **environment) -> Result:
    known = {
        "cpu_model": "a CPU",
        "cpus": CPUS,
        "usable_cpus": CPUS,
        "memory_bytes": 8_000_000_000,
        "system": "Linux",
        "pythons": {"3.11.7": "python3"},
        "tools": {"siege": "4.0.7"},
        "commit": "",
    }
    return Result(
        environment=Environment(**{**known, **environment}),
        command=["bench.py", "run"],
        began_at="2026-11-20T05:00:00+00:00",
        seed=1,
        rounds=max((record.round for record in records), default=1),
        records=records,
    )


def record_of(
    server: str, round_: int = 1, workers: int = 1, speed: float = 1.0, users: int = USERS, **values
) -> Record:
    """Return the record of a server whose rate is `speed` times its expected rate; `values` set axes and fields."""
    axes = {"task": "primes", "users": users, "python": "3.11.7", **values.pop("parameters", {})}
    axes |= {name: values.pop(name) for name in ("task", "python") if name in values}
    fixed = {
        "server": server,
        "title": f"The title of {server}.",
        "values": axes,
        "is_ceiling": server == "bare",
        "round": round_,
        "began_at": "2026-11-20T05:00:00+00:00",
        "load_average": 0.1,
        "time_s": TIME_S,
        "workers": workers,
        "answer_bytes": 4,
        "load_s": TIME_S,
        "tool_cpu_s": 0.02,
        "bench_cpu_s": 0.1,
        "memory_kind": "pss",
        "idle_answer_s": TASK_S + 0.001,
        "machine": Machine(total_s=CPUS * TIME_S, busy_s=workers * TIME_S + 0.15, steal_s=0.0),
    }
    record = Record(**{**fixed, **values})
    _add_answers(record, workers, speed)
    _add_pings(record)
    _add_samples(record, workers)
    return record


def _add_answers(record: Record, workers: int, speed: float) -> None:
    for ended_s, waited_s, user in zip(*_answers(record.users, workers, TASK_S / speed), strict=True):
        record.requests.add(
            LOAD,
            user=user,
            sent_s=ended_s - waited_s,
            ended_s=ended_s,
            status=200,
            size_bytes=4,
            outcome=record.outcome_of(200, 4),
        )
    close_loop(record.requests, record.users, TIME_S)


@functools.lru_cache(maxsize=1024)
def _answers(users: int, workers: int, task_s: float) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...]]:
    """Return the times, latencies and users of all responses."""
    finished_s, waited_s, who = [], [], []
    last: dict[int, float] = {}
    answers = queue(users, workers, constant(task_s))
    for at, user in itertools.takewhile(lambda answer: answer[0] <= TIME_S, answers):
        finished_s.append(at)
        waited_s.append(round(at - last.get(user, 0.0), 2))
        who.append(user)
        last[user] = at
    return tuple(finished_s), tuple(waited_s), tuple(who)


def _add_pings(record: Record) -> None:
    for due_s in (0.05 * number for number in range(80)):
        record.requests.add(
            PING, due_s=due_s, sent_s=due_s + 0.0002, ended_s=due_s + 0.002, status=200, outcome=CORRECT
        )


def _add_samples(record: Record, workers: int) -> None:
    at_s = [number / 4 for number in range(17)]
    record.samples.at_s.extend(at_s)
    record.samples.cpu_s.extend([1 + workers * at for at in at_s])
    record.samples.memory_bytes.extend([25_000_000 * workers] * len(at_s))
    record.samples.processes.extend([1] * len(at_s))


def bare_record(round_: int = 1, speed: float = 1.0, **values) -> Record:
    """Return the record of the ceiling on both CPUs."""
    record = record_of("bare", round_, workers=CPUS, speed=speed, **values)
    record.alone_wall_s += [TASK_S, TASK_S * 1.005, TASK_S]
    record.alone_cpu_s += [TASK_S, TASK_S, TASK_S]
    record.machine, record.idle_answer_s, record.workers, record.memory_kind = None, None, None, ""
    for column in (record.samples.at_s, record.samples.cpu_s, record.samples.memory_bytes, record.samples.processes):
        column.clear()
    return record
