"""Rules for single rounds: they detect results that no honest server can produce, and load tools at their limit.

Each rule returns None, or a message with the contradictory values and their likely cause.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from under_siege import formatting
from under_siege.host.known_causes import known_cause
from under_siege.judge.estimates import ACCURACY, Estimate
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection, other_work, stolen
from under_siege.record.record import Drain, Record
from under_siege.record.requests import REFUSED
from under_siege.suite.suite import NO_SERVER

DEVIATIONS = 3.0  # number of standard deviations allowed for noise
DRIFT_OF_RATES = 0.03  # allowed relative difference between two equal cases' rates within a minute, on a shared machine
LEAST_FOR_RUNS = 0.15  # minimum of `Needs.allowance`, due to caches, interrupts, and a warmer interpreter
DELAYING = 0.25  # share of all CPU time that others used, beyond which a tool may send late through no fault of its own
OTHER_WORK, STEAL = 0.05, 0.02  # maximum shares of all CPUs; on a quiet machine, other programs use less than 0.01
NORMAL = 1.4826  # the standard deviation of a normal distribution as a multiple of its median absolute deviation

# The CPU time of a task is the mean over groups of runs; one group precedes and one follows each siege. The first value
# is the usual standard deviation of the groups' logarithms, and the second is its weight as a number of groups.
USUAL_DEVIATION_OF_RUNS, USUAL_GROUPS = 0.04, 4
LEAST_VARIANCE_OF_NEED = 0.01**2

AWAKE = 0.8  # threshold as a share of the time; if the server is the limit, the load tool sleeps at least half of it
GENERATOR = 0.10  # maximum share of all CPUs; on a quiet machine, the load tool and the bench use 0.01 to 0.02
SPARE = 0.10  # share of all CPUs; if this much is idle, the load tool did not slow down the server
PORTS, MANY_PORTS = 0.9, 0.5  # thresholds, as shares of all local ports: without and with failed connections
_NO_CONNECTION = ("unable to connect", "address is unavailable")  # errors of siege, which may be due to a lack of ports
FEWEST_FOR_A_MEAN = 5  # minimum number of responses
CYCLES_OF_OTHERS = 4  # a user without a response counts as stuck once the others have this many responses each
FAST_SHARE = 0.05  # maximum share of responses that look too fast because the bench read the tool's previous line late
ABANDONED_COST = 1.2  # highest plausible CPU time of an abandoned request, as a multiple of the mean
LEAST_DRAIN_S = 0.5  # CPU seconds; less work after the load is ignored
LOCUST_WORKER_WAS_BUSY = "exceeded cpu threshold"  # printed by a Locust master about a worker on any machine

FEWEST_CHECKS = 3  # minimum number of response checks, which send the same request on other connections
FEWEST_IN_QUEUE = 2  # minimum length of the queue, because with one user a response takes about as long as a check
TIGHT = 1.6  # maximum ratio of the 95th percentile to the median; with a timer, response times vary little
FEW_REFUSALS = 0.01  # share of requests
HARDLY_BUSY = 0.3  # CPUs that a server uses although it refuses requests
IDLE = 0.5  # maximum share of one CPU; a server that computes under a GIL uses 1.0
KNOWN_TIMERS = (  # range in seconds, wide enough for Locust's rounding to two digits, and the likely cause
    # The kernel delays ACKs by 40 ms, rounded up to its next clock tick (1 to 4 ms). The time of the work is added.
    (0.039, 0.047, "Nagle's algorithm and delayed ACK (40 ms): write head and body together, or set TCP_NODELAY"),
    (0.047, 0.063, "a poll every 0.1 s (0.05 s on average, less if another request ends it)"),
    (
        0.095,
        0.116,
        "a poll every 0.1 s, such as the select of cheroot 8.1 to 8.4 on idle connections",
    ),
)


class Needs(NamedTuple):
    """What the task needs when it runs by itself: waiting time and CPU work."""

    wait_s: float
    work: float  # CPU seconds at speed 1 of the speed probe, or as measured if there was no probe
    scatter: float  # robust standard deviation of the logarithm of `work`

    @property
    def allowance(self) -> float:
        """Return the fraction by which an honest response can be faster than the task by itself."""
        return LEAST_FOR_RUNS + DEVIATIONS * self.scatter


class _Run(NamedTuple):
    """A run of the task by itself, and the CPU speed at that moment."""

    at_s: float
    wall_s: float
    cpu_s: float
    speed: float

    @property
    def wait_s(self) -> float:
        return self.wall_s - self.cpu_s


class Evidence:
    """The measurements of each task running by itself, from all rounds of a result.

    The task is measured twice: in baseline runs before and after each siege, and in the ceilings without a server. A
    noisy neighbour may slow the baseline runs without slowing the speed probe. No task needs more CPU time than it used
    in a ceiling, so the smaller of both measurements counts.
    """

    def __init__(
        self, cases: Sequence[Sequence[Round]], correction: SpeedCorrection, cpu_s: Sequence[Estimate | None]
    ) -> None:
        """Take the rounds of all cases, and the estimate of each case's CPU time per transaction."""
        self._runs: dict[object, dict[Round, list[_Run]]] = {}
        for measured in itertools.chain(*cases):
            if runs := _runs(measured):
                self._runs.setdefault(measured.case.work, {})[measured] = runs
        self._scatter = {work: _scatter(runs.values()) for work, runs in self._runs.items()}
        self._cpu_needs = {work: _cpu_need(runs, correction) for work, runs in self._runs.items()}
        self._overstated: dict[object, float] = {}  # baseline runs divided by the ceiling, if they used more CPU time
        for case, used in zip(cases, cpu_s, strict=True):
            work, need = case[0].case.work, self._cpu_needs.get(case[0].case.work)
            if used and used.degrees and need and used.log < need.log and has_no_server(case[0]):
                self._overstated[work] = self._overstated.get(work, 1.0) * math.exp(need.log - used.log)
                self._cpu_needs[work] = used

    def needs(self, case_round: Round) -> Needs | None:
        """Return what the task needs, from its runs in this round or else in all rounds; None if there are no runs."""
        by_round = self._runs.get(case_round.case.work)
        if by_round is None:
            return None
        runs = by_round.get(case_round) or [run for runs in by_round.values() for run in runs]
        wait_s, work = max(0.0, min(run.wait_s for run in runs)), median(run.cpu_s * run.speed for run in runs)
        work /= self._overstated.get(case_round.case.work, 1.0)
        return Needs(wait_s, work, self._scatter[case_round.case.work] / len(runs) ** 0.5)

    def cpu_need(self, case_round: Round) -> Estimate | None:
        """Return the task's speed-adjusted CPU time, or None if the task was never run by itself."""
        return self._cpu_needs.get(case_round.case.work)


