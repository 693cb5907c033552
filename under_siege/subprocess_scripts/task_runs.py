"""Run a task in a worker process, and report its answer; then, repeat it once for each line on stdin.

The script reports `{"answer": …, "started_s": …, "wall_s": …, "cpu_s": …, "cpu": …}`, where `started_s` is a time of
`time.monotonic`, and `cpu` the number of the CPU. Only the first run has an answer. The script exits at the end of
stdin.

usage: python -P task_runs.py '{"task": TASK}'
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from common.task import TaskError, perform, resolve
from common.task_name import UnknownTaskError
from common.workers import exit_with_server, json_lines

MOST_LETTERS = 10_000_000  # maximum length of an answer


def main(task: str) -> None:
    """Perform the task in the worker of a process pool, as the server with a process pool does.

    The worker is forked before the task is imported and before any thread exists. It therefore has to import the task,
    like a worker of that server. A fork server is unnecessary, and would double the duration of this script.
    """
    report = json_lines()
    with ProcessPoolExecutor(1, get_context("fork"), exit_with_server) as pool:
        pool.submit(int)
        try:
            resolve(task)
        except UnknownTaskError as error:
            report({"error": str(error)})
            return
        try:
            first = pool.submit(run, task).result()
            if len(str(first["answer"])) > MOST_LETTERS:
                report(
                    {"error": f"task {task!r} returns more than {MOST_LETTERS:,} characters; use one that returns less"}
                )
                return
            report(first)
            for _ in sys.stdin:
                report({**pool.submit(run, task).result(), "answer": ""})
        except UnknownTaskError as error:
            report({"error": f"task {task!r} can't be sent to a worker process: {error}"})
        except BrokenProcessPool:
            report({"error": f"task {task!r} can't run in a worker process: the task terminated the process"})
        except TaskError as error:
            report({"error": f"task {task!r} raised {error}; use a task that succeeds"})


def run(task: str) -> dict[str, object]:
    """Perform the task, and return what the script reports."""
    done = perform(task)
    wall_s = done.finished_s - done.started_s
    return {
        "answer": done.answer,
        "started_s": done.started_s,
        "wall_s": wall_s,
        "cpu_s": done.cpu_s,
        "cpu": last_cpu(),
    }


def last_cpu() -> int:
    """Return the CPU that this process ran on last (proc(5), field 39 of stat), or -1 if it is unknown."""
    try:
        return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return -1


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
