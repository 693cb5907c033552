"""Say in at most six lines per server what blocks it, and what to do about it."""

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.model.profile import Profile
from under_siege.model.record import Result
from under_siege.profiling.diagnosis import CPU_FREE, CPU_GIL, FOR_GIL, LOCK, UNKNOWN, Diagnosis, Hotspot
from under_siege.report.case_names import full_name

_MOST_LINES = 2
MUCH_OTHER_WORK = 0.3  # then threads also wait for a CPU, which looks as if they waited for something else
MUCH_WAITING = 0.3  # share of the threads' time that is worth a finding


def as_text(result: Result) -> RenderableType:
    """Return the diagnosis of each profile."""
    cases = [profile.case for profile in result.profiles]
    parts: list[RenderableType] = []
    for profile in result.profiles:
        name, *lines = [full_name(profile.case, cases), *diagnosed(profile)]
        parts += [Text(), Text(name, style="bold"), *(Text(f"  {line}") for line in lines)]
    return Group(*parts[1:])


def diagnosed(profile: Profile) -> list[str]:
    """Return what blocks the server, where, and what to do about it, in at most six lines."""
    if profile.failure:
        return [f"Not profiled: {profile.failure.removesuffix('.')}."]
    diagnosis = Diagnosis(profile)
    headline, spots, advice = _finding(diagnosis)
    if profile.other_work > MUCH_OTHER_WORK:
        others = formatting.share(profile.other_work)
        headline = f"Uncertain, because other processes used {others} of the CPUs: {headline[0].lower()}{headline[1:]}"
    lines = [f"{headline} ({diagnosis.samples} samples)."]
    lines += [_place(spot, diagnosis) for spot in spots]
    if spots and (entry := spots[0].entry):
        kind = "async def " if entry.kind == "async" else ""
        lines.append(f"Called from {kind}{_plain(entry.function)} ({entry.file}:{entry.line}).")
    if diagnosis.loop_processes:
        shares = diagnosis.loop_shares
        names = {"app": "your code", "framework": "framework", "gil": "waiting for the GIL", "idle": "idle"}
        lines.append("event loop: " + ", ".join(f"{names[key]} {_percent(shares[key])}" for key in names))
    return [*lines, *([advice] if advice else [])]


def _finding(diagnosis: Diagnosis) -> tuple[str, list[Hotspot], str]:
    """Return the main finding, the lines that explain it, and the advice."""
    if blocking := diagnosis.blocking:
        margin = diagnosis.margin(diagnosis.blocked)
        headline = f"The event loop was blocked {_percent(diagnosis.blocked)} ± {_percent(margin)} of the time"
        return headline, blocking[:_MOST_LINES], _advice(blocking[0])
    spots, threads, busy = diagnosis.thread_hotspots, diagnosis.threads, _percent(diagnosis.threads_busy)
    (idle, processes), at_locks = diagnosis.idle_processes(), [spot for spot in spots if spot.state == LOCK]
    waiting = sum(spot.wall for spot in at_locks) / threads
    if idle:
        headline = f"{idle} of {processes} processes were idle while others were busy"
        advice = "Connections are spread unevenly: close them after each request, or use a proxy that balances them."
    elif waiting >= MUCH_WAITING:
        headline = f"{threads} threads waited for a lock {_percent(waiting)} of the time"
        advice, spots = "Do less while the lock is held, or give each thread data of its own.", [*at_locks, *spots]
    elif diagnosis.is_gil_contended:
        held = _percent(diagnosis.gil_held)
        holder = f"one of {threads} threads" if threads > 1 else "one thread"
        headline = f"The GIL was held {held} of the time by {holder}; the others had to wait"
        advice = (
            "Use processes (docs/questions/02-process-pool.md), "
            "or free-threaded Python (docs/questions/16-free-threading.md)."
        )
        spots = [spot for spot in spots if spot.state in (FOR_GIL, CPU_GIL)]
    elif diagnosis.is_pool_full:
        headline = f"All {threads} threads of the pool were busy {busy} of the time"
        advice = (
            f"{diagnosis.profile.users} users share {threads} threads: raise the limit, or use an async library "
            "(docs/questions/04-forty-threads.md)."
        )
    elif diagnosis.loop_processes:
        headline, advice = "Nothing blocks the event loop", ""
    else:
        workers = f"{threads} workers were" if threads > 1 else "The only worker was"
        headline, advice = f"{workers} busy {busy} of the time, with one request at a time", ""
    return headline, list(dict.fromkeys(spots))[:_MOST_LINES], advice


def _advice(spot: Hotspot) -> str:
    """Return what to do about a function that blocks the event loop."""
    if spot.state == UNKNOWN:
        return "Profile for longer, for example with --time 30s."
    if spot.is_background_task:
        return (
            "It runs as a background task on the event loop: make it a plain `def`, or move it to a process pool "
            "(docs/questions/03-background-tasks.md)."
        )
    if spot.detail == "logging":
        return "Log through logging.handlers.QueueHandler, so that a thread does the writing."
    if spot.detail == "serialization":
        return "Return less data, or use a faster serializer, such as orjson; a thread would still hold the GIL."
    if spot.state in (CPU_GIL, FOR_GIL):
        return "Move it to a process pool (docs/questions/02-process-pool.md); a thread would compete for the GIL."
    if spot.state == CPU_FREE:
        return "Move it to a thread, as in servers/3_async_threadexecutor.py, or await asyncio.to_thread(...)."
    if spot.state == LOCK:
        return "Use asyncio.Lock on the event loop, or move the function to a thread."
    return "Use an async library, or make the route a plain `def` (docs/questions/01-def-or-async-def.md)."


def _place(spot: Hotspot, diagnosis: Diagnosis) -> str:
    """Return `89 %  shop/report.py:23  render  CPU-bound, holds the GIL  38 ms per request`."""
    processes = len(diagnosis.loop_processes) if spot.stacks[0] in diagnosis.on_loop else diagnosis.threads
    where = f"{spot.frame.file}:{spot.frame.line}  {_plain(spot.frame.function)}"
    per_request_s = diagnosis.per_request_s(spot)
    cost = f"  {formatting.seconds(per_request_s)} per request" if per_request_s < float("inf") else ""
    return f"{_percent(spot.wall / processes):>5}  {where}  {spot.how}{cost}"


def _plain(function: str) -> str:
    return function.replace("<locals>.", "")


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"
