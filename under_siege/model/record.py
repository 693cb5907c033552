"""The record of a measurement: raw values, one `Record` for each case in each round, and the file that holds them.

History of the file format:
    1  the first one
    2  adds the bare case, the checks while the siege is on, and what else the machine did
    3  adds the traces, what was left out, and whether the GIL was on
    4  adds the metronome, how busy each CPU was, and runs of the task with nothing beside them around every case;
       the kind of the metronome is in the environment
    5  a case is a server at values on any axes, and a ceiling is called so; the load tool is any, also one that tells
       totals only; added later, and empty in older files: incidents, steps, how long threads waited for a CPU
"""

from pathlib import Path
from typing import Any

import msgspec

from common.errors import BadInputError
from under_siege.model.case import Case, Value, case_of
from under_siege.model.requests import Arrivals, Recovery, Requests, TracedRequests
from under_siege.model.result_file import read_whole, write_whole
from under_siege.model.sanitize import made_legible
from under_siege.model.threshold import Required
from under_siege.model.validation import (
    Bytes,
    Clock,
    Count,
    CpuSeconds,
    Few,
    Moment,
    Number,
    Positive,
    PositiveSeconds,
    Rate,
    Seconds,
    Seen,
    Share,
    Status,
    faults,
)
from under_siege.paths import PROGRAM

SCHEMA = 5
_BARE = "bare"  # what stood for a server where there was none, up to schema 4
_RENAMED = {  # up to schema 4 there was no other load tool than siege
    "siege_began_s": "load_began_s",
    "siege_s": "load_s",
    "siege_command": "tool_command",
    "siege_report": "tool_report",
    "siege_unknown": "tool_unknown",
    "siege_unknown_lines": "tool_unknown_lines",
    "siege_cpu_s": "tool_cpu_s",
}


class BadResultError(BadInputError):
    """The file can't be read as a result; the message is one line."""


class Failure(msgspec.Struct, frozen=True):
    """Why a case has no numbers."""

    code: str
    message: str


class Transactions(msgspec.Struct, frozen=True):
    """What the load tool printed, one entry for each answer that it got; times in seconds since the siege began."""

    finished_s: list[Seconds] = []  # when its line arrived here
    took_s: list[Seconds] = []  # as the tool says; siege in steps of 10 ms
    status: list[Status] = []
    size_bytes: list[Count] = []
    user: list[Number] = []  # the tool's number for the user who asked


class Bursts(msgspec.Struct, frozen=True):
    """The totals of a load tool that tells no single answers, one entry for each time that it ran.

    Times in seconds since the siege began; None where the tool tells nothing of that.
    """

    began_s: list[Moment] = []  # its first request, as far as we can know
    took_s: list[PositiveSeconds] = []  # as the tool says
    right: list[Count] = []  # answers with a good status; what is in them only the checks know
    wrong_status: list[Count] = []
    unanswered: list[Count] = []  # requests that got no answer at all
    connect_errors: list[Count] = []  # those of them that got no connection
    p50_s: list[Seconds | None] = []  # of how long answers took
    p95_s: list[Seconds | None] = []
    p99_s: list[Seconds | None] = []
    max_s: list[Seconds | None] = []
    kept_alive: list[Count | None] = []  # answers after which the connection stayed
    body_bytes: list[Count | None] = []  # of all answers
    wrong_contents: list[Count] = []  # of `wrong_status`: a good status, but not what a script knows to be right
    odd_bytes: list[Count | None] = []  # so many more or fewer than those of the files that were asked for
    tool_cpu_s: list[Seconds] = []  # of the tool with all its children
    tool_awake: list[Share | None] = []  # CPUs' worth of time in which it computed or waited for a CPU


class Ports(msgspec.Struct, frozen=True):
    """Local ports of TCP that were taken, on the whole machine; times in seconds since the siege began."""

    at_s: list[Moment] = []
    taken: list[Few] = []  # connections, those in TIME_WAIT among them


class Pings(msgspec.Struct, frozen=True):
    """The open-loop probe, one entry for each ping; times in seconds since the siege began."""

    due_s: list[Moment] = []
    sent_s: list[Moment] = []  # later than due only if this program was late itself
    waited_s: list[Seconds] = []  # from when it was due to its answer, or to when it was given up
    problem: list[str] = []  # empty where the answer was right


