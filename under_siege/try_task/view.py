"""Show the profile of a task, and which strategies are worth measuring."""

import shlex
from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.paths import INVOCATION
from under_siege.show.view import Cell, Column, Note, Paragraph, Row, Table, Tone, View
from under_siege.suite.suite import Kind, Target
from under_siege.try_task.task_profile import FirstRun, RepeatedRuns, SideEffects, TaskProfile, ThreadRuns

YES, NO, CANNOT = "worth a run", "not worth it", "cannot work"
IO_BOUND_SHARE = 0.1  # a task whose CPU time is below this share of its duration is I/O-bound
REQUEST_OVERHEAD_S = 0.001  # approximate duration of a request without a task
OWN_THREADS_CPUS = 1.2  # a task that uses more CPUs than this, on average, has threads of its own
# If no thread waits for a CPU, two threads take 1.7 to 2 times as long as one if the task holds the GIL, and 1 to 1.1
# times as long otherwise; the threshold lies in between.
GIL_HELD_RATIO = 1.4
# The first run may have filled a cache if it took over 10 times as long as the fastest later run, and over 5 ms longer.
CACHE_RATIO, CACHE_GAIN_S = 10, 0.005
_TONES = {YES: Tone.GOOD, CANNOT: Tone.BAD}


class TaskTraits:
    """The properties of a task that decide which strategies suit it."""

    def __init__(self, profile: TaskProfile) -> None:
        self.profile, threads = profile, profile.threads
        again = self.again = None if profile.again is None or profile.again.error else profile.again
        most = min(1.0, profile.cpus)  # with a quota of less than one CPU, even a CPU-bound task has to pause
        self.is_io_bound = again is not None and again.cpu_s < IO_BOUND_SHARE * most * again.wall_s
        self.is_brief = again is not None and again.wall_s < REQUEST_OVERHEAD_S
        uses_threads = again is not None and not self.is_brief and again.cpu_s > OWN_THREADS_CPUS * again.wall_s
        self.cpus = again.cpu_s / again.wall_s if again and uses_threads else 0.0  # 0: at most one CPU
        self.yields = profile.yields is not None and profile.yields.yields > 0
        self.holds_gil: bool | None = None  # None if unknown
        is_unclear = self.is_io_bound or self.is_brief or self.cpus or profile.cpus < 2
        if threads is not None and not threads.error and not is_unclear:
            self.holds_gil = threads.two_s > GIL_HELD_RATIO * threads.alone_s

    @property
    def is_cached(self) -> bool:
        """Return whether the first run took so much longer that later runs may be cache hits."""
        first_run, again = self.profile.alone, self.again
        if first_run is None or again is None or first_run.error:
            return False
        return first_run.wall_s > max(CACHE_RATIO * again.wall_s, again.wall_s + CACHE_GAIN_S)


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


def recommendations(profile: TaskProfile, strategies: Sequence[Target]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the judgement and its reason for each strategy whose kind is known."""
    task = TaskTraits(profile)
    for strategy in strategies:
        if strategy.kind != Kind.UNKNOWN:
            judgement, reason = _recommendation(task, strategy.kind)
            prefix = "after its first run: " if task.is_cached and judgement != CANNOT else ""
            yield strategy.name, judgement, prefix + reason


def _recommendation(task: TaskTraits, kind: Kind) -> tuple[str, str]:
    again = task.profile.again
    if task.profile.alone is None or task.profile.alone.error:
        return CANNOT, "the task itself does not work"
    if again is not None and again.answers > 1:
        return CANNOT, "its result differs from run to run, so its results can't be verified"
    if again is not None and again.error:
        return CANNOT, "it works only once"
    if task.is_brief:
        simplest = kind == Kind.IN_LINE
        enough = f"so {'the simplest' if simplest else 'a simpler'} strategy is enough"
        return YES if simplest else NO, f"it takes less time than the overhead of a request, {enough}"
    if obstacle := _obstacle(task.profile, kind):
        return CANNOT, obstacle
    if kind == Kind.IN_LINE:
        return NO, "all other requests queue; a baseline for the other strategies"
    return _if_io_bound(task, kind) if task.is_io_bound else _if_cpu_bound(task, kind)


def _obstacle(profile: TaskProfile, kind: Kind) -> str:
    """Return why the task can't work with this kind of strategy, or an empty string if it can."""
    if kind == Kind.GREENLETS and "gevent" in profile.missing:
        return f"there is no gevent for Python {profile.python}"
    trials = {
        Kind.THREADS: ("in threads", profile.threads),
        Kind.PROCESSES: ("in another process", profile.process),
        Kind.INTERPRETERS: ("in a sub-interpreter", profile.interpreter),
    }
    if kind not in trials:
        return ""
    where, trial = trials[kind]
    if trial is not None:
        return f"it fails {where}: {trial.error}" if trial.error else ""
    if profile.stopped:
        return f"no result {where}: {profile.stopped}"
    needed = f"sub-interpreters need Python 3.14 or later, and this is {profile.python}; pass --python PATH"
    return needed if kind == Kind.INTERPRETERS else f"it did not end {where}"


def _if_io_bound(task: TaskTraits, kind: Kind) -> tuple[str, str]:
    match kind:
        case Kind.THREADS:
            return YES, "threads can wait in parallel; --workers sets their number"
        case Kind.PROCESSES | Kind.PREFORK:
            return NO, "waiting needs no separate process, and each process takes memory"
        case Kind.INTERPRETERS:
            return NO, "waiting needs no separate interpreter"
        case Kind.GREENLETS if not task.yields:
            return YES, "if it waits in calls that gevent can patch, such as Python's sockets, sleep and locks"
    if task.yields:
        return YES, "it yields while it waits, so any number of tasks can wait in one thread"
    return NO, "it waits without yielding, which blocks the event loop"


NEARLY_ALL_CPUS = 0.75  # if a task uses more than this share of all CPUs, a second process gains nothing
COSTLY_TRANSFER = 0.2  # share of the task's time; a longer transfer of the task and its result is mentioned


def _if_cpu_bound(task: TaskTraits, kind: Kind) -> tuple[str, str]:
    again, process = task.again, task.profile.process
    match kind:
        case Kind.THREADS if task.cpus:
            return YES, f"one task uses {formatting.significant(task.cpus, 2)} CPUs, and the server can still respond"
        case Kind.THREADS if task.holds_gil is None:
            return YES, "whether it holds the GIL could not be measured here"
        case Kind.THREADS if task.holds_gil:
            return NO, "it holds the GIL, so only one thread computes at a time"
        case Kind.THREADS:
            return YES, "it releases the GIL, so threads compute in parallel"
        case Kind.PROCESSES | Kind.PREFORK if task.cpus > NEARLY_ALL_CPUS * task.profile.cpus:
            return NO, "one task uses nearly all CPUs with threads of its own"
        case Kind.PREFORK:
            return YES, "every core computes, and nothing is sent between processes; but health checks queue"
        case Kind.PROCESSES if again and process and process.costs_s > COSTLY_TRANSFER * again.wall_s:
            return (
                YES,
                "every core computes, but sending the task and its result takes more than a fifth of the task's time",
            )
        case Kind.PROCESSES:
            return YES, "every core computes"
        case Kind.INTERPRETERS:
            return YES, "every core computes, and interpreters take less memory than processes"
    if task.yields:
        return YES, "not faster, but it yields, so other requests are served in between"
    return NO, "it never yields, so all other requests wait until it is done"
