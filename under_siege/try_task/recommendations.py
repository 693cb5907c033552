"""Show the profile of a task, and recommend strategies: worth a run, not worth one, or impossible, and why."""

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
SHORTEST_S = 0.0001  # shorter times are not shown
IO_BOUND = 0.1  # the largest share of CPU time
# Two threads take 1.7 to 2 times as long as one if the task holds the GIL, else 1 to 1.1 times, without CPU waits.
HELD = 1.4
BRIEF_S = 0.001  # a request costs about as much
CACHED, CACHED_S = 10, 0.005  # a first run that takes so many times as long, and so much longer, may fill a cache
MOST_CPUS = 0.75  # of all
MULTITHREADED = 1.2  # CPUs on average: more than one thread can use


def as_advice(findings: TaskProfile, strategies: Sequence[Target]) -> RenderableType:
    facts, advice = Table.grid(padding=(0, 2, 0, 0)), Table.grid(padding=(0, 2, 0, 0))
    for name, fact in _facts(findings):
        facts.add_row(Text(name, style="dim", no_wrap=True), Text(fact))
    worth = []
    for server, judgement, reason in recommendations(findings, strategies):
        style = _STYLES.get(judgement, "")
        advice.add_row(Text(server, no_wrap=True), Text(judgement, style=style, no_wrap=True), Text(reason))
        worth += [server.split("_")[0]] if judgement == YES else []
    command = f"python {PROGRAM} run {' '.join(worth)} --task {shlex.quote(findings.task)}"
    return Group(facts, Text(), advice, *([Text(f"\nMeasure these: {command}")] if worth else []))


def is_worth_a_run(findings: TaskProfile, strategies: Sequence[Target]) -> bool:
    return any(judgement == YES for _, judgement, _ in recommendations(findings, strategies))


def _facts(findings: TaskProfile) -> Iterator[tuple[str, str]]:
    yield "task", f"{findings.task}, under Python {findings.python}"
    if findings.alone is not None:
        yield from [("fails", findings.alone.error)] if findings.alone.error else _single_task(findings, findings.alone)
    if findings.threads is not None:
        yield "GIL", findings.threads.error or _gil(findings, findings.threads)
    yields = findings.yields
    if yields is not None and not yields.error:
        waiting = f", {yields.waits} of them to wait" if yields.waits else ""
        times = f"{yields.yields} times{waiting}; at most {formatting.seconds(yields.longest_s)} in between"
        yield "yields", times if yields.yields else "never: it neither yields nor awaits anything"
    for name, worker in (("other process", findings.process), ("sub-interpreter", findings.interpreter)):
        if worker is not None:
            costs, start = formatting.seconds(worker.costs_s), formatting.seconds(worker.start_s)
            sending = f"sending the task and {worker.sent_bytes:,} bytes of answer costs {costs}"
            started = f"{sending}; the first task took {start}, with the start of the worker"
            yield name, f"does not work there: {worker.error}" if worker.error else started
    yield from (("warning", warning) for warning in _warnings(findings))


def _single_task(findings: TaskProfile, alone: FirstRun) -> Iterator[tuple[str, str]]:
    again, machine = _again(findings), findings.machine
    best = again or alone
    time = (
        f"less than {formatting.seconds(SHORTEST_S)}" if best.wall_s < SHORTEST_S else formatting.seconds(best.wall_s)
    )
    if cpus := cpus_used(findings):
        share = f"using {formatting.significant(cpus, 2)} CPUs with threads of its own"
    else:
        share = f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it on the CPU"
    first = f"; the first run took {formatting.seconds(alone.wall_s)}" if alone.wall_s > 1.5 * best.wall_s else ""
    yield "takes", f"{time}, {share}{first}"
    if is_cached(findings) and alone.has_cache:
        path, bracket, rest = findings.task.partition("(")
        uncached = f"{PROGRAM} try {shlex.quote(f'{path}.__wrapped__{bracket}{rest}')}"
        yield "cached?", f"it has a cache, so all figures here are of cache hits; to try the work itself: {uncached}"
    elif is_cached(findings):
        slow = "if the first run only loaded something, then only first requests take so long"
        yield (
            "cached?",
            f"later runs may be cache hits, and so all figures here: try the task without the cache; {slow}",
        )
    if machine is not None and machine.is_busy:
        too_long = "so times are too long and may mislead; close other programs and try again"
        yield "machine", f"other work used {machine.others_pct:.0f} % of the CPUs, {too_long}"
    yield "memory", f"{formatting.megabytes(alone.memory_bytes)} more at its peak"
    same = f", the same in {again.runs} more runs" if again and again.answers == 1 else ""
    yield "answer", f"{alone.answer!r} ({alone.answer_bytes:,} bytes{same})"