class Checks(msgspec.Struct, frozen=True):
    """The harness's own requests for the task while the siege is on; times in seconds since the siege began."""

    sent_s: list[Moment] = []
    answered_s: list[Moment] = []  # or given up
    code: list[str] = []  # empty where the answer was right, else what was wrong with it: for programs
    problem: list[str] = []  # and for people


class Machine(msgspec.Struct, frozen=True):
    """What all CPUs of the machine did over some time, in CPU seconds."""

    total_s: CpuSeconds
    busy_s: Clock
    steal_s: Clock  # taken by other guests of the same host
    idle_s: Clock | None = None  # with nothing to do


class Beats(msgspec.Struct, frozen=True):
    """The metronome: the same small work again and again on every CPU; times in seconds since the siege began."""

    at_s: list[Moment] = []  # negative before the siege
    cpu: list[Number] = []
    took_s: list[Seconds] = []  # of that CPU's own time, so that waiting for the CPU does not count


class CpuTimes(msgspec.Struct, frozen=True):
    """How busy each CPU was; times in seconds since the siege began."""

    at_s: list[Moment] = []
    busy_s: dict[int, list[Clock]] = {}  # for each CPU of the metronome: CPU seconds since the machine started


class Samples(msgspec.Struct, frozen=True):
    """The server's whole process tree over time; times in seconds since the siege began."""

    at_s: list[Moment] = []
    cpu_s: list[CpuSeconds] = []  # used since the server began
    memory_bytes: list[Count] = []
    processes: list[Few] = []
    waited_s: list[Seconds] = []  # in which threads could have run, but had no CPU; empty where that isn't counted


class Record(msgspec.Struct, kw_only=True):
    """What one case gave in one round. It is filled while it is measured and never changed after."""

    server: str  # the stem of its file, with folders before it where another has the same
    title: str
    values: dict[str, Value]  # on each axis that the case depends on: task, users, python, ...
    is_ceiling: bool = False  # whether this is what the others are measured against
    has_ceiling: bool = True  # whether there is anything that it is measured against
    has_task: bool = True  # whether what is asked for is a task of ours, which can be performed without any server
    round: Positive
    began_at: str  # UTC, ISO 8601
    load_average: Share  # of the machine over the last minute, before the server was started
    time_s: Seconds  # how long the siege was to last
    workers: Positive | None = None  # how many tasks the server runs at once, as it says itself
    gil: bool | None = None  # whether the server had a GIL while it served; None where it can't be otherwise
    gil_enabled_by: str = ""  # the extension module whose import enabled the GIL of a free-threaded Python
    answer_bytes: Bytes = 0  # the length of the right answer; -1 where right answers may differ
    answer_status: Status = 200  # of the right answer
    ready_s: Seconds | None = None  # from the start of the server to its first right answer to a ping
    warm_s: Seconds | None = None  # from the start of the server to when all its workers had worked
    warm_up_answers: Count = 0  # the first ones of the same load before it, which do not count
    warm_up_cpu_s: CpuSeconds | None = None  # of the server meanwhile
    load_began_s: Clock | None = None  # on the monotonic clock of the machine, so that cases have an order in time
    load_s: PositiveSeconds | None = None  # how long the siege really lasted
    stop_s: Seconds | None = None  # from SIGTERM to when nothing was left of the server
    case_s: Seconds | None = None  # the whole case
    transactions: Transactions = msgspec.field(default_factory=Transactions)
    socket_failures: Count = 0  # requests that got no answer at all, as the tool counts them
    bursts: Bursts = msgspec.field(default_factory=Bursts)  # instead, of a tool that tells totals only
    keep_alive: bool = False  # whether the tool was told to keep its connections
    tool_cpus: Positive | None = None  # that it can use at the most
    ports: Ports = msgspec.field(default_factory=Ports)
    port_range: Positive | None = None  # how many local ports the system gives out
    ports_are_reused: bool | None = None  # whether those in TIME_WAIT are given out again
    tool: str = "siege"  # that made the load
    tool_step_s: Seconds = 0.01  # in which it tells how long a request took
    tool_command: list[str] = []
    tool_report: str = ""  # its own summary, as it printed and wrote it; of all bursts, one after the other
    tool_unknown: Count = 0  # lines on its stdout that are no transaction
    tool_unknown_lines: list[str] = []  # the first of them
    tool_cpu_s: Seconds | None = None
    bench_cpu_s: Seconds | None = None  # this program's own use while the siege was on
    services_cpu_s: Seconds | None = None  # of the database and the like that the server needs, started for the run
    pings: Pings = msgspec.field(default_factory=Pings)
    checks: Checks = msgspec.field(default_factory=Checks)
    idle_answer_s: Seconds | None = None  # how long the first answer took, when the server had nothing else to do
    machine_before: Machine | None = None  # while the server started and warmed up
    machine: Machine | None = None  # while the siege was on
    load_average_after: Share | None = None
    # Runs of the task with nothing beside them, before and after the siege; up to schema 3 of the bare case only.
    alone_at_s: list[Moment] = []  # when each began, in seconds since the siege began
    alone_wall_s: list[CpuSeconds] = []
    alone_cpu_s: list[CpuSeconds] = []
    alone_on_cpu: list[Number] = []  # the number of the CPU that each ended on; -1 where the system doesn't tell
    beats: Beats = msgspec.field(default_factory=Beats)
    cpu_times: CpuTimes = msgspec.field(default_factory=CpuTimes)
    samples: Samples = msgspec.field(default_factory=Samples)
    memory_kind: str = ""  # "pss", or "uss" or "rss" where the system has no PSS
    server_said: str = ""  # the end of what the server printed on stderr
    failure: Failure | None = None

    @property
    def case(self) -> Case:
        """What was measured."""
        return case_of(self.server, self.values)

    @property
    def users(self) -> int:
        """How many asked at the same time."""
        return int(self.values.get("users") or 0)


