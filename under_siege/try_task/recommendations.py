"""What trying a task found, and which strategies are worth a run, which are not, which cannot work, and why."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.suite import Kind, Target
from under_siege.model.task_profile import FirstRun, OtherPrograms, RepeatedRuns, TaskProfile, ThreadRuns, WorkerRun
from under_siege.paths import PROGRAM

SHORTEST_S = 0.0001  # that is told as it is
YES, NO, CANNOT = "worth a run", "not worth it", "cannot work"
_STYLES = {YES: "green", CANNOT: "red"}


def as_advice(found: TaskProfile, strategies: Sequence[Target]) -> RenderableType:
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, fact in _facts(found):
        facts.add_row(Text(name, style="dim", no_wrap=True), Text(fact))
    advice = Table.grid(padding=(0, 2, 0, 0))
    for server, (judgement, why) in advise(found, strategies):
        advice.add_row(
            Text(server, no_wrap=True), Text(judgement, style=_STYLES.get(judgement, ""), no_wrap=True), Text(why)
        )
    worth = [server.split("_")[0] for server, one in advise(found, strategies) if one.judgement == YES]
    command = f"python {PROGRAM} run {' '.join(worth)} --task {shlex.quote(found.task)}"
    return Group(facts, Text(), advice, *([Text(f"\nMeasure those: {command}")] if worth else []))


def _facts(found: TaskProfile) -> Iterator[tuple[str, str]]:
    yield "task", f"{found.task}, under Python {found.python}"
    if found.alone is not None:
        yield from _of_one_run(found)
    if found.threads is not None:
        yield "GIL", found.threads.error or _gil(found)
    if found.yields is not None and not found.yields.error:
        yield "gives way", _gives_way(found)
    if found.process is not None:
        yield "other process", _moved(found.process)
    if found.interpreter is not None:
        yield "sub-interpreter", _moved(found.interpreter)
    yield from (("beware", warning) for warning in _warnings(found))


def _of_one_run(found: TaskProfile) -> Iterator[tuple[str, str]]:
    alone, again = found.alone, found.again
    assert alone is not None
    if alone.error:
        yield "fails", alone.error
        return
    best = again if again is not None and not again.error else alone
    first = f"; the first time {formatting.seconds(alone.wall_s)}" if alone.wall_s > 1.5 * best.wall_s else ""
    takes = (
        formatting.seconds(best.wall_s) if best.wall_s >= SHORTEST_S else f"less than {formatting.seconds(SHORTEST_S)}"
    )
    yield "takes", f"{takes}, {_computing(found, best)}{first}"
    if is_cached(found):
        yield "cached?", _cached(found)
    if found.machine is not None and found.machine.is_busy:
        yield "machine", _busy(found.machine)
    yield "memory", f"{formatting.megabytes(alone.memory_bytes)} more at its peak"
    same = f", the same in {again.runs} more runs" if again is not None and again.answers == 1 else ""
    yield "answer", f"{alone.answer!r} ({alone.answer_bytes:,} bytes{same})"


def _computing(found: TaskProfile, best: FirstRun | RepeatedRuns) -> str:
    if cpus := cpus_at_a_time(found):
        return f"computing on {formatting.significant(cpus, 2)} CPUs at a time, in threads of its own"
    return f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it computing"


def _cached(found: TaskProfile) -> str:
    path, bracket, rest = found.task.partition("(")
    if found.alone is not None and found.alone.has_cache:
        return (
            "it keeps its answers, so that all else here is of finding one again and not of the work; "
            f"to try the work itself: {PROGRAM} try {shlex.quote(f'{path}.__wrapped__{bracket}{rest}')}"
        )
    return (
        "if it has kept its answer, then all else here is of finding that again and not of the work: try it without "
        "what keeps it; if it has only loaded something, then only first requests take so long"
    )


def _busy(machine: OtherPrograms) -> str:
    return (
        f"its CPUs were {machine.others_pct:.0f} % busy with other work meanwhile, so that times are too long and may "
        "mislead; close other programs, or wait, and try again"
    )


def _gil(found: TaskProfile) -> str:
    threads = found.threads
    assert threads is not None
    stalled = f"; other threads wait {formatting.seconds(threads.stalled_s)} for their turn at the most"
    if waits(found):
        return f"hardly needs it: it waits{stalled}"
    held = holds_gil(found)
    if held is None:
        return f"can't be told {_why_not(found)}{stalled}"
    times = (
        f"two at once in threads take {formatting.significant(threads.two_s / threads.alone_s, 2)} times as long as one"
    )
    return f"{'held' if held else 'let go of, or not there'}: {times}{stalled}"


def _why_not(found: TaskProfile) -> str:
    if is_brief(found):
        return "of so short a task"
    return "of one that computes in threads of its own" if cpus_at_a_time(found) else "on one CPU"


def _gives_way(found: TaskProfile) -> str:
    yields = found.yields
    assert yields is not None
    if not yields.yields:
        return "never: it neither yields nor awaits anything"
    waiting = f", {yields.waits} of them to wait" if yields.waits else ""
    return f"{yields.yields} times{waiting}; never longer than {formatting.seconds(yields.longest_s)} without"


def _moved(there: WorkerRun) -> str:
    if there.error:
        return f"does not work there: {there.error}"
    return (
        f"sending it there and {there.sent_bytes:,} bytes back costs {formatting.seconds(there.costs_s)}; "
        f"the first one took {formatting.seconds(there.start_s)} with the start of the worker"
    )


def _warnings(found: TaskProfile) -> Iterator[str]:
    if found.stopped:
        yield found.stopped
    effects, again, threads = found.effects, found.again, found.threads
    if again is not None and again.error:
        yield f"it worked once and then failed: {again.error}"
    if again is not None and again.answers > 1:
        yield f"its answer differs: {again.answers} different ones in {again.runs} runs; make it the same each time"
    if effects is not None and effects.printed_bytes:
        yield f"it prints ({effects.printed_bytes:,} bytes): under load that is slow, and mixed up"
    if effects is not None and effects.forks:
        yield "it forks: the child gets copies of the server's sockets, and threads may hold locks that nobody releases"
    if effects is not None and effects.children:
        yield f"it leaves {effects.children} processes behind"
    if threads is not None and threads.threads_left > 0:
        yield f"it leaves {threads.threads_left} threads behind"


MOSTLY_WAITING = 0.1  # of its time is computing
# Two threads take 1.7 to 2 times as long as one if the task holds the GIL, else 1 to 1.1 times, CPU waits left out.
HELD = 1.4
BRIEF_S = 0.001  # a request costs about as much
CACHED, CACHED_S = 10, 0.005  # so many times as long as the others, and so much longer, the first run has to take
MOST_OF_THEM = 0.75  # of the CPUs
PARALLEL = 1.2  # CPUs at a time: more than one thread can have


class Advice(NamedTuple):
    """A judgement on one strategy."""

    judgement: str
    why: str


def waits(found: TaskProfile) -> bool:
    """Whether it hardly computes."""
    return found.again is not None and found.again.cpu_s < MOSTLY_WAITING * found.again.wall_s


def is_brief(found: TaskProfile) -> bool:
    """Whether it takes less than a request itself costs."""
    return found.again is not None and not found.again.error and found.again.wall_s < BRIEF_S


def is_cached(found: TaskProfile) -> bool:
    """Whether its first run took so much longer that the others may only have found an answer that was kept."""
    alone, again = found.alone, found.again
    if alone is None or again is None or alone.error or again.error:
        return False
    return alone.wall_s > max(CACHED * again.wall_s, again.wall_s + CACHED_S)


def cpus_at_a_time(found: TaskProfile) -> float:
    """On how many CPUs a single run computes, in threads of its own; 0 where it has no need of more than one."""
    again = found.again
    if again is None or again.error or is_brief(found) or again.cpu_s <= PARALLEL * again.wall_s:
        return 0.0
    return again.cpu_s / again.wall_s


def holds_gil(found: TaskProfile) -> bool | None:
    """Whether two threads take turns with it; None where that can't be told."""
    threads = found.threads
    if threads is None or threads.error or waits(found) or found.cpus < 2 or is_brief(found) or cpus_at_a_time(found):
        return None
    return threads.two_s > HELD * threads.alone_s


