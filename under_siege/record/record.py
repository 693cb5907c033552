"""Define the raw values of a case: the record of each round, and its traces, incidents, rate steps and profiles.

Times are in seconds since the load began, unless a comment says otherwise.
"""

from typing import Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta

from under_siege.record.case import ARRIVALS, PAUSE, Case, Value, case_of
from under_siege.record.requests import (
    CHECK,
    CORRECT,
    FAILED_OUTCOMES,
    LARGEST,
    LARGEST_INDEX,
    LONGEST_S,
    Count,
    Index,
    Moment,
    Outcome,
    Requests,
    Status,
    outcome_of,
)

LONGEST_CLOCK_S = 1e10

SmallCount = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_INDEX)]
Bytes = Annotated[int, Meta(ge=-1, le=LARGEST)]  # -1: the size differs between responses
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
PositiveSeconds = Annotated[float, Meta(ge=1e-6, le=LONGEST_S)]  # used as a divisor
CpuSeconds = Annotated[float, Meta(ge=0, le=LONGEST_CLOCK_S)]
Clock = Annotated[float, Meta(ge=-LONGEST_CLOCK_S, le=LONGEST_CLOCK_S)]
Cpus = Annotated[float, Meta(ge=0, le=LARGEST_INDEX)]
Rate = Annotated[float, Meta(ge=1e-6, le=LARGEST_INDEX)]
Metric = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


# The codes of failures, which results and JSON contain. Don't rename them, because programs read them.
FailureCode = Literal[
    "ab_failed",
    "ab_memory",
    "broken_stream",  # the connection was closed in the middle of a stream
    "client_failed",
    "client_memory",
    "died",
    "endless_stream",
    "error_answer",
    "generator_failed",
    "id_file_exists",
    "interpreters",
    "jobs_failed",
    "jobs_memory",
    "keep_alive",
    "locust_failed",
    "locust_memory",
    "missing_library",
    "missing_package",
    "missing_program",
    "no_answer",
    "no_backlog",
    "no_cgroup",
    "no_check",
    "no_command",
    "no_decoder",
    "no_environment",
    "no_fault",
    "no_job",
    "no_limits",
    "no_permission",
    "no_port",
    "no_process",
    "no_profiler",
    "no_runtime",
    "no_samples",
    "no_service",
    "no_stream",
    "not_prepared",
    "not_python",
    "not_ready",
    "not_stopped",
    "open_files",
    "out_of_memory",  # beyond the memory limit
    "own_state",
    "port_kept",
    "profiler_failed",
    "refused",
    "refused_request",
    "service_died",
    "setup_failed",  # the requests that each user sends before the load
    "siege_failed",
    "siege_memory",
    "stranger",
    "stressor_failed",
    "stressor_memory",
    "succeeds_once",  # the same request fails when it is repeated
    "unsuitable_container",
    "wrk_failed",
    "wrk_memory",
    "wrong_answer",
]
OUT_OF_MEMORY: Final = "out_of_memory"


def tool_failure(tool: str, kind: Literal["failed", "memory"] = "failed") -> FailureCode:
    """Return the code for a load tool that failed or used too much memory."""
    return cast("FailureCode", f"{tool}_{kind}")


