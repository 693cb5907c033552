"""List all faults: what each one does, which servers it applies to, and how its outcome is shown and marked."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from under_siege import formatting
from under_siege.drill import injection, job_injection, reload_injection
from under_siege.drill.incident_metrics import Figures, under_load, with_gap, with_recovery
from under_siege.drill.injection import ELSEWHERE, Need
from under_siege.drill.loaded_server import USERS, FaultContext
from under_siege.judge.metrics import METRICS
from under_siege.record.record import Incident

CONTROL = "none"
OK, HURT, DEAD, HIDDEN, UNMARKED = "ok", "hurt", "dead", "ping_fine_work_dead", ""

Column = tuple[str, Callable[[Figures], str]]  # heading of a line in each cell, and the text of this line


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the servers that it applies to, and functions that measure, show and mark its outcome.

    Variants, such as SIGTERM during short and during long tasks, are separate faults.
    """

    name: str
    heading: str
    description: str
    columns: tuple[Column, ...]
    inject: Callable[[FaultContext], Awaitable[None]]
    mark: Callable[[Figures], str] = lambda _: UNMARKED
    measure: Callable[[Incident], Figures] = lambda _: {}  # figures in addition to `Incident.seen`
    needs: tuple[Need, ...] = ()
    option: str = ""  # value of --fault that selects the fault; if empty, the name of the fault
    is_once: bool = False  # whether the fault is injected only in the first round, because its outcome does not vary
    ends_server: bool = False


NO_FIGURE = "–"  # noqa: RUF001 (an en dash, as in a table)
PING_FINE_S = 0.1  # health checks pass if they are answered within this time
QUICK_RECOVERY_S = 1.0
AT_ONCE_S = 0.001  # shorter recovery times are shown as "at once"
MOST_LOST_BY_A_KILLED_WORKER = 1.0  # the request that the worker was running
# Shares of the rate before the fault: a server is dead below LEFT_DEAD, and ok at or above LEFT_OK.
LEFT_DEAD, LEFT_OK = 0.05, 0.3
MOST_WASTED_CPU = 0.5  # tasks that use at most this share of their full CPU time count as cancelled
MOST_PER_READER = 4_000_000  # bytes of memory; the limit of the system for a connection's own buffer
TASKS_LONGER = 2.0  # maximum number of other tasks that the next request is allowed to wait for
ENDED_BY_SIGTERM = (0, -signal.SIGTERM)  # uvicorn sends itself the signal once it has shut down
LATEST_EXIT_S = 6.0  # graceful-shutdown period of a server, and one second in which it exits


def _dead(figures: Figures) -> str:
    """Return the mark of a server that no longer runs tasks: HIDDEN if its pings are fast, and DEAD otherwise."""
    ping_s = figures.get("ping_p99_s")
    return HIDDEN if ping_s is not None and ping_s <= PING_FINE_S else DEAD


def _mark_worker(figures: Figures) -> str:
    if figures["whole_s"] is None:
        return _dead(figures)
    is_fine = figures["whole_s"] <= QUICK_RECOVERY_S and (figures["lost"] or 0) <= MOST_LOST_BY_A_KILLED_WORKER
    return OK if is_fine else HURT


def _mark_pause(figures: Figures) -> str:
    if figures["whole_s"] is None:
        return _dead(figures)
    is_fine = not figures["lost"] and figures["whole_s"] <= injection.PAUSE_S + QUICK_RECOVERY_S
    return OK if is_fine else HURT


def _mark_reload(figures: Figures) -> str:
    """Return OK if no request was lost, no second passed without a response, and new processes answered."""
    if figures["whole_s"] is None:
        return _dead(figures)
    has_new = figures.get("new_s", 0.0) is not None
    return OK if has_new and not figures["lost"] and (figures["gap_s"] or 0.0) <= QUICK_RECOVERY_S else HURT


def _mark_stop(figures: Figures) -> str:
    if figures.get("exit") is None:
        return DEAD
    return OK if not figures["begun_lost"] and figures.get("exit") in ENDED_BY_SIGTERM else HURT


