"""Simulate results of whole runs: servers of known rates on machines of known speed."""

import numpy as np
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of

from under_siege.compare.diff import ResultComparison
from under_siege.compare.view import view
from under_siege.record.record import Failure
from under_siege.record.requests import PING, WRONG
from under_siege.record.result import Result
from under_siege.show.formats import rendered

ROUNDS = (1, 2, 3)
USUAL = 0.01  # relative standard deviation between rounds
SPEED_PROBE = "3.11.7 500+1500"
BEAT_S = 1e-4
SERVERS = (("1_a", 1, 1.0), ("3_c", 2, 1.0))
SLOW = 1 / 1.4
STEADY = (1.0, 1.0, 1.0)


def a_result(
    *servers: tuple[str, int, float], seed=1, noise=USUAL, speeds=STEADY, waits=False, **environment
) -> Result:
    """Return three rounds of the ceiling and of these servers: name, workers, and rate relative to the expected one.

    Args:
        speeds: speed of the machine in each round, according to the speed probe; None for a result without a probe.
        waits: whether the task is I/O-bound, so that its rate does not depend on the speed.
    """
    rng = np.random.default_rng(seed)
    records = []
    for round_, speed in zip(ROUNDS, speeds or (1.0,) * len(ROUNDS), strict=True):
        for server, workers, quality in (("bare", CPUS, 1.0), *servers):
            record = a_record(server, round_, workers, quality * float(np.exp(rng.normal(0, noise))), speed, waits)
            if server != "bare":
                vary(record, rng, noise)
            if speeds:
                add_beats(record, speed, workers, np.random.default_rng([seed, len(records)]))
            records.append(record)
    return result_of(records, **({"speed_probe": SPEED_PROBE} | environment))


def a_record(server, round_, workers, quality, speed, waits):
    rate = quality if waits else quality * speed
    computes = 0.01 if waits else 1.0  # CPU time as a share of the task's duration
    make = bare_record if server == "bare" else record_of
    record = make(round_, speed=rate) if server == "bare" else make(server, round_, workers=workers, speed=rate)
    record.machine, record.idle_answer_s = None, None if server == "bare" else TASK_S / min(1.0, rate) + 0.02
    took_s = TASK_S if waits else TASK_S / speed
    record.alone_at_s[:] = [-0.5, -0.3, TIME_S]
    record.alone_on_cpu[:] = [0, 0, 0]
    record.alone_wall_s[:] = [took_s] * 3
    record.alone_cpu_s[:] = [TASK_S * computes / speed] * 3
    used = rate if waits else quality  # a busy worker uses 1 s of CPU time per second at any CPU speed
    cpus = workers * computes * used / (speed if waits else 1)
    record.samples.cpu_s[:] = [1 + cpus * at_s for at_s in record.samples.at_s]
    return record


def vary(record, rng, noise) -> None:
    """Add noise to ping latencies and memory."""
    requests = record.requests
    pings = [index for index, sender in enumerate(requests.sender) if sender == PING]
    for index, factor in zip(pings, np.exp(rng.normal(0, 3 * noise, len(pings))), strict=True):
        due_s = requests.due_s[index]
        requests.ended_s[index] = due_s + float((requests.ended_s[index] - due_s) * factor)
    factor = np.exp(rng.normal(0, noise))
    record.samples.memory_bytes[:] = [int(size * factor) for size in record.samples.memory_bytes]


def add_beats(record, speed, workers, rng) -> None:
    at_s = np.repeat(np.arange(-1, TIME_S + 1, 0.05), CPUS)
    record.speed_samples.at_s.extend(at_s.tolist())
    record.speed_samples.cpu.extend(list(range(CPUS)) * (len(at_s) // CPUS))
    record.speed_samples.took_s.extend((BEAT_S / speed * np.exp(rng.normal(0, 0.01, len(at_s)))).tolist())
    record.cpu_times.at_s[:] = np.arange(-1, TIME_S + 1, 0.25).tolist()
    for cpu in range(CPUS):
        record.cpu_times.busy_s[cpu] = [at_s * workers / CPUS for at_s in record.cpu_times.at_s]


def as_text(found: ResultComparison) -> str:
    return rendered(view(found), "table")


def judgements(found: ResultComparison) -> dict[str, dict[str, str | None]]:
    return {case.case.server: {one.figure: one.judgement for one in case.changes} for case in found.cases}


def by_server(found: ResultComparison) -> dict[str, str]:
    return {case.case.server: case.judgement for case in found.cases}


def slower(speeds):
    """Return the speeds of a slower machine, in reverse order."""
    return tuple(SLOW * speed for speed in reversed(speeds))


def failing(result: Result, server: str) -> Result:
    for record in result.records:
        if record.server == server and record.round == 2:
            record.failure = Failure("died", "the server died")
    return result


def suspicious(result: Result, server: str) -> Result:
    """Make three requests of the server fail in each round, and return the result."""
    for record in result.records:
        if record.server == server:
            record.requests.status[5:8], record.requests.outcome[5:8] = [500] * 3, [WRONG] * 3
    return result