class CaseFailedError(Exception):
    """Raised if a case has no results. `code` is for programs, and the message is for people."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Failure(msgspec.Struct, frozen=True):
    """The reason why a case has no results."""

    code: str
    message: str


class SentRequest(msgspec.Struct, frozen=True):
    """One of several requests of a load. If the tool reports only paths, all requests for a path are one."""

    method: str
    path: str
    status: Status = 200  # of a correct response
    alone_s: Seconds | None = None  # response time of the idle server


class RequestTotals(msgspec.Struct, frozen=True):
    """The totals of one of several requests in a burst."""

    index: Index  # in `Record.mix`
    requests: Count
    failed: Count
    p50_s: Seconds
    p99_s: Seconds
    body_bytes: Count


class Bursts(msgspec.Struct, frozen=True):
    """The totals of each burst of a tool that reports only totals. Values that the tool doesn't report are None."""

    began_s: list[Moment] = []  # approximate time of the first request
    took_s: list[PositiveSeconds] = []  # duration of the burst from its first request, as reported
    right: list[Count] = []  # responses with a good status; not every tool checks bodies
    wrong_status: list[Count] = []  # all other responses
    unanswered: list[Count] = []  # requests without a response: refused, interrupted, or timed out
    connect_errors: list[Count] = []  # refused requests, which `unanswered` includes
    p50_s: list[Seconds | None] = []  # response times
    p95_s: list[Seconds | None] = []
    p99_s: list[Seconds | None] = []
    max_s: list[Seconds | None] = []
    kept_alive: list[Count | None] = []  # responses after which the server kept the connection open
    body_bytes: list[Count | None] = []  # total size of all bodies
    wrong_contents: list[Count] = []  # responses counted in `wrong_status` that had a good status but a wrong body
    odd_bytes: list[Count | None] = []  # difference between received and requested bytes, less the bytes in flight
    tool_cpu_s: list[Seconds] = []  # CPU time of the tool and its children
    requests: list[list[RequestTotals]] = []  # of each request of a mix; empty if the tool does not report them
    tool_awake: list[Cpus | None] = []  # number of CPUs that the tool used or waited for


class Ports(msgspec.Struct, frozen=True):
    """The local TCP ports in use on the whole machine."""

    at_s: list[Moment] = []
    taken: list[SmallCount] = []  # number of ports in use, including those in TIME_WAIT


class Machine(msgspec.Struct, frozen=True):
    """The CPU time of the whole machine, in CPU seconds summed over all CPUs."""

    total_s: CpuSeconds
    busy_s: Clock
    steal_s: Clock  # taken by other virtual machines on the same host
    idle_s: Clock | None = None


class SpeedSamples(msgspec.Struct, frozen=True):
    """The samples of the speed probe, which repeats the same short computation on every CPU."""

    at_s: list[Moment] = []
    cpu: list[Index] = []
    took_s: list[Seconds] = []  # CPU time, which excludes waiting for the CPU


class CpuTimes(msgspec.Struct, frozen=True):
    """The utilization of each CPU."""

    at_s: list[Moment] = []
    busy_s: dict[int, list[Clock]] = {}  # by CPU: CPU seconds since the machine started


class Samples(msgspec.Struct, frozen=True):
    """The resource usage of the server's process tree."""

    at_s: list[Moment] = []
    cpu_s: list[CpuSeconds] = []  # CPU time since the server started
    memory_bytes: list[Count] = []
    processes: list[SmallCount] = []
    waited_s: list[Seconds] = []  # how long runnable threads waited for a CPU; empty if the system doesn't report this


class ProcessSamples(msgspec.Struct, frozen=True):
    """The resource usage of one process of the server."""

    at_s: list[Moment] = []
    cpu_s: list[CpuSeconds] = []  # CPU time since the process started, without that of its children
    connections: list[Index] = []  # accepted connections that are open; -1: not counted at this time


class ServerProcess(msgspec.Struct, kw_only=True):
    """A process of the server's process tree. `judge/server_processes.py` derives its role."""

    pid: Count
    parent: Count  # process id of its parent
    command: str = ""  # the beginning of its command line
    is_listening: bool | None = None  # whether it has a listening socket, perhaps inherited; None: unknown
    accepts: bool = False  # whether its event loop waits for connections
    began_s: Moment
    ended_s: Moment | None = None  # ± half the time between two samples; None: it still ran when the load ended
    memory_start_bytes: Count | None = None  # when the load began, or the process was first seen
    memory_end_bytes: Count | None = None  # when the load or the process ended
    private_bytes: Count | None = None  # at the end: memory that no other process shares; None: unknown
    samples: ProcessSamples = msgspec.field(default_factory=ProcessSamples)


class TracedRequests(msgspec.Struct, frozen=True):
    """Simultaneous requests for the task. Times are in seconds since the first ping."""

    sent_s: list[Moment] = []
    answered_s: list[Moment] = []
    worker: list[str] = []  # "process id/thread name"; empty if the server doesn't report its workers
    # The spans in which the task ran: start, end, and CPU seconds. If the server does not report spans, a single span
    # without CPU seconds is derived from Server-Timing.
    ran_s: list[list[tuple[float, float, float | None]]] = []
    events_s: list[list[Moment]] = []  # the arrivals of the events of each response; empty if they are no streams


