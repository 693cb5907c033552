"""Rules on one round: results that an honest server can't have, and load tools that were the limit.

Each returns what it saw, what it compared that with, and the likely cause; None if it saw nothing.
"""

import numpy as np

from under_siege import formatting
from under_siege.checks.evidence import DRIFT_OF_RATES, Evidence, is_busy
from under_siege.stats.estimates import ACCURACY
from under_siege.stats.rounds_data import Round

AWAKE = 0.8  # share of the time; a load tool that waits for the server sleeps at least half of it
GENERATOR = 0.10  # share of all CPUs; on a quiet machine the load tool and the bench use 0.01 to 0.02
SPARE = 0.10  # share of all CPUs; if this much is idle, the load tool has taken nothing from the server
PORTS, MANY_PORTS = 0.9, 0.5  # shares of all local ports
FEWEST_FOR_A_MEAN = 5  # answers
CYCLES_OF_OTHERS = 4  # a user without an answer is stuck when the others have had this many each
FAST_SHARE = 0.05  # share of answers that may look too fast because the previous line was read late


def paced_by_the_tool(one: Round) -> bool:
    """Return whether the load tool was the limit here and at the ceiling: then one sees how its own pace changed."""
    return one.ceiling is not None and bool(starved_generator(one) and starved_generator(one.ceiling))


def too_fast(one: Round, evidence: Evidence) -> str | None:
    """Return a message if an answer came sooner than the task takes alone: idle, at a check, or often under load."""
    needs = evidence.needs(one)
    if needs is None:
        return None
    speed = evidence.speeds(one)[1]
    # Beside other work the task alone has to wait for a CPU, too, and nothing tells that from its own waiting.
    alone_s = needs.cpu_s(speed) if is_busy(one) else needs.wall_s(speed)
    least_s = alone_s * (1 - needs.allowance)
    answers_s = one.checks.duration_s[one.checks.good].tolist()
    if one.record.idle_answer_s is not None:
        answers_s.append(one.record.idle_answer_s)
    if (one.steady_s < least_s).any():
        at_most_s = one.steady_at_most_s()
        if (at_most_s < least_s).sum() > FAST_SHARE * len(at_most_s):
            answers_s += at_most_s.tolist()
    answers_s += _halves_of_bursts_s(one)
    soonest_s = min(answers_s, default=least_s)
    if soonest_s >= least_s:
        return None
    return (
        f"an answer came after {formatting.seconds(soonest_s)}, "
        f"but the task alone takes {formatting.seconds(alone_s)}: "
        "the answer did not wait for the work; look whether it comes from a cache, or before the work"
    )


def _halves_of_bursts_s(one: Round) -> list[float]:
    """Return how long half of the answers of each burst took at most, where all of them had a good status."""
    columns = one.totals.columns
    return [
        p50_s
        for p50_s, wrong, lost in zip(columns.p50_s, columns.wrong_status, columns.unanswered, strict=True)
        if p50_s is not None and not wrong and not lost
    ]


def littles_law(one: Round, _: Evidence) -> str | None:
    """Rate times response time is the number of users (Little, Operations Research 9, 1961).

    Of each user as far as it is known: from the beginning to its last answer it has waited all the time.
    """
    spans, took_s = one.spans, np.asarray(one.record.transactions.took_s, dtype=float)
    there_s = float(spans.ended_s[spans.last].sum())
    if len(took_s) < FEWEST_FOR_A_MEAN or not there_s:
        return None
    users = int(spans.last.sum())
    inside = users * float(took_s.sum()) / there_s
    allowed = users * (ACCURACY + DRIFT_OF_RATES + one.record.tool_step_s * len(took_s) / there_s)
    if inside > users + allowed:
        return (
            f"{one.record.tool}'s response times add up to {inside:.1f} requests at a time, "
            f"but there are {users} users: its figures contradict each other"
        )
    stood_still = users * _latest_s(one) / (one.record.load_s or 1.0)  # with the machine: no user can ask meanwhile
    if inside < users - allowed - stood_still and not one.record.socket_failures:
        return (
            f"{one.record.tool}'s response times add up to only {inside:.1f} requests at a time of {users} users: "
            "it did not ask as often as it could, so that the server might do more"
        )
    return _never_answered(one)


def _never_answered(one: Round) -> str | None:
    """Users that are stuck while others come round and round."""
    answered = int(one.spans.first.sum())
    rounds_of_others = len(one.spans.ended_s) / max(1, answered)
    if answered == one.record.users or rounds_of_others < CYCLES_OF_OTHERS:
        return None
    return (
        f"{one.record.users - answered} of {one.record.users} users never got an answer, while the others got "
        f"{rounds_of_others:.0f} each: the rate is that of fewer users"
    )


def availability(one: Round, _: Evidence) -> str | None:
    unchecked = sum(bool(code) for code in one.record.checks.code)
    missed, asked = one.attempts - one.completed + unchecked, one.attempts + len(one.record.checks.code)
    if not missed:
        return None
    problems = [problem for problem in one.record.checks.problem if problem]
    example = f", such as: {problems[0]}" if problems else ""
    return (
        f"{missed} of {asked} requests got no right answer{example}; the rate counts only the others, "
        "and errors may have come sooner than work would have"
    )


def unanswered_pings(one: Round, _: Evidence) -> str | None:
    problems = [problem for problem in one.record.pings.problem if problem]
    if not problems:
        return None
    return f"{len(problems)} of {len(one.record.pings.problem)} pings got no right answer; the first: {problems[0]}"


