"""What a task costs on this machine, and whether it holds the GIL: `python -m common.task [NAME]`."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from common.builtin_tasks import BUILTIN_TASKS
from common.cpus import usable_cpus
from common.serving.options import quit_with
from common.task import TaskError, TaskRun, UnknownTaskError, perform

REPEATS = 3
MOSTLY_WAITING = 0.1  # of the wall time is CPU time: too little to tell what it does with the GIL
HELD = (
    1.75  # two at once take twice as long as one where the GIL is held; where not, as long, or up to half more on CPUs
)
# that share a core


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The best of some runs of a task, alone and two at once."""

    name: str
    wall_s: float
    cpu_s: float
    two_at_once_s: float
    answer: str

    @property
    def holds_gil(self) -> str:
        """In words; two threads on one CPU can't tell."""
        if self.cpu_s < MOSTLY_WAITING * self.wall_s:
            return "hardly computes"
        if usable_cpus() == 1:
            return "can't tell on one CPU"
        return "yes" if self.two_at_once_s > HELD * self.wall_s else "no"


def measure(spec: str) -> TaskCost:
    """Performs the task alone and twice at once in threads, some times; raises as `perform`."""
    alone = min((perform(spec) for _ in range(REPEATS)), key=_wall_s)
    with ThreadPoolExecutor(2) as pool:
        two_at_once_s = min(_two_at_once_s(pool, spec) for _ in range(REPEATS))
    return TaskCost(spec, _wall_s(alone), alone.cpu_s, two_at_once_s, alone.answer)


def _wall_s(run: TaskRun) -> float:
    return run.finished_s - run.started_s


def _two_at_once_s(pool: ThreadPoolExecutor, spec: str) -> float:
    began_s = time.monotonic()
    for run in [pool.submit(perform, spec), pool.submit(perform, spec)]:
        run.result()
    return time.monotonic() - began_s


def main() -> None:
    """Prints a line for each task."""
    parser = argparse.ArgumentParser(prog="python -m common.task", description=__doc__)
    parser.add_argument("name", nargs="*", default=list(BUILTIN_TASKS), help="a task's name, or module:function")
    names = parser.parse_args().name
    print(f"{'task':20} {'wall':>10} {'CPU':>10}  {'holds the GIL':21}  answer")  # noqa: T201
    for name in names:
        try:
            cost = measure(name)
        except (UnknownTaskError, TaskError) as error:
            quit_with(str(error))
        answer = cost.answer if len(cost.answer) <= 40 else f"{cost.answer[:37]}..."
        wall, cpu = f"{cost.wall_s * 1000:.1f} ms", f"{cost.cpu_s * 1000:.1f} ms"
        print(f"{cost.name:20} {wall:>10} {cpu:>10}  {cost.holds_gil:21}  {answer!r}")  # noqa: T201