def _gil(findings: TaskProfile, threads: ThreadRuns) -> str:
    held = holds_gil(findings)
    if is_io_bound(findings):
        state = "hardly needed: the task is I/O-bound"
    elif held is not None:
        times = formatting.significant(threads.two_s / threads.alone_s, 2)
        state = f"{'held' if held else 'released, or not there'}: two threads take {times} times as long as one"
    elif is_brief(findings):
        state = "unknown: the task is too short"
    else:
        state = f"unknown: {'the task has threads of its own' if cpus_used(findings) else 'there is only one CPU'}"
    return f"{state}; other threads wait up to {formatting.seconds(threads.stalled_s)} for their turn"


def _warnings(findings: TaskProfile) -> Iterator[str]:
    again, effects = findings.again or RepeatedRuns(), findings.effects or SideEffects()
    if findings.stopped:
        yield findings.stopped
    if again.error:
        yield f"it worked once and then failed: {again.error}"
    if again.answers > 1:
        yield f"its answer differs: {again.answers} answers in {again.runs} runs; make it the same each time"
    if effects.printed_bytes:
        yield f"it prints ({effects.printed_bytes:,} bytes): under load this is slow, and lines get mixed up"
    if effects.forks:
        yield "it forks: the child inherits the server's sockets, and perhaps locks that no thread releases"
    if effects.children:
        yield f"it leaves {effects.children} processes behind"
    if findings.threads and findings.threads.threads_left > 0:
        yield f"it leaves {findings.threads.threads_left} threads behind"


def _again(findings: TaskProfile) -> RepeatedRuns | None:
    """Return the later runs, unless they failed."""
    return None if findings.again is None or findings.again.error else findings.again


def is_io_bound(findings: TaskProfile) -> bool:
    again = _again(findings)
    return again is not None and again.cpu_s < IO_BOUND * again.wall_s


def is_brief(findings: TaskProfile) -> bool:
    """Return whether the task takes less time than a request itself."""
    again = _again(findings)
    return again is not None and again.wall_s < BRIEF_S


def is_cached(findings: TaskProfile) -> bool:
    """Return whether the first run took so much longer that the others may only have read a cache."""
    alone, again = findings.alone, _again(findings)
    if alone is None or again is None or alone.error:
        return False
    return alone.wall_s > max(CACHED * again.wall_s, again.wall_s + CACHED_S)


def cpus_used(findings: TaskProfile) -> float:
    """Return how many CPUs a single task uses with its own threads; 0 if it needs no more than one."""
    again = _again(findings)
    if again is None or is_brief(findings) or again.cpu_s <= MULTITHREADED * again.wall_s:
        return 0.0
    return again.cpu_s / again.wall_s


def holds_gil(findings: TaskProfile) -> bool | None:
    """Return whether two threads can't run the task in parallel; None if unknown."""
    threads = findings.threads
    if threads is None or threads.error or findings.cpus < 2:
        return None
    if is_io_bound(findings) or is_brief(findings) or cpus_used(findings):
        return None
    return threads.two_s > HELD * threads.alone_s


