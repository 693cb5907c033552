"""Show what was measured about a task, and recommend strategies: worth a run or not, or can't work, and why."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.target import Kind, Target
from under_siege.model.task_profile import Again, Elsewhere, Findings, Threads, Yields
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


def as_advice(findings: Findings, strategies: Sequence[Target]) -> RenderableType:
    facts, advice = Table.grid(padding=(0, 2, 0, 0)), Table.grid(padding=(0, 2, 0, 0))
    for name, fact in _facts(findings):
        facts.add_row(Text(name, style="dim", no_wrap=True), Text(fact))
    worth = []
    for server, judgement, reason in recommendations(findings, strategies):
        style = _STYLES.get(judgement, "")
        advice.add_row(Text(server, no_wrap=True), Text(judgement, style=style, no_wrap=True), Text(reason))
        worth += [server.split("_")[0]] if judgement == YES else []
    command = f"python {PROGRAM} run {' '.join(worth)} --task {shlex.quote(findings.task)}"
    return Group(facts, Text(), advice, *([Text(f"\nMeasure those: {command}")] if worth else []))


def is_worth_a_run(findings: Findings, strategies: Sequence[Target]) -> bool:
    return any(judgement == YES for _, judgement, _ in recommendations(findings, strategies))


def _facts(findings: Findings) -> Iterator[tuple[str, str]]:
    yield "task", f"{findings.task}, under Python {findings.python}"
    yield from _single_task(findings)
    if findings.threads is not None:
        yield "GIL", findings.threads.error or _gil(findings, findings.threads)
    if findings.yields is not None and not findings.yields.error:
        yield "gives way", _yields(findings.yields)
    for name, worker in (("other process", findings.process), ("sub-interpreter", findings.interpreter)):
        if worker is not None:
            yield name, _moved(worker)
    yield from (("beware", warning) for warning in _warnings(findings))


def _single_task(findings: Findings) -> Iterator[tuple[str, str]]:
    alone, again = findings.alone, _again(findings)
    if alone is None:
        return
    if alone.error:
        yield "fails", alone.error
        return
    best = again or alone
    time = (
        f"less than {formatting.seconds(SHORTEST_S)}" if best.wall_s < SHORTEST_S else formatting.seconds(best.wall_s)
    )
    if cpus := cpus_used(findings):
        share = f"computing on {formatting.significant(cpus, 2)} CPUs at a time, in threads of its own"
    else:
        share = f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it computing"
    first = f"; the first time {formatting.seconds(alone.wall_s)}" if alone.wall_s > 1.5 * best.wall_s else ""
    yield "takes", f"{time}, {share}{first}"
    if is_cached(findings):
        yield "cached?", _cached(findings.task, has_cache=alone.has_cache)
    if findings.machine is not None and findings.machine.is_busy:
        yield (
            "machine",
            f"its CPUs were {findings.machine.others_pct:.0f} % busy with other work meanwhile, so that times are too "
            "long and may mislead; close other programs, or wait, and try again",
        )
    yield "memory", f"{formatting.megabytes(alone.memory_bytes)} more at its peak"
    same = f", the same in {again.runs} more runs" if again and again.answers == 1 else ""
    yield "answer", f"{alone.answer!r} ({alone.answer_bytes:,} bytes{same})"


def _cached(task: str, *, has_cache: bool) -> str:
    if has_cache:
        path, bracket, rest = task.partition("(")
        return (
            "it keeps its answers, so that all else here is of finding one again and not of the work; "
            f"to try the work itself: {PROGRAM} try {shlex.quote(f'{path}.__wrapped__{bracket}{rest}')}"
        )
    return (
        "if it has kept its answer, then all else here is of finding that again and not of the work: try it without "
        "what keeps it; if it has only loaded something, then only first requests take so long"
    )


def _gil(findings: Findings, threads: Threads) -> str:
    stalled = f"; other threads wait {formatting.seconds(threads.stalled_s)} for their turn at the most"
    if is_io_bound(findings):
        return f"hardly needs it: it waits{stalled}"
    held = holds_gil(findings)
    if held is None:
        if is_brief(findings):
            return f"can't be told of so short a task{stalled}"
        many = "of one that computes in threads of its own" if cpus_used(findings) else "on one CPU"
        return f"can't be told {many}{stalled}"
    times = formatting.significant(threads.two_s / threads.alone_s, 2)
    state = "held" if held else "let go of, or not there"
    return f"{state}: two at once in threads take {times} times as long as one{stalled}"


def _yields(yields: Yields) -> str:
    if not yields.yields:
        return "never: it neither yields nor awaits anything"
    waiting = f", {yields.waits} of them to wait" if yields.waits else ""
    return f"{yields.yields} times{waiting}; never longer than {formatting.seconds(yields.longest_s)} without"


def _moved(worker: Elsewhere) -> str:
    if worker.error:
        return f"does not work there: {worker.error}"
    return (
        f"sending it there and {worker.sent_bytes:,} bytes back costs {formatting.seconds(worker.costs_s)}; "
        f"the first one took {formatting.seconds(worker.start_s)} with the start of the worker"
    )


def _warnings(findings: Findings) -> Iterator[str]:
    effects, again, threads = findings.effects, findings.again, findings.threads
    if findings.stopped:
        yield findings.stopped
    if again and again.error:
        yield f"it worked once and then failed: {again.error}"
    if again and again.answers > 1:
        yield f"its answer differs: {again.answers} different ones in {again.runs} runs; make it the same each time"
    if effects and effects.printed_bytes:
        yield f"it prints ({effects.printed_bytes:,} bytes): under load that is slow, and mixed up"
    if effects and effects.forks:
        yield "it forks: the child gets copies of the server's sockets, and threads may hold locks that nobody releases"
    if effects and effects.children:
        yield f"it leaves {effects.children} processes behind"
    if threads and threads.threads_left > 0:
        yield f"it leaves {threads.threads_left} threads behind"


def _again(findings: Findings) -> Again | None:
    """Return the later runs, unless they failed."""
    return None if findings.again is None or findings.again.error else findings.again


def is_io_bound(findings: Findings) -> bool:
    again = _again(findings)
    return again is not None and again.cpu_s < IO_BOUND * again.wall_s


def is_brief(findings: Findings) -> bool:
    """Return whether the task takes less time than a request itself."""
    again = _again(findings)
    return again is not None and again.wall_s < BRIEF_S


def is_cached(findings: Findings) -> bool:
    """Return whether the first run took so much longer that the others may only have read a cache."""
    alone, again = findings.alone, _again(findings)
    if alone is None or again is None or alone.error:
        return False
    return alone.wall_s > max(CACHED * again.wall_s, again.wall_s + CACHED_S)


def cpus_used(findings: Findings) -> float:
    """Return how many CPUs a single task uses with its own threads; 0 if it needs no more than one."""
    again = _again(findings)
    if again is None or is_brief(findings) or again.cpu_s <= MULTITHREADED * again.wall_s:
        return 0.0
    return again.cpu_s / again.wall_s


def holds_gil(findings: Findings) -> bool | None:
    """Return whether two threads can't run the task in parallel; None if unknown."""
    threads = findings.threads
    if threads is None or threads.error or findings.cpus < 2:
        return None
    if is_io_bound(findings) or is_brief(findings) or cpus_used(findings):
        return None
    return threads.two_s > HELD * threads.alone_s


