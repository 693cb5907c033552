"""Timer detection: servers whose users wait for a known timer are reported, and honest servers are not."""

import random

import pytest
from rows import add_check, keep_first
from simulated_bursts import burst_record_of
from simulated_record import TIME_S, record_of
from verdicts import codes, judged

from under_siege.judge.round_statistics import Round
from under_siege.judge.suspicions import timer
from under_siege.record.record import Machine, Record
from under_siege.record.requests import CHECK

IDLE = Machine(total_s=2 * TIME_S, busy_s=0.2, steal_s=0.0, idle_s=2 * TIME_S - 0.2)


def waiting(
    users: int, p50_s: float | None, check_s: float, cpus: float = 0.05, p95_s: float | None = None, **columns
) -> Record:
    """Return the record of a server with these latencies of users and of response checks; by default, it is idle."""
    mean_s = columns.pop("mean_s", p50_s)
    right = round(users * 0.99 / mean_s)
    known = {"p50_s": p50_s, "p95_s": p95_s or (p50_s and 1.05 * p50_s), "p99_s": None, "right": right, "took_s": 0.99}
    record = burst_record_of("1_x", **known, body_bytes=4 * right, **columns)
    record.values["users"], record.machine, record.keep_alive = users, IDLE, True
    record.samples.cpu_s[:] = [1 + cpus * at_s for at_s in record.samples.at_s]
    for number in range(4):
        add_check(record, number, number + check_s)
    return record


# Measured with WsgiDAV: number of users, median latency, and latency of a response check.
TIMERS = {
    "cheroot_8_1_with_5_users": (waiting(5, 0.100, 0.0015), "select of cheroot 8.1"),
    "cheroot_8_1_with_9_users": (waiting(9, 0.100, 0.0023), "select of cheroot 8.1"),
    "cheroot_8_1_with_pings": (waiting(5, 0.050, 0.004), "less if another request ends it"),
    "gevent_with_10_users": (waiting(10, 0.044, 0.003), "delayed ACK"),
    "delayed_ack_with_wrk": (waiting(25, 0.0461, 0.001), "delayed ACK"),
    "paste_with_20_users": (waiting(20, 0.044, 0.002), "delayed ACK"),
    "cheroot_8_1_under_stressor": (waiting(5, None, 0.002, mean_s=0.099), "select of cheroot 8.1"),
}


@pytest.mark.parametrize("name", TIMERS)
def test_a_timer_that_delays_responses_is_reported_with_its_cause(name: str) -> None:
    record, cause = TIMERS[name]
    case = judged(record)
    assert case.verdict == "suspect"
    assert cause in next(reason.message for reason in case.reasons if reason.code == "timer")


HONEST = {
    "checks_wait_as_long_as_users": waiting(5, 0.1, 0.1),
    "single_user": waiting(1, 0.042, 0.0415),
    "queueing_users": waiting(5, 0.1, 0.021),  # five users share one of several workers, which waits 20 ms per request
    "unknown_timer": waiting(5, 0.07, 0.001),
    "busy_server": waiting(5, 0.1, 0.001, cpus=0.95),  # limited by the GIL, while other CPUs are idle
    "varying_latency": waiting(5, 0.042, 0.001, p95_s=0.09),
    "tool_at_its_limit": waiting(5, None, 0.001, mean_s=0.041, tool_awake=0.97),
    "record_of_siege": record_of("1_x"),
}


@pytest.mark.parametrize("name", HONEST)
def test_no_timer_is_reported_for_honest_servers(name: str) -> None:
    assert "timer" not in codes(judged(HONEST[name]))


@pytest.mark.parametrize(
    ("cause", "from_s", "to_s"),
    [
        ("delayed ACK", 0.0395, 0.0465),
        ("less if another request ends it", 0.0475, 0.0625),
        ("select of cheroot 8.1", 0.0955, 0.1155),
    ],
)
def test_the_cause_of_a_delay_is_inferred_from_its_duration(cause: str, from_s: float, to_s: float) -> None:
    for waited_s in (from_s, (from_s + to_s) / 2, to_s):
        assert cause in (timer(Round(waiting(10, waited_s, 0.001)), None) or "")


@pytest.mark.parametrize("waited_s", [0.0385, 0.0635, 0.0945, 0.1165])
def test_a_delay_that_matches_no_timer_is_not_reported(waited_s: float) -> None:
    assert timer(Round(waiting(10, waited_s, 0.001)), None) is None


def of_so_many_checks(count: int) -> Record:
    record = waiting(10, 0.042, 0.001)
    keep_first(record, count, CHECK)
    return record


# For each limit of the rule, a record just within the limit and a record just beyond it.
JUST = {
    "number of checks": (of_so_many_checks(3), of_so_many_checks(2)),
    "longer than a queue of two": (waiting(1, 0.042, 0.0205), waiting(1, 0.042, 0.0215)),
    "similar latencies": (
        waiting(10, 0.042, 0.001, p95_s=1.55 * 0.042),
        waiting(10, 0.042, 0.001, p95_s=1.65 * 0.042),
    ),
    "idle server": (waiting(10, 0.042, 0.001, cpus=0.48), waiting(10, 0.042, 0.001, cpus=0.52)),
}


@pytest.mark.parametrize("what", JUST)
def test_a_timer_is_reported_only_within_the_limits_of_the_rule(what: str) -> None:
    found, beyond = JUST[what]
    assert timer(Round(found), None)
    assert timer(Round(beyond), None) is None


def test_an_uneven_distribution_of_users_among_workers_is_not_reported_as_a_timer() -> None:
    """Simulate workers that handle requests sequentially; the connection of each user stays with one worker."""
    rng = random.Random(7)
    for _ in range(500):
        users, workers, service_s = rng.randint(1, 25), rng.randint(1, 8), rng.uniform(0.002, 0.1)
        lines = [0] * workers
        for _ in range(users):
            lines[rng.randrange(workers)] += 1
        usual_s = sorted(length for length in lines for _ in range(length))[users // 2] * service_s
        check_s = service_s * rng.uniform(0.8, 1.2) + service_s * min(lines)
        if usual_s <= users * service_s * 0.8:
            assert timer(Round(waiting(users, usual_s, check_s)), None) is None