def starved_generator(one: Round, _: Evidence | None = None) -> str | None:
    """Return a message if the load tool was busy with itself, or took CPUs that the server would have used."""
    record, machine = one.record, one.record.machine
    if one.totals:
        return _wakeful_tool(one)
    generator_s = (record.tool_cpu_s or 0.0) + (record.bench_cpu_s or 0.0)
    if machine is None or not machine.total_s or generator_s <= GENERATOR * machine.total_s:
        return None
    if machine.idle_s is not None and machine.idle_s > SPARE * machine.total_s:
        return None
    return (
        f"{record.tool} and the bench took {100 * generator_s / machine.total_s:.0f} % of the machine's CPUs, "
        f"more than {100 * GENERATOR:.0f} %: the server might do more; take a longer task, or fewer users"
    )


_WORKER_WAS_BUSY = "exceeded cpu threshold"  # printed by a Locust master about a worker on any machine


def _wakeful_tool(one: Round) -> str | None:
    record, cpus = one.record, one.record.tool_cpus or 1
    if record.tool == "locust" and _WORKER_WAS_BUSY in record.tool_report:
        return (
            "the load tool was the limit: one of Locust's workers used more than 90 % of its CPU: the server might do "
            "more; take more workers"
        )
    awake = one.totals.awake(cpus)
    if awake is None or awake < AWAKE:
        return None
    all_cpus = "its only thread" if cpus == 1 else f"its {cpus} threads"
    return (
        f"the load tool was the limit: {record.tool} computed or waited for a CPU in {100 * min(1.0, awake):.0f} % of "
        f"the time of {all_cpus}, and a tool that waits for the server does not: the server might do more; "
        "take another tool, more threads of it, or a longer task"
    )


def no_ports(one: Round, _: Evidence) -> str | None:
    """Too few local ports for a connection for each request."""
    taken, among = max(one.record.ports.taken, default=0), one.record.port_range or 0
    unconnected = sum(one.record.bursts.connect_errors) + one.record.socket_failures
    used_up = taken >= PORTS * among and not one.record.ports_are_reused
    if not among or not (used_up or (unconnected and taken >= MANY_PORTS * among)):
        return None
    failed = f", and {unconnected} requests got no answer" if unconnected else ""
    return (
        f"the machine ran out of local ports: it has {among:,}, and {taken:,} connections were open or in TIME_WAIT"
        f"{failed}: what was measured is how long a port is kept, and not the server; "
        "keep connections alive, let ports be reused (sysctl -w net.ipv4.tcp_tw_reuse=2), or measure again in a minute"
    )


def _latest_s(one: Round) -> float:
    """By how much the latest ping was sent too late: so long this program did not run."""
    pings = one.record.pings
    return float(np.subtract(pings.sent_s, pings.due_s).max()) if pings.due_s else 0.0


def unknown_lines(one: Round, _: Evidence) -> str | None:
    if not one.record.tool_unknown:
        return None
    first = next(iter(one.record.tool_unknown_lines), "not kept")
    return f"{one.record.tool} printed {one.record.tool_unknown} lines that are not known; the first: {first}"


FEWEST_CHECKS = 3  # checks: the same request on other connections
FEWEST_IN_LINE = 2  # with one user, each answer takes about as long as a check
TIGHT = 1.6  # a timer does not queue: its 95th percentile is less than this multiple of the median
IDLE = 0.5  # share of one CPU; a server that computes under a GIL uses all of one
KNOWN = (  # from and to in seconds, and the likely cause; Locust rounds percentiles to two digits
    (0.039, 0.046, "Nagle's algorithm and delayed ACK (40 ms): write head and body at once, or set TCP_NODELAY"),
    (0.047, 0.063, "a poll every 0.1 s, half of which one waits on the average, or which other requests wake"),
    (0.095, 0.116, "a poll every 0.1 s, such as the select of cheroot 8.1 to 8.4, in which kept connections wait"),
)


def timer(one: Round, _: Evidence) -> str | None:
    """Answers that take as long as a known timer, and longer than if all users stood in one line.

    The checks ask for the same on new connections at the same time. Whatever a server is waiting for, and however few
    of its workers the users share: if one answer takes so long, users have to wait at most so many times that.
    """
    waited_s, soon_s = _usual_wait_s(one), one.checks.duration_s[one.checks.good]
    cause = next((cause for least_s, most_s, cause in KNOWN if least_s <= (waited_s or 0.0) <= most_s), None)
    if waited_s is None or cause is None or len(soon_s) < FEWEST_CHECKS:
        return None
    usual_s = float(np.median(soon_s))
    in_line_s, share = max(FEWEST_IN_LINE, one.record.users) * usual_s, _cpu_share(one)
    p95_s = one.response_s(95)
    if waited_s <= in_line_s or (p95_s is not None and p95_s > TIGHT * waited_s) or share is None or share > IDLE:
        return None
    return (
        f"a timer and not work: users waited {formatting.seconds(waited_s)}, "
        f"while the same request on a new connection took {formatting.seconds(usual_s)}, "
        f"and the server used {100 * share:.0f} % of a CPU; the likely cause is {cause}"
    )


def _usual_wait_s(one: Round) -> float | None:
    """Return the median; where the tool tells no percentiles, the mean, as users and rate have it (Little).

    In the mean there is what the tool itself and other work took; None where that was much.
    """
    known = one.response_s(50)
    if known is None and one.totals and one.completed and not is_busy(one) and not starved_generator(one):
        return float(one.record.users * one.totals.took_s.sum() / one.totals.attempts)
    return known


def _cpu_share(one: Round) -> float | None:
    """Return how much of one CPU the server used while it was asked."""
    used_s = one.server_cpu_s()
    asked_s = float(one.totals.took_s.sum()) if one.totals else one.record.load_s
    return None if used_s is None or not asked_s else used_s / asked_s