class Drain(msgspec.Struct, frozen=True):
    """The activity of the server after the load."""

    lasted_s: Seconds  # time until the server was idle, or until the bench stopped waiting
    cpu_s: CpuSeconds | None  # CPU time of the server during this time
    backlog: Count | None  # number of queued jobs at the end of the load, as reported by the server
    is_done: bool  # whether the server became idle
    restarts: SmallCount = 0  # processes that the server started during this time


class LimitUsage(msgspec.Struct, frozen=True):
    """The limits of a cgroup, and how the kernel enforced them during the load."""

    cpus: Cpus | None = None
    memory_bytes: Count | None = None
    is_shared: bool = False  # whether the bench and the load tool run in the same cgroup, for example in a container
    periods: Count = 0  # periods of the quota (100 ms each) in which a process of the cgroup could run
    throttled_periods: Count = 0  # those in which the quota was used up
    throttled_s: Seconds = 0.0  # summed over the CPUs
    peak_memory_bytes: Count | None = None  # since the server was started
    oom_kills: Count = 0

    def since(self, before: "LimitUsage") -> "LimitUsage":
        """Return the usage with the counters as differences from an earlier usage."""
        counters = ("periods", "throttled_periods", "throttled_s", "oom_kills")
        return msgspec.structs.replace(self, **{name: getattr(self, name) - getattr(before, name) for name in counters})


class _CaseMeasurement(msgspec.Struct, kw_only=True):
    """A measurement of a case. Its fields change only during the measurement."""

    server: str  # file stem, with as many parent directories as needed to make it unique
    title: str
    values: dict[str, Value]  # by axis: task, users, python, ...

    @property
    def case(self) -> Case:
        return case_of(self.server, self.values)

    @property
    def users(self) -> int:
        return int(self.values.get("users") or 0)

    @property
    def is_open(self) -> bool:
        """Return whether requests arrived at a given rate, without waiting for responses."""
        return ARRIVALS in self.values

    @property
    def is_paced(self) -> bool:
        """Return whether not the server alone, but also pauses of the users or a given rate determined the rate."""
        return self.is_open or PAUSE in self.values