class Trace(msgspec.Struct, kw_only=True):
    """Who computed when: a handful of requests at once and the pings beside them."""

    server: str  # the stem of its file, with folders before it where another has the same
    title: str
    values: dict[str, Value]  # on each axis that matters to it: not on that of the users
    workers: Positive | None = None
    requests: TracedRequests = msgspec.field(default_factory=TracedRequests)
    pings: Pings = msgspec.field(default_factory=Pings)  # since the first one was due
    machine: Machine | None = None  # from sending the requests to the last answer
    server_cpu_s: Seconds | None = None  # of the server, its children and its services meanwhile
    bench_cpu_s: Seconds | None = None  # of this program meanwhile
    failure: Failure | None = None

    @property
    def case(self) -> Case:
        """What was traced."""
        return case_of(self.server, self.values)


class Incident(msgspec.Struct, kw_only=True):
    """What one fault did to one server in one round. It is filled while it goes on and never changed after."""

    server: str
    title: str
    values: dict[str, Value]
    fault: str
    round: Positive
    workers: Positive | None = None
    requests: Requests = msgspec.field(default_factory=Requests)
    pings: Pings = msgspec.field(default_factory=Pings)
    fault_at_s: Moment | None = None  # since the load began
    ended_s: Moment = 0.0  # when the load ended
    idle_answer_s: Seconds | None = None  # how long an answer took when nothing else was to do
    left_whole: bool | None = None  # whether the same server was used for the next fault; None: not checked
    recovery: Recovery = msgspec.field(default_factory=Recovery)
    recovery_answers: Few = 0  # right answers in a row that count as a recovery
    recovery_processes: Few = 0  # distinct processes that must have given them
    seen: dict[str, Seen] = {}  # what else was counted and measured, by name; see the fault
    without: str = ""  # why this fault can't happen to it
    failure: Failure | None = None

    @property
    def has_recovered(self) -> bool | None:
        """Whether the recovery check ended with enough right answers in a row; None if it sent no request."""
        if not self.recovery.outcome:
            return None
        return self.recovery.is_passed(self.recovery_answers, self.recovery_processes)

    @property
    def case(self) -> Case:
        """What was drilled."""
        return case_of(self.server, self.values)


class Step(msgspec.Struct, kw_only=True):
    """One rate of arrivals, offered to one server. It is filled while it goes on and never changed after."""

    record: Record  # what was seen of the server and of the machine meanwhile; its round is the number of the step
    goals: list[str]  # as they were written
    arrivals_per_s: Rate
    arrivals: Arrivals = msgspec.field(default_factory=Arrivals)
    seen_until_s: Moment = 0.0  # since the load began; whoever was not answered had waited until then
    broke: bool = False  # whether it was ended early, because a goal was clearly missed
    generator_awake: Share | None = None  # CPUs' worth of time in which the generator computed or waited for a CPU

    @property
    def case(self) -> Case:
        """What was offered to."""
        return self.record.case