def has_no_server(case_round: Round) -> bool:
    """Return whether the round belongs to a ceiling that was measured without a server."""
    return case_round.record.is_ceiling and case_round.record.server == NO_SERVER.name


def is_busy(case_round: Round) -> bool:
    """Return whether other programs or virtual machines used so much CPU time that they may have delayed responses."""
    return other_work(case_round) > OTHER_WORK or stolen(case_round) > STEAL


def _runs(case_round: Round) -> list[_Run]:
    record, runs = case_round.record, []
    for index, (wall_s, cpu_s) in enumerate(zip(record.alone_wall_s, record.alone_cpu_s, strict=False)):
        at_s, speed = 0.0, 1.0
        if index < min(len(record.alone_at_s), len(record.alone_on_cpu)):
            at_s = record.alone_at_s[index]
            if case_round.speeds is not None:
                speed = case_round.speeds.at(at_s + wall_s / 2, record.alone_on_cpu[index])
        runs.append(_Run(at_s, wall_s, cpu_s, speed))
    return runs


def _scatter(several: Iterable[Sequence[_Run]]) -> float:
    """Return the robust standard deviation, within rounds, of the logarithms of speed-adjusted run times."""
    deviations = []
    for runs in several:
        usual, wait_s = median(run.speed for run in runs), min(run.wait_s for run in runs)
        logs = [math.log(max(run.cpu_s * (run.speed / usual) + wait_s, 1e-9)) for run in runs]
        middle = median(logs)
        deviations += [abs(log - middle) for log in logs]
    return NORMAL * median(deviations)


