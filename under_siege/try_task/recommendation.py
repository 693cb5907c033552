"""Recommend strategies for a task: which are worth a run, and why the others are not."""

from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.suite.suite import Kind, Target
from under_siege.try_task.task_profile import TaskProfile
from under_siege.try_task.task_traits import TaskTraits

YES, NO, CANNOT = "worth a run", "not worth it", "cannot work"
NEARLY_ALL_CPUS = 0.75  # if a task uses more than this share of all CPUs, a second process gains nothing
COSTLY_TRANSFER = 0.2  # share of the task's time; a longer transfer of the task and its result is mentioned


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