def advise(found: TaskProfile, strategies: Sequence[Target]) -> Iterator[tuple[str, Advice]]:
    """For each strategy that is known here; others have to be run to know."""
    for strategy in strategies:
        if strategy.kind != Kind.UNKNOWN:
            advice = _of_a_brief_one(strategy.kind) if is_brief(found) else _RULES[strategy.kind](found)
            if is_cached(found) and advice.judgement != CANNOT:
                advice = Advice(advice.judgement, f"after its first run: {advice.why}")
            yield strategy.name, _in_any_case(found) or advice


def is_worth_a_run(found: TaskProfile, strategies: Sequence[Target]) -> bool:
    return any(advice.judgement == YES for _, advice in advise(found, strategies))


def _in_any_case(found: TaskProfile) -> Advice | None:
    if found.alone is None or found.alone.error:
        return Advice(CANNOT, "the task itself does not work")
    if found.again is not None and found.again.answers > 1:
        return Advice(CANNOT, "its answer differs from run to run, so that no answer could be verified")
    if found.again is not None and found.again.error:
        return Advice(CANNOT, "it works only once")
    return None


def _of_a_brief_one(kind: Kind) -> Advice:
    if kind == Kind.IN_LINE:
        return Advice(YES, "it takes less than a request itself costs: the simplest will do")
    return Advice(NO, "more than a task needs that takes less than a request itself costs")