def _cpu_need(runs_of: dict[Round, list[_Run]], correction: SpeedCorrection) -> Estimate | None:
    groups = []
    for case_round, runs in runs_of.items():
        usual = (correction.usual if case_round.speeds is not None else None) or 1.0
        power = correction.rounds[case_round].cpu_coefficient
        for group in ([run for run in runs if run.at_s < 0], [run for run in runs if run.at_s >= 0]):
            logs = [math.log(run.cpu_s) + power * math.log(run.speed / usual) for run in group if run.cpu_s > 0]
            groups += [fmean(logs)] if logs else []
    if not groups:
        return None
    middle = fmean(groups)
    squares = sum((log - middle) ** 2 for log in groups) + USUAL_GROUPS * USUAL_DEVIATION_OF_RUNS**2
    degrees = len(groups) - 1 + USUAL_GROUPS
    variance = squares / degrees / len(groups) + LEAST_VARIANCE_OF_NEED
    return Estimate(middle, variance, degrees, len(groups), variance, degrees)


def paced_by_the_tool(measured: Round) -> bool:
    """Return whether the load tool limited the rates of both the round and its ceiling, so they can't be compared."""
    return measured.ceiling is not None and bool(starved_generator(measured) and starved_generator(measured.ceiling))


def too_fast(measured: Round, evidence: Evidence) -> str | None:
    """Report responses that took less time than the task: one to a check or without load, or many under load."""
    needs = evidence.needs(measured)
    if needs is None:
        return None
    # The first response comes before the siege, and the last check after it, perhaps at a higher speed.
    cpu_s = needs.work / (1.0 if measured.speeds is None else measured.speeds.highest(-math.inf, math.inf))
    # On a busy machine, or with a used-up quota, even a task that runs by itself waits for a CPU, which looks like I/O.
    is_delayed = is_busy(measured) or (measured.quota_of_the_bench and measured.throttled())
    alone_s = cpu_s if is_delayed else needs.wait_s + cpu_s
    least_s = alone_s * (1 - needs.allowance)
    answers_s = measured.checks.duration_s[measured.checks.good].tolist()
    if measured.record.idle_answer_s is not None:
        answers_s.append(measured.record.idle_answer_s)
    if (measured.steady_s < least_s).any():
        at_most_s = measured.steady_at_most_s()
        if (at_most_s < least_s).sum() > FAST_SHARE * len(at_most_s):
            answers_s += at_most_s.tolist()
    columns = measured.totals.columns
    bursts = zip(columns.p50_s, columns.wrong_status, columns.unanswered, strict=True)
    answers_s += [p50_s for p50_s, wrong, lost in bursts if p50_s is not None and not wrong and not lost]
    soonest_s = min(answers_s, default=least_s)
    if soonest_s >= least_s:
        return None
    return (
        f"a response came after {formatting.seconds(soonest_s)}, "
        f"but the task alone takes {formatting.seconds(alone_s)}, so the server answered without doing the work; "
        "check for a cache, or for a result that is not awaited"
    )


def littles_law(measured: Round, _: Evidence) -> str | None:
    """Report response times that contradict the rate and the number of users (Little, Operations Research 9, 1961).

    Each user counts from the start of the siege (of streams: from its first request) to its last response, because it
    always waits for a response until then. Users who pause, and requests that arrive at a given rate, have no such law:
    only more requests at once than there are users contradict it.
    """
    if measured.record.is_paced:
        return _more_requests_than_users(measured)
    spans = measured.spans
    tool = measured.record.tool
    rows = measured.rows[~measured.rows.is_open]
    took_s = rows.ended_s - rows.sent_s
    there_s = float(spans.ended_s[spans.last].sum())
    if measured.streams:  # their users don't start together
        there_s -= float((spans.ended_s - spans.duration_s)[spans.first].sum())
    if len(took_s) < FEWEST_FOR_A_MEAN or not there_s:
        return None
    users = int(spans.last.sum())
    inside = users * float(np.sum(took_s)) / there_s
    allowed = users * (ACCURACY + DRIFT_OF_RATES + measured.record.tool_step_s * len(took_s) / there_s)
    are_all = users == measured.record.users
    who = f"there are {users} users" if are_all else f"only {users} of {measured.record.users} users got a response"
    if inside > users + allowed:
        return (
            f"{tool}'s response times imply {inside:.1f} concurrent requests, but {who}, so "
            "its report contradicts itself; use another tool"
        )
    pings = measured.ping_rows
    latest_s = float((pings.sent_s - pings.due_s).max()) if len(pings) else 0.0
    stood_still = users * latest_s / (measured.load_s or 1.0)  # a stalled machine sends no requests
    is_delayed = other_work(measured) + stolen(measured) > DELAYING  # by the machine, not by the tool
    is_slow = inside < users - allowed - stood_still and not is_delayed
    if is_slow and rows.is_correct.all() and not measured.record.unlisted_losses:
        return (
            f"{tool}'s response times imply only {inside:.1f} concurrent requests, but {who}, so "
            "the tool sent requests too slowly; use another tool"
        )
    rounds_of_others = len(spans.ended_s) / users
    if users == measured.record.users or rounds_of_others < CYCLES_OF_OTHERS:
        return None
    return (
        f"{measured.record.users - users} of {measured.record.users} users never got a response, while the others got "
        f"{rounds_of_others:.0f} each, so the rate is for {users} users only"
    )


