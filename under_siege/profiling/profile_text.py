"""Describe, in at most six lines for each server, what blocks it and what to do about it."""

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.model.record import Result
from under_siege.model.sampled_stacks import Profile
from under_siege.profiling.diagnosis import CPU_FREE, CPU_GIL, FOR_GIL, LOCK, UNKNOWN, WAITS, Diagnosis, Hotspot
from under_siege.report.case_names import full_name

MUCH_OTHER_WORK = 0.3  # share of all CPUs; above it, threads that wait for a CPU seem to wait for something else
MUCH_WAITING = 0.3  # locks are reported if threads wait for them for at least this share of the time
LOOP_SHARES = {"app": "your code", "framework": "framework", "gil": "waiting for the GIL", "idle": "idle"}
_NEED_PROCESSES = "Move it to a process pool (docs/questions/02-process-pool.md); a thread would compete for the GIL."
_ADVICE = {  # for a function that blocks the event loop
    "background": (
        "It runs as a background task on the event loop: make it a plain `def`, or move it to a process pool "
        "(docs/questions/03-background-tasks.md)."
    ),
    "logging": "Log through logging.handlers.QueueHandler, so that a thread does the writing.",
    "serialization": (
        "Return less data, or use a faster serializer, such as orjson; a thread would still hold the GIL."
    ),
    UNKNOWN: "Profile for longer, for example with --time 60s.",
    CPU_GIL: _NEED_PROCESSES,
    FOR_GIL: _NEED_PROCESSES,
    CPU_FREE: "Move it to a thread, as in servers/3_async_threadexecutor.py, or await asyncio.to_thread(...).",
    LOCK: "Use asyncio.Lock on the event loop, or move the function to a thread.",
    WAITS: "Use an async library, or make the route a plain `def` (docs/questions/01-def-or-async-def.md).",
}


def as_text(result: Result) -> RenderableType:
    """Return the name of each profiled case and, below it, the diagnosis."""
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
    lines = [f"{headline} ({diagnosis.samples} samples).", *(_place(spot, diagnosis) for spot in spots[:2])]
    if spots and (entry := spots[0].entry):
        kind = "async def " if entry.kind == "async" else ""
        lines.append(f"Called from {kind}{entry.name} ({entry.place}).")
    if diagnosis.loop_processes:
        shares = (f"{name} {_percent(diagnosis.loop_shares[key])}" for key, name in LOOP_SHARES.items())
        lines.append(f"event loop: {', '.join(shares)}")
    return [*lines, advice] if advice else lines


def _finding(diagnosis: Diagnosis) -> tuple[str, list[Hotspot], str]:
    """Return the main finding, the functions that explain it, and the advice."""
    if spots := diagnosis.blocking:
        blocked, margin = _percent(diagnosis.blocked), _percent(diagnosis.margin(diagnosis.blocked))
        cause = "background" if spots[0].is_background_task else spots[0].detail
        return (
            f"The event loop was blocked {blocked} ± {margin} of the time",
            spots,
            _ADVICE.get(cause) or _ADVICE[spots[0].state],
        )
    idle, processes = diagnosis.idle_processes()
    if idle:
        return (
            f"Of {processes} processes, {idle} stayed idle while others were busy",
            diagnosis.thread_hotspots,
            "Connections are spread unevenly: close them after each request, or use a proxy that balances them.",
        )
    return _finding_in_threads(diagnosis)


def _finding_in_threads(diagnosis: Diagnosis) -> tuple[str, list[Hotspot], str]:
    spots, threads, busy = diagnosis.thread_hotspots, diagnosis.threads, _percent(diagnosis.threads_busy)
    at_locks = [spot for spot in spots if spot.state == LOCK]
    waiting = sum(spot.wall for spot in at_locks) / threads
    if waiting >= MUCH_WAITING:
        return (
            f"{threads} {'thread' if threads == 1 else 'threads'} waited for a lock {_percent(waiting)} of the time",
            [*at_locks, *(spot for spot in spots if spot not in at_locks)],
            "Do less while the lock is held, or give each thread its own data.",
        )
    if diagnosis.is_gil_contended:
        holder = f"{threads} threads, in turn," if threads > 1 else "One thread"
        return (
            f"{holder} held the GIL {_percent(diagnosis.gil_held)} of the time, so everything else had to wait",
            [spot for spot in spots if spot.state in (FOR_GIL, CPU_GIL)],
            "Use processes (docs/questions/02-process-pool.md), "
            "or free-threaded Python (docs/questions/16-free-threading.md).",
        )
    if diagnosis.is_pool_full:
        return (
            f"All {threads} threads of the pool were busy {busy} of the time",
            spots,
            f"{diagnosis.profile.users} users share {threads} threads: raise the limit, or use an async library "
            "(docs/questions/04-forty-threads.md).",
        )
    if diagnosis.loop_processes:
        return "Nothing blocks the event loop", spots, ""
    workers = f"Each of {threads} workers was" if threads > 1 else "The only worker was"
    return f"{workers} busy {busy} of the time, with one request at a time", spots, ""


def _place(spot: Hotspot, diagnosis: Diagnosis) -> str:
    """Return a line such as `89 %  shop/report.py:23  render  CPU-bound, holds the GIL  38 ms per request`."""
    processes = len(diagnosis.loop_processes) if spot.stacks[0] in diagnosis.on_loop else diagnosis.threads
    per_request_s = diagnosis.per_request_s(spot)
    cost = f"  {formatting.seconds(per_request_s)} per request" if per_request_s < float("inf") else ""
    return f"{_percent(spot.wall / processes):>5}  {spot.frame.place}  {spot.frame.name}  {spot.how}{cost}"


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"
