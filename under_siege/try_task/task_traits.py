"""Derive the properties of a task that decide which strategies suit it."""

from under_siege.try_task.task_profile import TaskProfile

IO_BOUND_SHARE = 0.1  # a task whose CPU time is below this share of its duration is I/O-bound
REQUEST_OVERHEAD_S = 0.001  # approximate duration of a request without a task
OWN_THREADS_CPUS = 1.2  # a task that uses more CPUs than this, on average, has threads of its own
# If no thread waits for a CPU, two threads take 1.7 to 2 times as long as one if the task holds the GIL, and 1 to 1.1
# times as long otherwise; the threshold lies in between.
GIL_HELD_RATIO = 1.4
# The first run may have filled a cache if it took over 10 times as long as the fastest later run, and over 5 ms longer.
CACHE_RATIO, CACHE_GAIN_S = 10, 0.005


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