def _more_requests_than_users(measured: Round) -> str | None:
    """Report response times of users who pause that imply more requests at once than there are users."""
    record, inside = measured.record, float(measured.spans.duration_s.sum()) / (measured.load_s or math.inf)
    if record.is_open or inside <= record.users * (1 + ACCURACY + DRIFT_OF_RATES) + 1:
        return None
    return (
        f"{record.tool}'s response times imply {inside:.1f} concurrent requests, but there are {record.users} users, "
        "so its report contradicts itself; use another tool"
    )


def availability(measured: Round, _: Evidence) -> str | None:
    checks = measured.check_rows[~measured.check_rows.is_open]
    sent = measured.attempts + len(checks)
    missed = measured.attempts - measured.completed + int((~checks.is_correct).sum())
    if not missed:
        return None
    problems = [problem for problem in (*checks.problem, *measured.rows.problem) if problem]
    example = f" (the first: {problems[0]})" if problems else ""
    return (
        f"{missed} of {sent} requests got no correct response{example}{errors_of_the_tool(measured)}; "
        f"{_cause_of_losses(measured)}the rate counts only correct responses, but failed requests may have taken less "
        "work"
    )


def _cause_of_losses(measured: Round) -> str:
    """Return the likely cause of failed requests, as the begin of a clause, or an empty string."""
    if cause := known_cause(measured.record.server_said):
        return f"{cause}; "
    refused, cpus = np.count_nonzero(measured.rows.outcome == REFUSED), measured.cpus_used()
    if refused > FEW_REFUSALS * len(measured.rows) and cpus is not None and cpus < HARDLY_BUSY:
        return (
            f"it refused {refused} with status 503 while it used {formatting.share(cpus)} of a CPU: a limit such as "
            "uvicorn's --limit-concurrency also counts idle connections; "
        )
    return ""


def overload(measured: Round, _: Evidence) -> str | None:
    """Report that requests arrived faster than the server answered them, so that its queue grew until the end."""
    if (beyond := measured.overload) is None:
        return None
    return (
        f"{formatting.rate(beyond.asked_per_s)} requests arrived per second, but the server answered only "
        f"{formatting.rate(beyond.answered_per_s)}, and {beyond.left:,} were unanswered at the end: its queue "
        "grows, so response times depend on --time; use fewer arrivals, or find the highest rate with capacity"
    )


def errors_of_the_tool(measured: Round) -> str:
    """Return the errors that the load tool reported, as the end of a clause, or an empty string."""
    record = measured.record
    return f"; {record.tool} reported: {'; '.join(record.tool_errors)}" if record.tool_errors else ""