def _mark_stop_long(figures: Figures) -> str:
    """Return OK if the server exits in time with status 0; the tasks that it runs never end, so all are lost."""
    if figures.get("exit") is None:
        return DEAD
    return OK if (figures["exit_s"] or 0.0) <= LATEST_EXIT_S and figures.get("exit") in ENDED_BY_SIGTERM else HURT


def _mark_stop_streams(figures: Figures) -> str:
    """Return the mark of a stop with requests that end in time, or with others, as streams do or do not."""
    return _mark_stop(figures) if figures["ends_in_time"] else _mark_stop_long(figures)


def _mark_leave(figures: Figures) -> str:
    next_s = figures["next_s"]
    task_s = figures["task_s"] or 0.0
    requested_s = figures["asked_cpu_s"] or 0.0
    if next_s is None:
        return DEAD
    are_cancelled = (figures["cpu_s"] or 0.0) <= MOST_WASTED_CPU * requested_s
    return OK if are_cancelled and next_s <= (1 + TASKS_LONGER) * task_s + PING_FINE_S else HURT


def _mark_leave_streams(figures: Figures) -> str:
    """Return OK if the server spent at most MOST_WASTED_CPU of the CPU time that the rest of the streams needs."""
    if figures["on_s"] is None:
        return HURT
    return OK if (figures["cpu_s"] or 0.0) <= MOST_WASTED_CPU * (figures["rest_cpu_s"] or 0.0) else HURT


def _unanswered(figures: Figures) -> float:
    return sum(figures[name] or 0 for name in ("lost", "wrong", "late"))


def _mark_overload(figures: Figures) -> str:
    if figures["quick_s"] is None:
        return DEAD
    return OK if not _unanswered(figures) and figures["quick_s"] <= QUICK_RECOVERY_S else HURT


def _mark_left(figures: Figures) -> str:
    left = figures["left"] or 0.0
    if left < LEFT_DEAD:
        return _dead(figures)
    return OK if left >= LEFT_OK else HURT


def _mark_readers(figures: Figures) -> str:
    """Return the mark for the rate of the others, but not OK if each slow reader needs more than MOST_PER_READER."""
    mark = _mark_left(figures)
    return HURT if mark == OK and _grown_bytes(figures) > MOST_PER_READER * injection.READERS else mark


def _mark_jobs(figures: Figures) -> str:
    """Return DEAD if the server completes no new job, HURT if accepted jobs were lost, and OK otherwise."""
    if not figures["takes_new"]:
        return DEAD
    return HURT if figures["lost"] else OK


def _time(value_s: float | None) -> str:
    return formatting.seconds_or(value_s, "never")


def _recovery_time(figures: Figures) -> str:
    whole_s = figures["whole_s"]
    return "at once" if whole_s is not None and whole_s < AT_ONCE_S else _time(whole_s)


def _ping(figures: Figures) -> str:
    """Format the ping latency, or return a dash if there were no pings."""
    if "ping_p99_s" not in figures:
        return NO_FIGURE
    value = figures["ping_p99_s"]
    return "no response" if value is None else formatting.seconds(value)


def _exit(figures: Figures) -> str:
    status = figures.get("exit")
    if status is None:
        return "never"
    return f"{signal.Signals(-int(status)).name if status < 0 else f'{status:.0f}'} in {_time(figures['exit_s'])}"


def _wasted_cpu_time(figures: Figures) -> str:
    requested_s, cpu_s = figures["asked_cpu_s"] or 0.0, figures["cpu_s"] or 0.0
    return f"{_time(cpu_s)}{f' ({formatting.share(cpu_s / requested_s)})' if requested_s else ''}"


def _continued(figures: Figures) -> str:
    cpu_s = figures["cpu_s"] or 0.0
    return f"{_time(figures['on_s'])} ({_time(cpu_s)} CPU)"


def _added_memory(added_bytes: float) -> str:
    return f"{'-' if added_bytes <= -5e5 else '+'}{formatting.megabytes(abs(added_bytes))}"  # not "-0 MB"


