"""Show the profile of a task, and recommend strategies: which are worth a run, which are not, and why."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.suite import Kind, Target
from under_siege.model.task_profile import FirstRun, RepeatedRuns, SideEffects, TaskProfile, ThreadRuns
from under_siege.paths import PROGRAM

YES, NO, CANNOT = "worth a run", "not worth it", "cannot work"
_STYLES = {YES: "green", CANNOT: "red"}
SHORTEST_S = 0.0001  # shorter times are shown as "less than"
IO_BOUND = 0.1  # share of CPU time; a task with less is I/O-bound
# Two threads take 1.7 to 2 times as long as one if the task holds the GIL, else 1 to 1.1 times (without CPU waits).
HELD = 1.4
BRIEF_S = 0.001  # the overhead of a request takes about as long
# The first run may have filled a cache if it took 10 times as long as the others, and 5 ms longer.
CACHED, CACHED_S = 10, 0.005
MOST_CPUS = 0.75  # share of all CPUs; if one task uses more, a second process is no gain
MULTITHREADED = 1.2  # CPUs on average; more than one thread can use


def as_advice(profile: TaskProfile, strategies: Sequence[Target]) -> RenderableType:
    facts, advice = Table.grid(padding=(0, 2, 0, 0)), Table.grid(padding=(0, 2, 0, 0))
    for name, fact in _facts(profile):
        facts.add_row(Text(name, style="dim", no_wrap=True), Text(fact))
    worth = []
    for server, judgement, reason in recommendations(profile, strategies):
        style = _STYLES.get(judgement, "")
        advice.add_row(Text(server, no_wrap=True), Text(judgement, style=style, no_wrap=True), Text(reason))
        worth += [server.split("_")[0]] if judgement == YES else []
    command = f"python {PROGRAM} run {' '.join(worth)} --task {shlex.quote(profile.task)}"
    return Group(facts, Text(), advice, *([Text(f"\nMeasure these: {command}")] if worth else []))


def is_worth_a_run(profile: TaskProfile, strategies: Sequence[Target]) -> bool:
    return any(judgement == YES for _, judgement, _ in recommendations(profile, strategies))


def _facts(profile: TaskProfile) -> Iterator[tuple[str, str]]:
    yield "task", f"{profile.task}, under Python {profile.python}"
    if profile.alone is not None:
        yield from [("fails", profile.alone.error)] if profile.alone.error else _single_task(profile, profile.alone)
    if profile.threads is not None:
        yield "GIL", profile.threads.error or _gil(profile, profile.threads)
    yields = profile.yields
    if yields is not None and not yields.error:
        waiting = f", {yields.waits} of them to wait" if yields.waits else ""
        times = f"{yields.yields} times{waiting}; at most {formatting.seconds(yields.longest_s)} in between"
        yield "yields", times if yields.yields else "never: it neither yields nor awaits anything"
    for name, worker in (("other process", profile.process), ("sub-interpreter", profile.interpreter)):
        if worker is not None:
            costs, start = formatting.seconds(worker.costs_s), formatting.seconds(worker.start_s)
            sending = f"sending the task and {worker.sent_bytes:,} bytes of answer takes {costs}"
            started = f"{sending}; the first task took {start}, including the start of the worker"
            yield name, f"does not work there: {worker.error}" if worker.error else started
    yield from (("warning", warning) for warning in _warnings(profile))


def _single_task(profile: TaskProfile, first_run: FirstRun) -> Iterator[tuple[str, str]]:
    again, machine = _again(profile), profile.machine
    best = again or first_run
    time = (
        f"less than {formatting.seconds(SHORTEST_S)}" if best.wall_s < SHORTEST_S else formatting.seconds(best.wall_s)
    )
    if cpus := cpus_used(profile):
        share = f"using {formatting.significant(cpus, 2)} CPUs with threads of its own"
    else:
        share = f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it on the CPU"
    slow_start = (
        f"; the first run took {formatting.seconds(first_run.wall_s)}" if first_run.wall_s > 1.5 * best.wall_s else ""
    )
    yield "takes", f"{time}, {share}{slow_start}"
    if is_cached(profile) and first_run.has_cache:
        path, bracket, rest = profile.task.partition("(")
        uncached = f"{PROGRAM} try {shlex.quote(f'{path}.__wrapped__{bracket}{rest}')}"
        yield "cached?", f"it has a cache, so all figures here are of cache hits; to try it without: {uncached}"
    elif is_cached(profile):
        yield (
            "cached?",
            "later runs may be cache hits: try the task without its cache. If the first run only loaded something, "
            "only the first request of a worker takes that long",
        )
    if machine is not None and machine.is_busy:
        remedy = "so all times are too long; close other programs and try again"
        yield "machine", f"other programs used {machine.others_pct:.0f} % of the CPUs, {remedy}"
    yield "memory", f"{formatting.megabytes(first_run.memory_bytes)} more at its peak"
    same = f", the same in {again.runs} more runs" if again and again.answers == 1 else ""
    yield "answer", f"{first_run.answer!r} ({first_run.answer_bytes:,} bytes{same})"


def _gil(profile: TaskProfile, threads: ThreadRuns) -> str:
    held = holds_gil(profile)
    if is_io_bound(profile):
        state = "hardly needed: the task is I/O-bound"
    elif held is not None:
        times = formatting.significant(threads.two_s / threads.alone_s, 2)
        state = f"{'held' if held else 'released or disabled'}: two threads take {times} times as long as one"
    elif is_brief(profile):
        state = "unknown: the task is too short"
    else:
        state = f"unknown: {'the task has threads of its own' if cpus_used(profile) else 'there is only one CPU'}"
    return f"{state}; other threads wait up to {formatting.seconds(threads.stalled_s)} for their turn"


def _warnings(profile: TaskProfile) -> Iterator[str]:
    again, effects = profile.again or RepeatedRuns(), profile.effects or SideEffects()
    if profile.stopped:
        yield profile.stopped
    if again.error:
        yield f"it worked once and then failed: {again.error}"
    if again.answers > 1:
        yield f"its answer differs: {again.answers} answers in {again.runs} runs; make it return the same each time"
    if effects.printed_bytes:
        yield f"it prints ({effects.printed_bytes:,} bytes): under load, this is slow and mixes lines of several tasks"
    if effects.forks:
        yield "it forks: the child inherits the server's sockets, and may inherit locks that are never released"
    if effects.children:
        yield f"it leaves {effects.children} processes behind"
    if profile.threads and profile.threads.threads_left > 0:
        yield f"it leaves {profile.threads.threads_left} threads behind"


def _again(profile: TaskProfile) -> RepeatedRuns | None:
    """Return the later runs, unless they failed."""
    return None if profile.again is None or profile.again.error else profile.again


def is_io_bound(profile: TaskProfile) -> bool:
    again = _again(profile)
    return again is not None and again.cpu_s < IO_BOUND * again.wall_s


def is_brief(profile: TaskProfile) -> bool:
    """Return whether the task takes less time than a request itself."""
    again = _again(profile)
    return again is not None and again.wall_s < BRIEF_S


def is_cached(profile: TaskProfile) -> bool:
    """Return whether the first run took so much longer that later runs may be cache hits."""
    first_run, again = profile.alone, _again(profile)
    if first_run is None or again is None or first_run.error:
        return False
    return first_run.wall_s > max(CACHED * again.wall_s, again.wall_s + CACHED_S)


def cpus_used(profile: TaskProfile) -> float:
    """Return how many CPUs a single task uses with its own threads; 0 if it uses no more than one."""
    again = _again(profile)
    if again is None or is_brief(profile) or again.cpu_s <= MULTITHREADED * again.wall_s:
        return 0.0
    return again.cpu_s / again.wall_s


def holds_gil(profile: TaskProfile) -> bool | None:
    """Return whether two threads can't run the task in parallel; None if unknown."""
    threads = profile.threads
    if threads is None or threads.error or profile.cpus < 2:
        return None
    if is_io_bound(profile) or is_brief(profile) or cpus_used(profile):
        return None
    return threads.two_s > HELD * threads.alone_s


