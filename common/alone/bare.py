"""The bare case: the same users with no server at all, each computing in a process of its own. Its rate is the ceiling.

Prints `alone,wall,cpu` for some runs with nothing beside them, `go,time` when all begin, and then a line for each
task done: `user,began,ended,bytes`. Times are seconds of `time.monotonic`. It computes until it is killed.
"""

import argparse
import itertools
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

from common.task import perform
from common.worker import follow_server

ALONE_RUNS = 3
CHECKER = -1  # the user that asks once in a while, as the harness does to verify the answers of a server


def main() -> None:
    """Performs the task alone, then lets all users begin at the same time."""
    options = _options()
    _silence_task()
    _run_alone(options.task)
    context = get_context("forkserver")
    context.set_forkserver_preload(["common.task"])
    ready, go = context.Semaphore(0), context.Event()
    users = [*range(options.users), CHECKER]
    for user in users:
        pause_s = options.check_every if user == CHECKER else 0.0
        context.Process(target=_user, args=(user, options.task, pause_s, ready, go), daemon=True).start()
    for _ in users:
        ready.acquire()
    _say("go", time.monotonic())
    go.set()
    while True:
        time.sleep(3600)  # until it is killed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m common.alone.bare")
    parser.add_argument("--task", required=True)
    parser.add_argument("--users", type=int, required=True)
    parser.add_argument("--check-every", type=float, required=True)
    return parser.parse_args()


def _silence_task() -> None:
    """What the task prints must not get into our lines."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (for as long as the process lives)


def _run_alone(task: str) -> None:
    """Some runs, after a first one that finds and warms what the task needs."""
    perform(task)
    for _ in range(ALONE_RUNS):
        run = perform(task)
        _say("alone", run.finished_s - run.started_s, run.cpu_s)


def _user(user: int, task: str, pause_s: float, ready: Semaphore, go: Event) -> None:
    """One user: performs the task again and again, or once every so often."""
    follow_server()
    _silence_task()
    ready.release()
    go.wait()
    began_s = time.monotonic()
    for number in itertools.count():
        if pause_s:
            time.sleep(max(0.0, began_s + number * pause_s - time.monotonic()))
        run = perform(task)
        _say(user, run.started_s, run.finished_s, len(run.answer.encode()))


def _say(*words: object) -> None:
    """One line in one write, so that the lines of many processes don't mix."""
    os.write(1, (",".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    main()