def recommendations(findings: TaskProfile, strategies: Sequence[Target]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each strategy of a known kind, whether it is worth a run, and why."""
    for strategy in strategies:
        if strategy.kind != Kind.UNKNOWN:
            judgement, reason = _recommendation(findings, strategy.kind)
            prefix = "after its first run: " if is_cached(findings) and judgement != CANNOT else ""
            yield strategy.name, judgement, prefix + reason


def _recommendation(findings: TaskProfile, kind: Kind) -> tuple[str, str]:
    if findings.alone is None or findings.alone.error:
        return CANNOT, "the task itself does not work"
    if findings.again is not None and findings.again.answers > 1:
        return CANNOT, "its answer differs from run to run, so no answer could be verified"
    if findings.again is not None and findings.again.error:
        return CANNOT, "it works only once"
    if is_brief(findings) and kind == Kind.IN_LINE:
        return YES, "it takes less time than a request itself, so the simplest strategy is enough"
    if is_brief(findings):
        return NO, "more than needed for a task that takes less time than a request itself"
    if obstacle := _obstacle(findings, kind):
        return CANNOT, obstacle
    if kind == Kind.IN_LINE:
        return NO, "all other requests queue; a baseline for the other strategies"
    yields = findings.yields is not None and findings.yields.yields > 0
    return _if_io_bound(kind, yields) if is_io_bound(findings) else _if_cpu_bound(findings, kind, yields)


def _obstacle(findings: TaskProfile, kind: Kind) -> str:
    """Return why the task can't work with this kind of strategy; empty if it can."""
    trials = {
        Kind.THREADS: ("in threads", findings.threads),
        Kind.PROCESSES: ("in another process", findings.process),
        Kind.INTERPRETERS: ("in a sub-interpreter", findings.interpreter),
    }
    where, trial = trials.get(kind, ("", None))
    if trial is not None and trial.error:
        return f"it fails {where}: {trial.error}"
    if where and trial is None:
        needed = f"it needs Python 3.14 or later, and this is {findings.python}; use --python PATH"
        return needed if kind == Kind.INTERPRETERS else f"it did not end {where}"
    is_missing = kind == Kind.GREENLETS and "gevent" in findings.missing
    return f"there is no gevent for Python {findings.python}" if is_missing else ""


def _if_io_bound(kind: Kind, yields: bool) -> tuple[str, str]:
    match kind:
        case Kind.THREADS:
            return YES, "threads can wait in parallel; --workers sets their number"
        case Kind.PROCESSES | Kind.PREFORK:
            return NO, "waiting needs no process of its own, and each takes memory"
        case Kind.INTERPRETERS:
            return NO, "waiting needs no interpreter of its own"
        case Kind.GREENLETS if not yields:
            return YES, "if it waits in what gevent can patch: sockets, sleep, locks of Python"
    if yields:
        return YES, "it yields while it waits, so any number of tasks can wait on one thread"
    return NO, "it waits without yielding, which blocks the event loop"


def _if_cpu_bound(findings: TaskProfile, kind: Kind, yields: bool) -> tuple[str, str]:
    cpus, held, again = cpus_used(findings), holds_gil(findings), _again(findings)
    match kind:
        case Kind.THREADS if cpus:
            return YES, f"one task uses {formatting.significant(cpus, 2)} CPUs, and the server still answers"
        case Kind.THREADS if held is None:
            return YES, "whether it holds the GIL could not be measured here"
        case Kind.THREADS if held:
            return NO, "it holds the GIL, so only one thread computes at a time"
        case Kind.THREADS:
            return YES, "it releases the GIL, so threads compute in parallel"
        case Kind.PROCESSES | Kind.PREFORK if cpus > MOST_CPUS * findings.cpus:
            return NO, "one task uses nearly all CPUs with threads of its own"
        case Kind.PREFORK:
            return YES, "it uses every core, and nothing is sent between processes; but health checks queue"
        case Kind.PROCESSES if again and findings.process and findings.process.costs_s > 0.2 * again.wall_s:
            return YES, "but sending the task and its answer costs more than a fifth of its time"
        case Kind.PROCESSES:
            return YES, "it uses every core"
        case Kind.INTERPRETERS:
            return YES, "it uses every core, with less memory than processes"
    if yields:
        return YES, "not faster, but it yields, so other requests are served in between"
    return NO, "it never yields, so all other requests wait until it is done"