def _grown_bytes(figures: Figures) -> float:
    return (figures["memory_bytes"] or 0.0) - (figures["memory_before_bytes"] or 0.0)


def _peak_memory(figures: Figures) -> str:
    peak_bytes, before_bytes = figures["memory_bytes"] or 0.0, figures["memory_before_bytes"] or 0.0
    return (
        f"{formatting.megabytes(peak_bytes)} ({formatting.share(peak_bytes / before_bytes)})" if before_bytes else "?"
    )


def _new_code(figures: Figures) -> str:
    """Format when the first new process answered and when the last old worker ended, or only the first time."""
    return " / ".join(_time(figures[name]) if name in figures else "?" for name in ("new_s", "old_s"))


def _of_stop(figures: Figures) -> tuple[float, ...]:
    """Return how many requests were answered, cut off, and refused or dropped before their tasks began."""
    asked, answered, lost = (figures[name] or 0.0 for name in ("asked", "answered", "begun_lost"))
    return answered, lost, max(0.0, asked - answered - lost)  # medians of several rounds may add up to more


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


PINGS: Column = (METRICS["ping_p99_s"].column, _ping)
STOPPED: Column = ("answered/cut off/refused", lambda figures: "/".join(map(_count, _of_stop(figures))))
RATE: Column = (METRICS["rate_per_s"].column, lambda figures: formatting.rate(figures["before_per_s"] or 0.0))
RATE_LEFT: Column = ("rate left", lambda figures: formatting.share(figures["left"] or 0.0))
NEVER_ANSWERED: Column = (
    "never answered",
    lambda figures: f"{_count(figures['lost'])} of {_count(figures['accepted'])}",
)
LAST_RESULT: Column = ("last result after", lambda figures: _time(figures["last_s"]))

