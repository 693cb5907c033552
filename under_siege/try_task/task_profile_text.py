"""What trying a task found, as text: the facts first, then what follows for each strategy."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.model.target import Target
from under_siege.model.task_profile import Again, Alone, Elsewhere, Findings, Machine
from under_siege.paths import PROGRAM
from under_siege.try_task.recommendations import (
    CANNOT,
    YES,
    advise,
    cpus_at_a_time,
    holds_gil,
    is_brief,
    is_cached,
    waits,
)

SHORTEST_S = 0.0001  # that is told as it is
_STYLES = {YES: "green", CANNOT: "red"}


def as_advice(found: Findings, strategies: Sequence[Target]) -> RenderableType:
    """Everything that is known of the task without a server."""
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


def _facts(found: Findings) -> Iterator[tuple[str, str]]:
    yield "task", f"{found.task}, under Python {found.python}"
    if found.alone is not None:
        yield from _of_one_run(found)
    if found.threads is not None:
        yield "GIL", found.threads.error or _gil(found)
    if found.yields is not None and not found.yields.error:
        yield "gives way", _gives_way(found)
    if found.process is not None:
        yield "other process", _elsewhere(found.process)
    if found.interpreter is not None:
        yield "sub-interpreter", _elsewhere(found.interpreter)
    yield from (("beware", warning) for warning in _warnings(found))


def _of_one_run(found: Findings) -> Iterator[tuple[str, str]]:
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


def _computing(found: Findings, best: Alone | Again) -> str:
    if cpus := cpus_at_a_time(found):
        return f"computing on {formatting.significant(cpus, 2)} CPUs at a time, in threads of its own"
    return f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it computing"


def _cached(found: Findings) -> str:
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


def _busy(machine: Machine) -> str:
    return (
        f"its CPUs were {machine.others_pct:.0f} % busy with other work meanwhile, so that times are too long and may "
        "mislead; close other programs, or wait, and try again"
    )


def _gil(found: Findings) -> str:
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


def _why_not(found: Findings) -> str:
    if is_brief(found):
        return "of so short a task"
    return "of one that computes in threads of its own" if cpus_at_a_time(found) else "on one CPU"


def _gives_way(found: Findings) -> str:
    yields = found.yields
    assert yields is not None
    if not yields.yields:
        return "never: it neither yields nor awaits anything"
    waiting = f", {yields.waits} of them to wait" if yields.waits else ""
    return f"{yields.yields} times{waiting}; never longer than {formatting.seconds(yields.longest_s)} without"


def _elsewhere(there: Elsewhere) -> str:
    if there.error:
        return f"does not work there: {there.error}"
    return (
        f"sending it there and {there.sent_bytes:,} bytes back costs {formatting.seconds(there.costs_s)}; "
        f"the first one took {formatting.seconds(there.start_s)} with the start of the worker"
    )


def _warnings(found: Findings) -> Iterator[str]:
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
