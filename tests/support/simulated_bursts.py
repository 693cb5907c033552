"""Simulate records of load tools that report totals per burst, with known figures."""

from simulated_record import TASK_S, TIME_S, record_of

from under_siege.record.record import Record
from under_siege.record.requests import PING

COUNT = 4


def burst_record_of(server: str, round_: int = 1, workers: int = 1, tool: str = "ab", **columns) -> Record:
    """Return the record of a server; each of `columns` replaces the default value of a column in all bursts."""
    record = record_of(server, round_, workers=workers, tool=tool)
    users, rate = record.users, workers / TASK_S
    record.requests = record.requests.only(PING)
    took_s = TIME_S / COUNT - 0.01
    right = round(rate * took_s)
    usual = {
        "took_s": took_s,
        "right": right,
        "wrong_status": 0,
        "unanswered": 0,
        "connect_errors": 0,
        "p50_s": users / rate,
        "p95_s": users / rate * 1.1,
        "p99_s": users / rate * 1.2,
        "max_s": users / rate * 1.3,
        "kept_alive": None,
        "body_bytes": 4 * right,
        "tool_cpu_s": 0.005,
        "tool_awake": 0.01,
    }
    for number in range(COUNT):
        record.bursts.began_s.append(number * TIME_S / COUNT)
        for name, value in (usual | columns).items():
            getattr(record.bursts, name).append(value)
    record.tool_cpus = 1
    return record