def backlog(measured: Round, _: Evidence) -> str | None:
    """Report work that was unfinished when the load ended, although the server had already answered.

    Requests that the load tool abandoned, at most one for each user and burst, don't count. If the server kills workers
    to cancel these requests, as pebble does, starting new workers doesn't count either. Each start is assumed to cost
    at most one worker's share of the CPU time of the server's start.
    """
    record, drain = measured.record, measured.record.drain
    if drain is None:
        return None
    in_flight = int(measured.rows.is_open.sum()) if record.is_open else record.users
    abandoned = in_flight * max(1, len(record.bursts.right))
    longer = "" if drain.is_done else " or longer"
    does_not_count = "the rate does not include this work"
    if drain.backlog is not None and drain.backlog > abandoned:
        return (
            f"{drain.backlog:,} jobs were still queued when the load ended and took another {drain.lasted_s:.1f} "
            f"s{longer}; {does_not_count}"
        )
    each_s = max([measured.cpu_s_per_transaction() or 0.0, *record.alone_cpu_s])
    if measured.streams and not each_s:
        return None  # what the abandoned streams may cost is unknown
    each_s *= measured.streams.most_events if measured.streams else 1
    start_s = record.samples.cpu_s[0] / (1 + (record.workers or 1)) if record.samples.cpu_s else 0.0
    allowed_s = abandoned * each_s + min(drain.restarts, abandoned) * start_s
    if drain.cpu_s is None or drain.cpu_s <= ABANDONED_COST * allowed_s + LEAST_DRAIN_S:
        return None
    return (
        f"after the load, the server was busy for {drain.lasted_s:.1f} s{longer} and used "
        f"{formatting.seconds(drain.cpu_s)} of CPU time; {does_not_count}; {_work_afterwards(drain)}"
    )


def _work_afterwards(drain: Drain) -> str:
    if not drain.restarts:
        return "check for background work"
    started = "1 process" if drain.restarts == 1 else f"{drain.restarts} processes"
    return (
        f"it started {started} then: workers that are recycled, as with --max-requests, import the application again; "
        "without such an option, check for background work"
    )


def unanswered_pings(measured: Round, _: Evidence) -> str | None:
    problems = [problem for problem in measured.ping_rows.problem if problem]
    if not problems:
        return None
    of_all = f"{len(problems)} of {len(measured.ping_rows)}"
    return f"{of_all} pings got no correct response; the first: {problems[0]}"


def starved_generator(measured: Round, _: Evidence | None = None) -> str | None:
    """Report a load tool that was itself the limit, or took CPU time that the server would have used."""
    record, machine = measured.record, measured.record.machine
    problem = _busy_tool(measured) if measured.totals else _busy_thread(measured)
    if problem or (measured.totals and not record.load_cpus):
        return problem
    generator_s = (record.tool_cpu_s or 0.0) + (record.bench_cpu_s or 0.0)
    if record.load_cpus:
        return _of_own_cpus(measured, generator_s)
    if measured.quota_of_the_bench:
        return _of_shared_quota(measured, generator_s)
    if machine is None or not machine.total_s or generator_s <= GENERATOR * machine.total_s:
        return None
    if machine.idle_s is not None and machine.idle_s > SPARE * machine.total_s:
        return None
    return (
        f"{record.tool} and the bench used {100 * generator_s / machine.total_s:.1f} % of the machine's CPU time, "
        f"more than {100 * GENERATOR:.0f} %, so less was left for the server; use a longer task or fewer users"
    )


def _of_own_cpus(measured: Round, generator_s: float) -> str | None:
    record, own_s = measured.record, measured.record.load_cpus * measured.load_s
    if generator_s <= AWAKE * own_s:
        return None
    own = "the CPU" if record.load_cpus == 1 else f"the {record.load_cpus} CPUs"
    return (
        f"the load tool was the limit, because {record.tool} and the bench used {100 * generator_s / own_s:.0f} % of "
        f"{own} reserved for them; use another tool, a longer task or fewer users"
    )


def _of_shared_quota(measured: Round, generator_s: float) -> str | None:
    quota = measured.quota_of_the_bench or 0.0
    quota_s = quota * measured.load_s
    if not measured.is_limited_by_its_quota() or generator_s <= GENERATOR * quota_s:
        return None
    cpus = "CPUs" if quota > 1 else "CPU"
    return (
        f"{measured.record.tool} and the bench used {100 * generator_s / quota_s:.0f} % of the quota of {quota:g} "
        f"{cpus} that they share with the server; run the bench outside the container, with --cpus"
    )


def _busy_thread(measured: Round) -> str | None:
    record = measured.record
    if record.tool_cpus == 1 and record.users != 1 and (record.tool_cpu_s or 0.0) >= AWAKE * measured.load_s > 0:
        return _was_the_limit(record, (record.tool_cpu_s or 0.0) / measured.load_s)
    return None