def recommendations(profile: TaskProfile, strategies: Sequence[Target]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each strategy of a known kind, whether it is worth a run, and why."""
    for strategy in strategies:
        if strategy.kind != Kind.UNKNOWN:
            judgement, reason = _recommendation(profile, strategy.kind)
            prefix = "after its first run: " if is_cached(profile) and judgement != CANNOT else ""
            yield strategy.name, judgement, prefix + reason


def _recommendation(profile: TaskProfile, kind: Kind) -> tuple[str, str]:
    if profile.alone is None or profile.alone.error:
        return CANNOT, "the task itself does not work"
    if profile.again is not None and profile.again.answers > 1:
        return CANNOT, "its answer differs from run to run, so no answer could be verified"
    if profile.again is not None and profile.again.error:
        return CANNOT, "it works only once"
    if is_brief(profile) and kind == Kind.IN_LINE:
        return YES, "it takes less time than a request itself, so the simplest strategy is enough"
    if is_brief(profile):
        return NO, "it takes less time than a request itself, so a simpler strategy is enough"
    if obstacle := _obstacle(profile, kind):
        return CANNOT, obstacle
    if kind == Kind.IN_LINE:
        return NO, "all other requests queue; a baseline for the other strategies"
    yields = profile.yields is not None and profile.yields.yields > 0
    return _if_io_bound(kind, yields) if is_io_bound(profile) else _if_cpu_bound(profile, kind, yields)


def _obstacle(profile: TaskProfile, kind: Kind) -> str:
    """Return why the task can't work with this kind of strategy; empty if it can."""
    trials = {
        Kind.THREADS: ("in threads", profile.threads),
        Kind.PROCESSES: ("in another process", profile.process),
        Kind.INTERPRETERS: ("in a sub-interpreter", profile.interpreter),
    }
    where, trial = trials.get(kind, ("", None))
    if trial is not None and trial.error:
        return f"it fails {where}: {trial.error}"
    if where and trial is None:
        needed = f"it needs Python 3.14 or later, and this is {profile.python}; use --python PATH"
        return needed if kind == Kind.INTERPRETERS else f"it did not end {where}"
    is_missing = kind == Kind.GREENLETS and "gevent" in profile.missing
    return f"there is no gevent for Python {profile.python}" if is_missing else ""


def _if_io_bound(kind: Kind, yields: bool) -> tuple[str, str]:
    match kind:
        case Kind.THREADS:
            return YES, "threads can wait in parallel; --workers sets their number"
        case Kind.PROCESSES | Kind.PREFORK:
            return NO, "waiting needs no process of its own, and each takes memory"
        case Kind.INTERPRETERS:
            return NO, "waiting needs no interpreter of its own"
        case Kind.GREENLETS if not yields:
            return YES, "if it waits in calls that gevent can patch: sockets, sleep and locks of Python"
    if yields:
        return YES, "it yields while it waits, so any number of tasks can wait on one thread"
    return NO, "it waits without yielding, which blocks the event loop"


def _if_cpu_bound(profile: TaskProfile, kind: Kind, yields: bool) -> tuple[str, str]:
    cpus, held, again = cpus_used(profile), holds_gil(profile), _again(profile)
    match kind:
        case Kind.THREADS if cpus:
            return YES, f"one task uses {formatting.significant(cpus, 2)} CPUs, and the server can still respond"
        case Kind.THREADS if held is None:
            return YES, "whether it holds the GIL could not be measured here"
        case Kind.THREADS if held:
            return NO, "it holds the GIL, so only one thread computes at a time"
        case Kind.THREADS:
            return YES, "it releases the GIL, so threads compute in parallel"
        case Kind.PROCESSES | Kind.PREFORK if cpus > MOST_CPUS * profile.cpus:
            return NO, "one task uses nearly all CPUs with threads of its own"
        case Kind.PREFORK:
            return YES, "it uses every core, and nothing is sent between processes; but health checks queue"
        case Kind.PROCESSES if again and profile.process and profile.process.costs_s > 0.2 * again.wall_s:
            return YES, "but sending the task and its answer costs more than a fifth of its time"
        case Kind.PROCESSES:
            return YES, "it uses every core"
        case Kind.INTERPRETERS:
            return YES, "it uses every core, with less memory than processes"
    if yields:
        return YES, "not faster, but it yields, so other requests are served in between"
    return NO, "it never yields, so all other requests wait until it is done"