_ALL = (
    Fault(
        CONTROL,
        "no fault",
        "no fault",
        (RATE, PINGS),
        injection.do_nothing,
        measure=under_load,
        is_once=True,
    ),
    Fault(
        "worker",
        "worker killed",
        "SIGKILL to one worker process",
        (("lost", lambda figures: _count(figures["lost"])), ("recovery time", _recovery_time)),
        injection.kill_a_worker,
        _mark_worker,
        with_recovery,
        needs=(Need.PROCESS,),
    ),
    Fault(
        "pause",
        "worker paused",
        f"SIGSTOP to one worker process, or to the only process, and SIGCONT after {injection.PAUSE_S:g} s",
        (("lost", lambda figures: _count(figures["lost"])), ("recovery time", _recovery_time)),
        injection.pause_a_worker,
        _mark_pause,
        with_recovery,
        needs=(Need.PROCESS,),
    ),
    Fault(
        "reload",
        "reload",
        "SIGHUP, or the command of a suite that reloads the server",
        (
            ("lost", lambda figures: _count(figures["lost"])),
            ("no response for", lambda figures: _time(figures["gap_s"])),
            ("new / old gone after", _new_code),
            (f"peak {METRICS['memory_bytes'].column}", _peak_memory),
        ),
        reload_injection.reload,
        _mark_reload,
        with_gap,
        needs=(Need.PROCESS,),
    ),
    Fault(
        "stop",
        "SIGTERM",
        "SIGTERM while the server runs tasks that are shorter than the graceful-shutdown period",
        (STOPPED, ("exit", _exit)),
        injection.stop,
        _mark_stop,
        needs=(Need.PROCESS,),
        ends_server=True,
    ),
    Fault(
        "stop_long",
        "SIGTERM, long tasks",
        "SIGTERM while the server runs tasks that take longer than the graceful-shutdown period",
        (STOPPED, ("exit", _exit)),
        injection.stop_long,
        _mark_stop_long,
        needs=(Need.PROCESS, Need.TASKS),
        option="stop",
        is_once=True,
        ends_server=True,
    ),
    Fault(
        "stop_streams",
        "SIGTERM, streams",
        f"SIGTERM while {USERS} clients read streams until the server ends them",
        (STOPPED, ("exit", _exit)),
        injection.stop_streams,
        _mark_stop_streams,
        needs=(Need.PROCESS,),
        option="stop",
        is_once=True,
        ends_server=True,
    ),
    Fault(
        "leave",
        f"{injection.LEAVERS} disconnect",
        f"{injection.LEAVERS} clients disconnect before the response",
        (("wasted CPU time", _wasted_cpu_time), ("next request", lambda figures: _time(figures["next_s"]))),
        injection.disconnect_clients,
        _mark_leave,
        needs=(Need.PROCESS,),
    ),
    Fault(
        "leave_streams",
        f"{injection.STREAMS} leave streams",
        f"{injection.STREAMS} clients disconnect in the middle of their streams",
        (("computes on for", _continued), ("memory", lambda figures: _added_memory(figures["memory_bytes"] or 0.0))),
        injection.leave_streams,
        _mark_leave_streams,
        needs=(Need.PROCESS,),
        option="leave",
    ),
    Fault(
        "overload",
        f"{injection.FLOOD} at once",
        f"{injection.FLOOD} requests at once",
        (
            (
                "correct/refused/lost",
                lambda figures: "/".join(
                    map(_count, (figures["answered"], figures["refused"], _unanswered(figures))),
                ),
            ),
            ("all done after", lambda figures: _time(figures["done_s"])),
        ),
        injection.overload,
        _mark_overload,
    ),
    Fault(
        "endless",
        "endless task",
        "one task that never ends",
        (RATE_LEFT, PINGS),
        injection.start_an_endless_task,
        _mark_left,
        under_load,
        needs=(Need.TASKS,),
        ends_server=True,
    ),
    Fault(
        "slow",
        f"{injection.SLOW_CONNECTIONS} slow connections",
        f"{injection.SLOW_CONNECTIONS} connections that send an incomplete request and stay open",
        (RATE_LEFT, PINGS),
        injection.send_incomplete_requests,
        _mark_left,
        under_load,
    ),
    Fault(
        "readers",
        f"{injection.READERS} slow readers",
        f"{injection.READERS} clients that read {injection.READ_PER_S / 1000:g} kB/s of their responses, under load",
        (("memory", lambda figures: _added_memory(_grown_bytes(figures))), RATE_LEFT, PINGS),
        injection.read_slowly,
        _mark_readers,
        under_load,
        needs=(Need.PROCESS,),
    ),
    Fault(
        "silent",
        f"{injection.SILENT_CONNECTIONS} silent connections",
        f"{injection.SILENT_CONNECTIONS} connections that send nothing, for up to {injection.SILENT_S:g} s",
        (RATE_LEFT, PINGS),
        injection.open_silent_connections,
        _mark_left,
        under_load,
    ),
    Fault(
        "jobs_worker",
        "jobs, worker killed",
        f"{job_injection.JOBS} jobs are posted, then one worker process gets SIGKILL",
        (NEVER_ANSWERED, LAST_RESULT),
        job_injection.kill_a_worker_with_jobs,
        _mark_jobs,
        needs=(Need.PROCESS, Need.TASKS, Need.JOBS),
        option="worker",
        is_once=True,
    ),
    Fault(
        "jobs_server",
        "jobs, server killed",
        f"{job_injection.JOBS} jobs are posted, then the server gets SIGKILL and is restarted",
        (NEVER_ANSWERED, LAST_RESULT),
        job_injection.kill_the_server_with_jobs,
        _mark_jobs,
        needs=(Need.PROCESS, Need.TASKS, Need.JOBS),
        option="server",
        is_once=True,
        ends_server=True,
    ),
)


def _with_known_processes(fault: Fault) -> Fault:
    """Return the fault, which is not injected if it needs the processes of the server and these are unknown."""
    if Need.PROCESS not in fault.needs:
        return fault

    async def inject(context: FaultContext) -> None:
        if context.server.pid is None:
            context.incident.without = ELSEWHERE
        else:
            await fault.inject(context)

    return replace(fault, inject=inject)


FAULTS = {fault.name: _with_known_processes(fault) for fault in _ALL}
FAULT_OPTIONS = tuple(dict.fromkeys(fault.option or fault.name for fault in _ALL if fault.name != CONTROL))