def recommendations(findings: Findings, strategies: Sequence[Target]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each strategy of a known kind, whether it is worth a run, and why."""
    useless = _why_useless(findings)
    for strategy in strategies:
        if strategy.kind == Kind.UNKNOWN:
            continue
        judgement, reason = (CANNOT, useless) if useless else _recommendation(findings, strategy.kind)
        if is_cached(findings) and judgement != CANNOT:
            reason = f"after its first run: {reason}"
        yield strategy.name, judgement, reason


def _why_useless(findings: Findings) -> str:
    """Return why no strategy can work with the task; empty if some can."""
    if findings.alone is None or findings.alone.error:
        return "the task itself does not work"
    if findings.again is not None and findings.again.answers > 1:
        return "its answer differs from run to run, so that no answer could be verified"
    return "it works only once" if findings.again is not None and findings.again.error else ""


def _recommendation(findings: Findings, kind: Kind) -> tuple[str, str]:
    if is_brief(findings):
        if kind == Kind.IN_LINE:
            return YES, "it takes less than a request itself costs: the simplest will do"
        return NO, "more than a task needs that takes less than a request itself costs"
    yields = findings.yields is not None and findings.yields.yields > 0
    match kind:
        case Kind.IN_LINE:
            return NO, "everybody waits in line; a baseline for the others"
        case Kind.THREADS:
            return _threads(findings)
        case Kind.PROCESSES:
            return _processes(findings)
        case Kind.PREFORK:
            reason = "every core computes, and nothing is sent anywhere; but the ping waits in line"
            return _without_processes(findings) or (YES, reason)
        case Kind.INTERPRETERS:
            return _interpreters(findings)
        case Kind.GREENLETS if "gevent" in findings.missing:
            return CANNOT, f"there is no gevent for Python {findings.python}"
        case Kind.GREENLETS if is_io_bound(findings) and not yields:
            return YES, "if it waits in what gevent can patch: sockets, sleep, locks of Python"
    if is_io_bound(findings):
        if yields:
            return YES, "it gives way where it waits, so that any number can wait on one thread"
        return NO, "it waits without yielding, and so stops the loop"
    if yields:
        return YES, "not faster, but it gives way, so that nobody is stuck"
    return NO, "it never gives way, so that everybody waits until it is done"


def _threads(findings: Findings) -> tuple[str, str]:
    if findings.threads is None or findings.threads.error:
        error = f": {findings.threads.error}" if findings.threads else ", where it did not end"
        return CANNOT, f"it does not work in threads{error}"
    if is_io_bound(findings):
        return YES, "threads can wait at the same time; --workers says how many"
    if cpus := cpus_used(findings):
        used = f"one alone computes on {formatting.significant(cpus, 2)} CPUs, in threads of its own"
        return YES, f"{used}; others are not stuck"
    held = holds_gil(findings)
    if held is None:
        return YES, "whether it holds the GIL could not be told here"
    if held:
        return NO, "it holds the GIL, so that one thread computes at a time"
    return YES, "it lets go of the GIL, so that threads compute at the same time"


def _without_processes(findings: Findings) -> tuple[str, str] | None:
    """Return why more processes would not help, if so."""
    if is_io_bound(findings):
        return NO, "waiting needs no process of its own, and each takes memory"
    if cpus_used(findings) > MOST_CPUS * findings.cpus:
        return NO, "one alone computes on nearly all CPUs, in threads of its own"
    return None


def _processes(findings: Findings) -> tuple[str, str]:
    process, again = findings.process, findings.again
    if process is None or process.error:
        return (
            CANNOT,
            f"it fails in another process: {process.error}" if process else "it was not tried in another process",
        )
    if useless := _without_processes(findings):
        return useless
    if again is not None and process.costs_s > 0.2 * again.wall_s:
        return YES, "but sending it there and back costs more than a fifth of what it takes"
    return YES, "every core computes"


def _interpreters(findings: Findings) -> tuple[str, str]:
    if findings.interpreter is None:
        return CANNOT, f"needs Python 3.14 or later, and this is {findings.python}: --python PATH"
    if findings.interpreter.error:
        return CANNOT, f"it fails in a sub-interpreter: {findings.interpreter.error}"
    if is_io_bound(findings):
        return NO, "waiting needs no interpreter of its own"
    return YES, "every core computes, with less memory than processes take"
