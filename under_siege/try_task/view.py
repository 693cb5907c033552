"""Show the profile of a task, and which strategies are worth measuring."""

import shlex
from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.paths import INVOCATION
from under_siege.show.view import Cell, Column, Note, Paragraph, Row, Table, Tone, View
from under_siege.suite.suite import Target
from under_siege.try_task.recommendation import CANNOT, YES, recommendations
from under_siege.try_task.task_profile import FirstRun, RepeatedRuns, SideEffects, TaskProfile, ThreadRuns
from under_siege.try_task.task_traits import TaskTraits

_TONES = {YES: Tone.GOOD, CANNOT: Tone.BAD}


def view(profile: TaskProfile, strategies: Sequence[Target]) -> View:
    """Return what `try` shows for a task; the exit code is 1 if no strategy is worth a run."""
    judged = list(recommendations(profile, strategies))
    worth = [server.split("_")[0] for server, judgement, _ in judged if judgement == YES]
    command = f"{INVOCATION} run {' '.join(worth)} --task {shlex.quote(profile.task)}"
    return View(
        f"Which strategies suit {profile.task}?",
        headline=(Paragraph(f"{profile.task}, under Python {profile.python}", list(_facts(TaskTraits(profile)))),),
        tables=(_advice_table(judged),),
        notes=(Note("Measure these:", "", command),) if worth else (),
        exit_code=0 if worth else 1,
    )


def _advice_table(judged: Sequence[tuple[str, str, str]]) -> Table:
    columns = [Column(name, is_text=True) for name in ("strategy", "judgement", "reason")]
    rows = [
        Row([Cell(server), Cell(judgement, _TONES.get(judgement, Tone.PLAIN)), Cell(reason)])
        for server, judgement, reason in judged
    ]
    return Table("strategies", "Strategies", columns, rows, gap=2)


def _facts(task: TaskTraits) -> Iterator[tuple[str, str]]:
    profile, yields = task.profile, task.profile.yields
    if profile.alone is not None:
        yield from [("fails", profile.alone.error)] if profile.alone.error else _single_task(task, profile.alone)
    if profile.threads is not None:
        yield "GIL", profile.threads.error or _gil(task, profile.threads)
    if yields is not None and not yields.error:
        waiting = f", {yields.waits} of them to wait" if yields.waits else ""
        longest = formatting.seconds(yields.longest_s)
        times = f"{_count(yields.yields, 'time', 'times')}{waiting}; at most {longest} in between"
        yield "yields", times if yields.yields else "never: it neither yields nor awaits"
    for name, worker in (("other process", profile.process), ("sub-interpreter", profile.interpreter)):
        if worker is not None:
            costs, start = formatting.seconds(worker.costs_s), formatting.seconds(worker.start_s)
            sending = f"sending the task and receiving {worker.sent_bytes:,} bytes takes {costs}"
            started = f"{sending}; the first task took {start}, including the start of the worker"
            yield name, f"does not work there: {worker.error}" if worker.error else started
    yield from (("warning", warning) for warning in _warnings(profile))


SLOW_START = 1.5  # the first run is mentioned if it took this many times as long as the fastest one


def _single_task(task: TaskTraits, first_run: FirstRun) -> Iterator[tuple[str, str]]:
    again, machine = task.again, task.profile.machine
    best = again or first_run
    share = f"{min(100.0, 100 * best.cpu_s / best.wall_s) if best.wall_s else 0:.0f} % of it on the CPU"
    if task.cpus:
        share = f"using {formatting.significant(task.cpus, 2)} CPUs with threads of its own"
    if task.profile.cpus < 1:
        share += f" (the CPU quota allows {100 * task.profile.cpus:.0f} %)"
    is_slower = first_run.wall_s > SLOW_START * best.wall_s
    slow_start = f"; the first run took {formatting.seconds(first_run.wall_s)}" if is_slower else ""
    yield "takes", f"{formatting.seconds(best.wall_s)}, {share}{slow_start}"
    if task.is_cached and first_run.has_cache:
        path, bracket, rest = task.profile.task.partition("(")
        uncached = f"{INVOCATION} try {shlex.quote(f'{path}.__wrapped__{bracket}{rest}')}"
        yield "cached?", f"it has a cache, so all figures here are for cache hits; to avoid its cache, run: {uncached}"
    elif task.is_cached:
        hits = "later runs may be cache hits: try the task without its cache"
        loads = "If the first run was slow because it loaded data, only a worker's first request takes that long"
        yield "cached?", f"{hits}. {loads}"
    if machine is not None and machine.is_busy:
        remedy = "so all times are too long; close other programs and try again"
        yield "machine", f"other programs used {machine.others_pct:.0f} % of the CPUs, {remedy}"
    yield "memory", f"{formatting.megabytes(first_run.memory_bytes)} more at its peak"
    same = f", the same in {again.runs} more runs" if again and again.answers == 1 else ""
    yield "result", f"{first_run.answer!r} ({first_run.answer_bytes:,} bytes{same})"


def _gil(task: TaskTraits, threads: ThreadRuns) -> str:
    if task.is_io_bound:
        state = "hardly needed: the task is I/O-bound"
    elif task.holds_gil is not None:
        times = formatting.significant(threads.two_s / threads.alone_s, 2)
        state = f"{'held' if task.holds_gil else 'released or disabled'}: two threads take {times} times as long as one"
    elif task.is_brief:
        state = "unknown: the task is too short"
    else:
        state = f"unknown: {'the task has threads of its own' if task.cpus else 'fewer than two CPUs can be used'}"
    return f"{state}; other threads wait up to {formatting.seconds(threads.stalled_s)} for their turn"


def _warnings(profile: TaskProfile) -> Iterator[str]:
    again, effects = profile.again or RepeatedRuns(), profile.effects or SideEffects()
    if profile.stopped:
        yield profile.stopped
    if again.error:
        yield f"it worked once and then failed: {again.error}"
    if again.answers > 1:
        yield f"its result differs: {again.answers} results in {again.runs} runs; make it return the same result"
    if effects.printed_bytes:
        yield f"it prints ({effects.printed_bytes:,} bytes): under load, this is slow and mixes the output of the tasks"
    if effects.forks:
        yield "it forks: the child inherits the server's sockets, and may inherit locks that are never released"
    if effects.children:
        yield f"it leaves {_count(effects.children, 'process', 'processes')} behind"
    if profile.threads and profile.threads.threads_left > 0:
        yield f"it leaves {_count(profile.threads.threads_left, 'thread', 'threads')} behind"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