class LeftOut(msgspec.Struct, frozen=True):
    """A strategy that can't run with one of the Pythons at hand, which is nobody's fault."""

    server: str
    title: str
    python: str
    reason: str  # and what to do about it


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the versions that a result was made with."""

    cpu_model: str
    cpus: Positive
    usable_cpus: Positive
    memory_bytes: Count
    system: str
    pythons: dict[str, str]  # version: build
    packages: dict[str, str] = {}  # in older files: of the environment of the bench, whatever Python served
    packages_of: dict[str, dict[str, str]] = {}  # version of the Python: what it has of what servers need, and which
    tools: dict[str, str] = {}  # the version of each load tool
    commit: str
    # Its Python and its work, such as `3.11.7 500+1500`: samples of the same kind can be compared.
    speed_probe: str = msgspec.field(default="", name="metronome")


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The suite that was measured, as far as one has to know it to read a result."""

    title: str
    source: str = ""  # the file that it comes from
    body: str = "same"  # how answers were compared: in bytes, as JSON, or not at all ("any")
    ping: str = ""  # the path that was pinged; empty where none was


class Result(msgspec.Struct, kw_only=True):
    """Everything that one run measured."""

    environment: Environment
    suite: Compared | None = None  # None: the strategies in servers/
    command: list[str]
    began_at: str
    seed: int
    rounds: Positive  # as planned, or at the most; fewer are in `records` if the run was stopped
    until_certain: bool = False  # whether it was looked after every round if another one is needed
    requirements: list[Required] = []  # what was asked of its cases
    records: list[Record] = []
    traces: list[Trace] = []
    incidents: list[Incident] = []
    steps: list[Step] = []
    left_out: list[LeftOut] = []
    schema: Positive = SCHEMA


def save(result: Result, path: Path) -> None:
    """Writes the whole result, as this version does whichever it was read from; never half a file; raises OSError."""
    write_whole(path, msgspec.json.encode(msgspec.structs.replace(result, schema=SCHEMA)))


def load(path: Path) -> Result:
    """Reads a result.

    Raises:
        BadResultError: there is no such file, it isn't a result, or a later version wrote it.
    """
    try:
        data = read_whole(path, b"{")
        schema = msgspec.json.decode(data, type=_JustSchema).schema
        if schema > SCHEMA:
            raise BadResultError(f"{path}: made by a later version (schema {schema}, known up to {SCHEMA})")
        result = _of_schema(schema, data)
    except BadResultError:
        raise
    except OSError as error:
        raise BadResultError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise BadResultError(f"{path}: not a result of {PROGRAM} run: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise BadResultError(f"{path}: not a result of {PROGRAM} run: it lacks what its schema has") from None
    except RecursionError:
        raise BadResultError(f"{path}: not a result of {PROGRAM} run: brackets in brackets in brackets") from None
    if fault := next(faults(result), ""):
        raise BadResultError(f"{path}: this can't be a result: {fault}")
    return made_legible(result)


def _of_schema(schema: int, data: bytes) -> Result:
    as_now = msgspec.json.decode(data) if schema == SCHEMA else _upgraded(msgspec.json.decode(data))
    return msgspec.convert(as_now, type=Result, str_keys=True)


def _upgraded(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of schema 4 or older as if this version had written it; it keeps the number of its schema."""
    environment = result["environment"]
    environment["tools"] = {"siege": environment.pop("siege", "")}
    for record in result.get("records", []):
        record["values"] = {axis: record.pop(axis) for axis in ("task", "users", "python")}
        record["is_ceiling"] = record["server"] == _BARE
        record |= {new: record.pop(old) for old, new in _RENAMED.items() if old in record}
        transactions = record.get("transactions", {})
        if "siege_s" in transactions:
            transactions["took_s"] = transactions.pop("siege_s")
    for trace in result.get("traces", []):
        trace["values"] = {axis: trace.pop(axis) for axis in ("task", "python")}
    return result


class _JustSchema(msgspec.Struct):
    schema: Positive