class Record(_CaseMeasurement, kw_only=True):
    """The measurement of one case in one round."""

    is_ceiling: bool = False
    has_ceiling: bool = True  # whether the run has a ceiling to compare this case with
    kind: str = ""  # how the server runs a task, such as `processes`; see `Kind`
    has_task: bool = True  # whether requests run a task of the bench, which can also run without a server
    round: Positive
    began_at: str  # UTC, ISO 8601
    load_average: Cpus  # one-minute load average of the machine before the server was started
    time_s: Seconds  # planned duration of the load
    workers: Positive | None = None  # number of tasks that the server can run at once, as reported by the server
    gil: bool | None = None  # whether the GIL was enabled; None if this Python can't disable it
    gil_enabled_by: str = ""  # the extension module whose import enabled the GIL of a free-threaded Python
    answer_bytes: Bytes = 0  # size of the correct response
    answer_status: Status = 200
    other_statuses: list[Status] = []  # other statuses of correct responses, if requests differ
    content_encoding: str = ""  # of the response, such as `gzip`; empty if it is not compressed
    browser_encoding: str | None = None  # the same for the Accept-Encoding of browsers; None: not asked
    mix: list[SentRequest] = []  # the requests, if there are several
    ready_s: Seconds | None = None  # time between the start of the server and its first correct ping response
    warm_s: Seconds | None = None  # time between the start of the server and the end of its workers' warm-up
    warm_up_answers: Count = 0  # responses during the warm-up
    warm_up_cpu_s: CpuSeconds | None = None  # CPU time of the server during the warm-up
    load_began_s: Clock | None = None  # on the machine's monotonic clock
    load_s: PositiveSeconds | None = None  # actual duration of the load
    drain: Drain | None = None
    is_screening: bool = False  # whether the siege was short and the server stopped at once, so its drain is unknown
    workers_replaced: Count = 0  # workers that ended and were started again under load; of results without `processes`
    listens_elsewhere: bool = False  # whether the listening process is unknown, so that its usage is not measured
    stop_s: Seconds | None = None  # time between SIGTERM and the exit of the last process
    case_s: Seconds | None = None  # duration of the whole case
    requests: Requests = msgspec.field(default_factory=Requests)
    unlisted_losses: Count = 0  # requests without a response that the tool reports only as a total
    bursts: Bursts = msgspec.field(default_factory=Bursts)  # replaces the rows of tools that report only totals
    stream: str = ""  # how the events of responses were read: `sse`, `lines` or `chunks`; empty: not event by event
    text_events: list[str] = []  # which events of streams count, by JSON path or pattern; empty: all events
    client_stalls_s: list[Seconds] = []  # the longest times for which the bench's client could not run
    reconnected: Count = 0  # requests that the client repeated, because the server had closed an idle connection
    # The arrivals of the events of a stream of the idle server, since the request: to the load, and to a browser.
    idle_events_s: list[Seconds] = []
    browser_events_s: list[Seconds] = []
    consumed_iterators: str = ""  # `synchronous` or `asynchronous`: Django warned that it reads these to their end
    keep_alive: bool = False
    tool_cpus: Positive | None = None  # CPUs that the tool can use
    load_cpus: Count = 0  # CPUs that only the tool and the bench could use
    ports: Ports = msgspec.field(default_factory=Ports)
    port_range: Positive | None = None  # number of ports in the system's range of ephemeral ports
    ports_are_reused: bool | None = None  # whether the system reuses ports in TIME_WAIT
    tool: str = "siege"
    tool_step_s: Seconds = 0.01  # resolution of the reported response times
    tool_command: list[str] = []
    tool_report: str = ""  # output of the tool for all bursts, including its report
    tool_errors: list[str] = []  # errors that the tool reported about its own requests, the most frequent first
    tool_unknown: Count = 0  # lines on stdout that could not be parsed
    tool_unknown_lines: list[str] = []  # the first of these lines
    tool_cpu_s: Seconds | None = None
    bench_cpu_s: Seconds | None = None  # CPU time of the bench during the load
    services_cpu_s: Seconds | None = None  # CPU time of services that were started for the server, such as PostgreSQL
    idle_answer_s: Seconds | None = None  # response time of the idle server
    sets_cookies: bool = False  # whether the idle server's response has the header Set-Cookie
    machine_before: Machine | None = None  # CPU time during start and warm-up
    machine: Machine | None = None  # CPU time during the load
    load_average_after: Cpus | None = None
    # Runs of the task without a server, before and after the load.
    alone_at_s: list[Moment] = []
    alone_wall_s: list[CpuSeconds] = []
    alone_cpu_s: list[CpuSeconds] = []
    alone_on_cpu: list[Index] = []  # the CPU on which the run ended
    speed_samples: SpeedSamples = msgspec.field(default_factory=SpeedSamples, name="beats")
    cpu_times: CpuTimes = msgspec.field(default_factory=CpuTimes)
    samples: Samples = msgspec.field(default_factory=Samples)
    processes: list[ServerProcess] = []  # of the server, parents before their children
    limits: LimitUsage | None = None  # None: neither the server nor the bench has limits
    memory_kind: str = ""  # "pss", or "rss" if the system has no PSS
    server_said: str = ""  # the end of the server's stderr
    failure: Failure | None = None

    @property
    def right_statuses(self) -> list[int]:
        """Return the statuses of correct responses."""
        return [self.answer_status, *self.other_statuses]

    def outcome_of(self, status: int, size_bytes: int, request: int = -1) -> Outcome:
        """Return the outcome of a response that a load tool reports; `request` is an index in `mix`, if it is known."""
        statuses = [self.mix[request].status] if 0 <= request < len(self.mix) else self.right_statuses
        return outcome_of(status, statuses, has_right_body=self.answer_bytes in (-1, size_bytes))


class Trace(_CaseMeasurement, kw_only=True):
    """A trace: the times at which the tasks of a few simultaneous requests ran, and the pings during these requests."""

    workers: Positive | None = None
    requests: TracedRequests = msgspec.field(default_factory=TracedRequests)
    pings: Requests = msgspec.field(default_factory=Requests)  # times in seconds since the first ping was due
    machine: Machine | None = None  # CPU time from the first request to the last response
    server_cpu_s: Seconds | None = None  # CPU time of the server, its children and its services during that time
    bench_cpu_s: Seconds | None = None
    failure: Failure | None = None


