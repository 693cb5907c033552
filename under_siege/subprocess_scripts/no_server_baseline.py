"""The ceiling: the same users with no server, each a thread in one of a few processes.

Prints `go,time` when all users begin, then a line for each finished task: `user,began,ended,bytes`. The user `check`
runs a task as often as the bench checks an answer. Times are seconds of `time.monotonic`. It runs until it is killed.
If the task fails, it exits with 1, and the last line on stderr gives the reason.
"""

import argparse
import fcntl
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import NamedTuple, NoReturn

from common.errors import one_line
from common.parent_watch import follow_server
from common.task import TaskError, TaskRun, UnknownTaskError, perform

CHECKER = -1  # the user that asks once in a while, as the bench does to verify answers; printed as `check`
# How long a thread may keep the GIL that others wait for. With Python's 5 ms, 13 to 100 threads of a loop in Python did
# 2 to 6 % less for each second of CPU than one alone; with 0.1 s at most 1 % less (medians, on a busy 2-CPU machine).
SWITCH_S = 0.1
READY, GO = "ready", "go"
FAILING = threading.Lock()


class Crew(NamedTuple):
    """Some users in a process of their own, and the pipe to it."""

    process: ForkServerProcess
    pipe: Connection


def main() -> None:
    """Let all users begin at the same time."""
    options = _options()
    _silence_task()
    context = _forkserver()
    crews = [
        *(_started(context, users, options.task, 0.0) for users in spread(options.users, options.processes)),
        _started(context, [CHECKER], options.task, options.check_every),
    ]
    waiting = len(crews)
    while waiting:
        waiting -= _hear(crews)
    _say("go", time.monotonic())
    for crew in crews:
        crew.pipe.send(GO)
    while True:
        _hear(crews)  # until it is killed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="no_server_baseline.py")
    parser.add_argument("--task", required=True)
    parser.add_argument("--users", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True, help="that the users are spread over")
    parser.add_argument("--check-every", type=float, required=True)
    return parser.parse_args()


def spread(users: int, processes: int) -> list[list[int]]:
    """Return the numbers of the users for each process, as evenly as possible."""
    return [list(range(users))[first::processes] for first in range(min(users, processes))]


def _silence_task() -> None:
    """Discard what the task prints: it must not get into our lines."""
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (for as long as the process lives)


def _forkserver() -> ForkServerContext:
    """Start the fork server, with all imported, before the task is: that puts the user's folder first on sys.path."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["common.task", "common.parent_watch"])
    first = context.Process(target=int)
    first.start()
    first.join()
    return context


def _started(context: ForkServerContext, users: Sequence[int], task: str, pause_s: float) -> Crew:
    ours, theirs = context.Pipe()
    process = context.Process(target=_compute, args=(users, task, pause_s, theirs), daemon=True)
    process.start()
    theirs.close()
    return Crew(process, ours)


def _hear(crews: Sequence[Crew]) -> int:
    """Wait for messages and return how many crews have become ready; end all if one can't go on."""
    wait([end for crew in crews for end in (crew.pipe, crew.process.sentinel)])
    ready = 0
    for crew in crews:
        try:
            word = crew.pipe.recv() if crew.pipe.poll() else ""
        except EOFError:
            crew.process.join(1.0)
            _give_up(crews, _how_it_ended(crew.process.exitcode))
        if word == READY:
            ready += 1
        elif word:
            _give_up(crews, word)
        elif crew.process.exitcode is not None:
            _give_up(crews, _how_it_ended(crew.process.exitcode))
    return ready


def _how_it_ended(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"a process with users was ended by {signal.Signals(-exitcode).name}"
    return f"a process with users ended with exit code {exitcode}"


def _give_up(crews: Sequence[Crew], reason: str) -> NoReturn:
    for crew in crews:
        crew.process.kill()  # SIGTERM is not for them
    sys.exit(reason)


def _compute(users: Sequence[int], task: str, pause_s: float, pipe: Connection) -> None:
    """Import and warm the task, report that, and let the users of this process begin when it is told."""
    _follow_parent()
    _silence_task()
    sys.setswitchinterval(SWITCH_S)
    go = Future[float]()  # the moment when all users begin, however long each thread waits for its first turn
    try:
        _perform(task)
        for user in users:
            threading.Thread(target=_user, args=(user, task, pause_s, go, pipe), daemon=True).start()
    except BaseException as error:  # whatever it is, it has to be reported
        _fail(pipe, error)
    pipe.send(READY)
    pipe.recv()
    go.set_result(time.monotonic())
    threading.Event().wait()  # the users are at work until the process is killed


def _follow_parent() -> None:
    """End with the parent, at once: among threads that hold the GIL in turn, another thread may wait for seconds."""
    follow_server()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None and hasattr(os, "O_ASYNC"):
        # The system signals that the other end of this pipe is closed, and SIGIO ends a process (fcntl(2), signal(7)).
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(parent.sentinel, fcntl.F_GETFL))


def _fail(pipe: Connection, error: BaseException) -> NoReturn:
    """Report why the process can't go on, and end it."""
    FAILING.acquire()  # for ever: only the first reason is reported
    pipe.send(_reason(error))
    os._exit(1)  # without waiting for other threads


def _user(user: int, task: str, pause_s: float, go: Future[float], pipe: Connection) -> None:
    """Perform the task again and again, or once every so often."""
    asked_s = began_s = go.result()
    try:
        for number in itertools.count():
            if pause_s:
                time.sleep(max(0.0, began_s + number * pause_s - time.monotonic()))
                asked_s = time.monotonic()
            run = _perform(task)
            # Since it asked: a user that has to wait for a thread beside it is not idle meanwhile.
            _say("check" if user == CHECKER else user, asked_s, run.finished_s, len(run.answer.encode()))
            asked_s = run.finished_s
    except BaseException as error:
        _fail(pipe, error)


def _perform(task: str) -> TaskRun:
    """Perform the task; a child that it forked and did not end must not go on as one more user."""
    us = os.getpid()
    run = perform(task)
    if os.getpid() != us:
        os._exit(0)
    return run


def _reason(error: BaseException) -> str:
    if isinstance(error, TaskError):
        return f"the task raised {error}"
    return str(error) if isinstance(error, UnknownTaskError) else one_line(error)


def _say(*words: object) -> None:
    """Write a line in one call, so that the lines of many processes don't mix."""
    os.write(1, (",".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    main()