def _one_at_a_time(_found: TaskProfile) -> Advice:
    return Advice(NO, "everybody waits in line; a baseline for the others")


def _threads(found: TaskProfile) -> Advice:
    if found.threads is None or found.threads.error:
        return Advice(CANNOT, f"it does not work in threads{_because(found.threads)}")
    if waits(found):
        return Advice(YES, "threads can wait at the same time; --workers says how many")
    if cpus := cpus_at_a_time(found):
        why = (
            f"one alone computes on {formatting.significant(cpus, 2)} CPUs, in threads of its own; others are not stuck"
        )
        return Advice(YES, why)
    held = holds_gil(found)
    if held is None:
        return Advice(YES, "whether it holds the GIL could not be told here")
    return (
        Advice(NO, "it holds the GIL, so that one thread computes at a time")
        if held
        else Advice(YES, "it lets go of the GIL, so that threads compute at the same time")
    )


def _no_process(found: TaskProfile) -> Advice | None:
    if waits(found):
        return Advice(NO, "waiting needs no process of its own, and each takes memory")
    if cpus_at_a_time(found) > MOST_OF_THEM * found.cpus:
        return Advice(NO, "one alone computes on nearly all CPUs, in threads of its own")
    return None


def _processes(found: TaskProfile) -> Advice:
    trouble = _trouble(found.process, "another process")
    if trouble or found.process is None:
        return trouble or Advice(CANNOT, "it was not tried in another process")
    if needless := _no_process(found):
        return needless
    if found.again is not None and found.process.costs_s > 0.2 * found.again.wall_s:
        return Advice(YES, "but sending it there and back costs more than a fifth of what it takes")
    return Advice(YES, "every core computes")


def _prefork(found: TaskProfile) -> Advice:
    """Nothing is sent: each process performs the tasks of the requests that it has itself."""
    if needless := _no_process(found):
        return needless
    return Advice(YES, "every core computes, and nothing is sent anywhere; but the ping waits in line")


def _interpreters(found: TaskProfile) -> Advice:
    if found.interpreter is None:
        return Advice(CANNOT, f"needs Python 3.14 or later, and this is {found.python}: --python PATH")
    trouble = _trouble(found.interpreter, "a sub-interpreter")
    if trouble:
        return trouble
    if waits(found):
        return Advice(NO, "waiting needs no interpreter of its own")
    return Advice(YES, "every core computes, with less memory than processes take")


def _cooperative(found: TaskProfile) -> Advice:
    yields = found.yields
    if yields is None or not yields.yields:
        if waits(found):
            return Advice(NO, "it waits without yielding, and so stops the loop")
        return Advice(NO, "it never gives way, so that everybody waits until it is done")
    if waits(found):
        return Advice(YES, "it gives way where it waits, so that any number can wait on one thread")
    return Advice(YES, "not faster, but it gives way, so that nobody is stuck")


def _greenlets(found: TaskProfile) -> Advice:
    if "gevent" in found.missing:
        return Advice(CANNOT, f"there is no gevent for Python {found.python}")
    if waits(found) and (found.yields is None or not found.yields.yields):
        return Advice(YES, "if it waits in what gevent can patch: sockets, sleep, locks of Python")
    return _cooperative(found)


def _because(step: ThreadRuns | None) -> str:
    return f": {step.error}" if step is not None else ", where it did not end"


def _trouble(elsewhere: WorkerRun | None, where: str) -> Advice | None:
    if elsewhere is not None and elsewhere.error:
        return Advice(CANNOT, f"it fails in {where}: {elsewhere.error}")
    return None


_RULES: dict[Kind, Callable[[TaskProfile], Advice]] = {
    Kind.IN_LINE: _one_at_a_time,
    Kind.SLICES: _cooperative,
    Kind.GREENLETS: _greenlets,
    Kind.THREADS: _threads,
    Kind.PROCESSES: _processes,
    Kind.PREFORK: _prefork,
    Kind.INTERPRETERS: _interpreters,
}
