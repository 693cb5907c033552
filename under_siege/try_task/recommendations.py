"""What follows from trying a task: which strategies are worth a run, which are not, which cannot work, and why."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from under_siege import formatting
from under_siege.model.target import Kind, Target
from under_siege.model.task_profile import Elsewhere, Findings, Threads

MOSTLY_WAITING = 0.1  # of its time is computing
# Two threads take 1.7 to 2 times as long as one if the task holds the GIL, else 1 to 1.1 times, CPU waits left out.
HELD = 1.4
BRIEF_S = 0.001  # a request costs about as much
CACHED, CACHED_S = 10, 0.005  # so many times as long as the others, and so much longer, the first run has to take
MOST_OF_THEM = 0.75  # of the CPUs
PARALLEL = 1.2  # CPUs at a time: more than one thread can have
YES, NO, CANNOT = "worth a run", "not worth it", "cannot work"


class Advice(NamedTuple):
    """A judgement on one strategy."""

    judgement: str
    why: str


def waits(found: Findings) -> bool:
    """Whether it hardly computes."""
    return found.again is not None and found.again.cpu_s < MOSTLY_WAITING * found.again.wall_s


def is_brief(found: Findings) -> bool:
    """Whether it takes less than a request itself costs."""
    return found.again is not None and not found.again.error and found.again.wall_s < BRIEF_S


def is_cached(found: Findings) -> bool:
    """Whether its first run took so much longer that the others may only have found an answer that was kept."""
    alone, again = found.alone, found.again
    if alone is None or again is None or alone.error or again.error:
        return False
    return alone.wall_s > max(CACHED * again.wall_s, again.wall_s + CACHED_S)


def cpus_at_a_time(found: Findings) -> float:
    """On how many CPUs a single run computes, in threads of its own; 0 where it has no need of more than one."""
    again = found.again
    if again is None or again.error or is_brief(found) or again.cpu_s <= PARALLEL * again.wall_s:
        return 0.0
    return again.cpu_s / again.wall_s


def holds_gil(found: Findings) -> bool | None:
    """Whether two threads take turns with it; None where that can't be told."""
    threads = found.threads
    if threads is None or threads.error or waits(found) or found.cpus < 2 or is_brief(found) or cpus_at_a_time(found):
        return None
    return threads.two_s > HELD * threads.alone_s


def advise(found: Findings, strategies: Sequence[Target]) -> Iterator[tuple[str, Advice]]:
    """For each strategy that is known here; others have to be run to know."""
    for strategy in strategies:
        if strategy.kind != Kind.UNKNOWN:
            advice = _of_a_brief_one(strategy.kind) if is_brief(found) else _RULES[strategy.kind](found)
            if is_cached(found) and advice.judgement != CANNOT:
                advice = Advice(advice.judgement, f"after its first run: {advice.why}")
            yield strategy.name, _in_any_case(found) or advice


def is_worth_a_run(found: Findings, strategies: Sequence[Target]) -> bool:
    """Whether at least one strategy is."""
    return any(advice.judgement == YES for _, advice in advise(found, strategies))


def _in_any_case(found: Findings) -> Advice | None:
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


def _one_at_a_time(_found: Findings) -> Advice:
    return Advice(NO, "everybody waits in line; a baseline for the others")


def _threads(found: Findings) -> Advice:
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


def _processes(found: Findings) -> Advice:
    trouble = _trouble(found.process, "another process")
    if trouble or found.process is None:
        return trouble or Advice(CANNOT, "it was not tried in another process")
    if waits(found):
        return Advice(NO, "waiting needs no process of its own, and each takes memory")
    if cpus_at_a_time(found) > MOST_OF_THEM * found.cpus:
        return Advice(NO, "one alone computes on nearly all CPUs, in threads of its own")
    if found.again is not None and found.process.costs_s > 0.2 * found.again.wall_s:
        return Advice(YES, "but sending it there and back costs more than a fifth of what it takes")
    return Advice(YES, "every core computes")


def _prefork(found: Findings) -> Advice:
    """Nothing is sent: each process performs the tasks of the requests that it has itself."""
    if waits(found):
        return Advice(NO, "waiting needs no process of its own, and each takes memory")
    if cpus_at_a_time(found) > MOST_OF_THEM * found.cpus:
        return Advice(NO, "one alone computes on nearly all CPUs, in threads of its own")
    return Advice(YES, "every core computes, and nothing is sent anywhere; but the ping waits in line")


def _interpreters(found: Findings) -> Advice:
    if found.interpreter is None:
        return Advice(CANNOT, f"needs Python 3.14 or later, and this is {found.python}: --python PATH")
    trouble = _trouble(found.interpreter, "a sub-interpreter")
    if trouble:
        return trouble
    if waits(found):
        return Advice(NO, "waiting needs no interpreter of its own")
    return Advice(YES, "every core computes, with less memory than processes take")


def _cooperative(found: Findings) -> Advice:
    yields = found.yields
    if yields is None or not yields.yields:
        if waits(found):
            return Advice(NO, "it waits without yielding, and so stops the loop")
        return Advice(NO, "it never gives way, so that everybody waits until it is done")
    if waits(found):
        return Advice(YES, "it gives way where it waits, so that any number can wait on one thread")
    return Advice(YES, "not faster, but it gives way, so that nobody is stuck")


def _greenlets(found: Findings) -> Advice:
    if "gevent" in found.missing:
        return Advice(CANNOT, f"there is no gevent for Python {found.python}")
    if waits(found) and (found.yields is None or not found.yields.yields):
        return Advice(YES, "if it waits in what gevent can patch: sockets, sleep, locks of Python")
    return _cooperative(found)


def _because(step: Threads | None) -> str:
    return f": {step.error}" if step is not None else ", where it did not end"


def _trouble(elsewhere: Elsewhere | None, where: str) -> Advice | None:
    if elsewhere is not None and elsewhere.error:
        return Advice(CANNOT, f"it fails in {where}: {elsewhere.error}")
    return None


_RULES: dict[Kind, Callable[[Findings], Advice]] = {
    Kind.IN_LINE: _one_at_a_time,
    Kind.SLICES: _cooperative,
    Kind.GREENLETS: _greenlets,
    Kind.THREADS: _threads,
    Kind.PROCESSES: _processes,
    Kind.PREFORK: _prefork,
    Kind.INTERPRETERS: _interpreters,
}