class Incident(_CaseMeasurement, kw_only=True):
    """The effect of one fault on one server in one round."""

    fault: str
    round: Positive
    workers: Positive | None = None
    requests: Requests = msgspec.field(default_factory=Requests)  # before, during and after the fault
    fault_at_s: Moment | None = None
    ended_s: Moment = 0.0  # when the load ended
    idle_answer_s: Seconds | None = None  # response time of the idle server
    left_whole: bool | None = None  # whether the server recovered and can be reused; None: not checked
    processes: list[str] = []  # for each check: the process id in the header `X-Worker`; empty without this header
    recovery_answers: SmallCount = 0  # consecutive correct responses that count as a recovery
    recovery_processes: SmallCount = 0  # distinct processes that must send these responses
    seen: dict[str, Metric] = {}  # other metrics of the fault's effect, by name
    without: str = ""  # why the fault does not apply to this server; empty if it applies
    failure: Failure | None = None

    @property
    def has_recovered(self) -> bool | None:
        """Return whether no check failed and the checks ended with enough consecutive correct responses.

        Return None if no check was sent.
        """
        outcomes = self.requests.only(CHECK).outcome
        if not outcomes:
            return None
        streak_start = max((index for index, outcome in enumerate(outcomes, 1) if outcome != CORRECT), default=0)
        streak = self.processes[streak_start:]
        is_complete = len(streak) >= self.recovery_answers and len({*streak} - {""}) >= self.recovery_processes
        return is_complete and not any(outcome in FAILED_OUTCOMES for outcome in outcomes)


class RateStep(msgspec.Struct, kw_only=True):
    """The measurement of one server at one arrival rate, or in a closed loop that shows how much it can answer."""

    record: Record  # `round` is the number of the step
    goals: list[str]  # as the user wrote them
    arrivals_per_s: Rate  # in a closed loop: the rate of correct responses
    closed_users: SmallCount = 0  # number of users in a closed loop; 0: open loop
    seen_until_s: Moment = 0.0  # end of the measurement; later responses are right-censored
    generator_awake: Cpus | None = None  # number of CPUs that the generator used or waited for

    @property
    def case(self) -> Case:
        return self.record.case


class PacedRun(RateStep, kw_only=True):
    """The measurement of a case of a run at the rate of practice."""


class Frames(msgspec.Struct):
    """The distinct frames of a profile."""

    function: list[str] = []
    file: list[str] = []  # paths relative to the application or to site-packages
    line: list[SmallCount] = []
    kind: list[str] = []  # as in `sampler.Frame`
    source: list[str] = []  # text of the lines; empty for libraries


class Stacks(msgspec.Struct):
    """The distinct stacks of a profile, and the number of samples of each."""

    pid: list[Count] = []
    thread: list[str] = []
    frames: list[list[SmallCount]] = []  # indices into `Frames`, the outermost first
    wall: list[SmallCount] = []  # samples in any state
    cpu: list[SmallCount] = []  # samples of threads on a CPU, or ready to run
    gil: list[SmallCount] = []  # samples of threads that hold the GIL


class Profile(_CaseMeasurement, kw_only=True):
    """Sampled stacks of all Python processes of a server under load."""

    frames: Frames = msgspec.field(default_factory=Frames)
    stacks: Stacks = msgspec.field(default_factory=Stacks)
    samples: dict[str, SmallCount] = {}  # how often each thread was sampled, by kind: "wall", "cpu" and "gil"
    listeners: list[Count] = []  # ids of the processes that listen on the server's port; empty if unknown
    waits: dict[int, list[SmallCount]] = {}  # by process id: [main-thread samples, those waiting for a lock]
    answers: Count = 0
    load_s: Seconds = 0.0
    other_work: Share = 0.0  # share of the CPUs that other processes used, including the load tool and the profiler
    endpoint: Frames = msgspec.field(default_factory=Frames)  # the `def` and responses of a route
    failure: str = ""  # why there are no stacks


def append_row(columns: msgspec.Struct, *values: object) -> None:
    """Append one value to each column, in the order in which the columns are defined; the last may be left empty."""
    for name, value in zip(columns.__struct_fields__, values, strict=False):
        getattr(columns, name).append(value)