def _busy_tool(measured: Round) -> str | None:
    record, cpus = measured.record, measured.record.tool_cpus or 1
    if record.tool == "locust" and LOCUST_WORKER_WAS_BUSY in record.tool_report:
        return "the load tool was the limit: one of Locust's workers used more than 90 % of its CPU; use more workers"
    awake = measured.totals.awake(cpus)
    if awake is None or awake < AWAKE:
        return None
    return _was_the_limit(record, awake)


def _was_the_limit(record: Record, awake: float) -> str:
    cpus = record.tool_cpus or 1
    threads = "the only thread" if cpus == 1 else f"all {cpus} threads"
    return (
        f"the load tool was the limit, because {threads} of {record.tool} {'was' if cpus == 1 else 'were'} busy "
        f"{100 * min(1.0, awake):.0f} % of the time; use another tool, more threads, or a longer task"
    )


def no_ports(measured: Round, _: Evidence) -> str | None:
    """Report that the machine ran out of local ports, which can happen if each request opens a connection."""
    record = measured.record
    taken, available = max(record.ports.taken, default=0), record.port_range or 0
    unconnected = sum(record.bursts.connect_errors) + _failures_to_connect(record)
    used_up = taken >= PORTS * available and not record.ports_are_reused
    if not available or not (used_up or (unconnected and taken >= MANY_PORTS * available)):
        return None
    failed = f", and {unconnected} requests got no response" if unconnected else ""
    return (
        f"the machine ran out of local ports (it has {available:,}; {taken:,} were open or in TIME_WAIT)"
        f"{failed}, so a lack of ports, not the server, limited the rate; keep connections alive, let the kernel reuse "
        "ports (sysctl -w net.ipv4.tcp_tw_reuse=2), or wait a minute"
    )


def _failures_to_connect(record: Record) -> int:
    """Return how many failures may be due to a lack of ports: all, unless siege reports only other errors."""
    is_other = [not any(text in error for text in _NO_CONNECTION) for error in record.tool_errors]
    return 0 if is_other and all(is_other) else record.unlisted_losses


def unknown_lines(measured: Round, _: Evidence) -> str | None:
    record = measured.record
    if not record.tool_unknown:
        return None
    first = next((f"; the first: {line}" for line in record.tool_unknown_lines), "")
    lines = "line" if record.tool_unknown == 1 else "lines"
    return f"{record.tool} printed {record.tool_unknown} {lines} in an unknown format{first}"


def timer(measured: Round, _: Evidence) -> str | None:
    """Report responses that take as long as a known timer, and longer than if all users shared one queue.

    Response checks send the same request on new connections during the load. If all users shared one worker, each user
    would wait at most the duration of a check multiplied by the number of users.
    """
    waited_s, checks_s = _usual_wait_s(measured), measured.checks.duration_s[measured.checks.good]
    cause = next((cause for least_s, most_s, cause in KNOWN_TIMERS if least_s <= (waited_s or 0.0) <= most_s), None)
    used_s, p95_s = measured.server_cpu_s(), measured.response_times.percentile(95)
    asked_s = float(measured.totals.took_s.sum()) if measured.totals else measured.load_s
    if waited_s is None or cause is None or len(checks_s) < FEWEST_CHECKS or used_s is None or not asked_s:
        return None
    usual_s, share = float(np.median(checks_s)), used_s / asked_s
    in_queue_s = max(FEWEST_IN_QUEUE, measured.record.users) * usual_s
    if waited_s <= in_queue_s or (p95_s is not None and p95_s > TIGHT * waited_s) or share > IDLE:
        return None
    return (
        f"a timer, not work, determined the response time: users waited {formatting.seconds(waited_s)}, but the same "
        f"request on a new connection took {formatting.seconds(usual_s)}, "
        f"and the server used {100 * share:.0f} % of a CPU; likely cause: {cause}"
    )


def _usual_wait_s(measured: Round) -> float | None:
    """Return the median response time, or the mean from Little's law if the tool reports no percentiles.

    The mean includes delays by the tool and by other programs, so return None if these are large.
    """
    p50_s, totals = measured.response_times.percentile(50), measured.totals
    if p50_s is not None or not totals or not measured.completed or is_busy(measured) or starved_generator(measured):
        return p50_s
    return float(measured.record.users * totals.took_s.sum() / totals.attempts)
