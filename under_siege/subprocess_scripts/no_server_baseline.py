"""Measure the ceiling: users repeat the task without a server, each in a thread of one of several processes.

The script reports `{"go_s": time}` when all users begin, then `[user, began, ended, bytes]` for each finished task. The
user CHECK_USER runs the task as often as the bench checks a response. Times are seconds of `time.monotonic`. The script
runs until it is killed, or exits with code 1 if the task fails.
"""

import fcntl
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import NamedTuple, NoReturn

from common.errors import one_line
from common.task import TaskError, TaskRun, perform
from common.task_name import UnknownTaskError
from common.workers import exit_with_server, json_lines

CHECK_USER = -1  # runs the task as often as the bench checks responses
# Seconds after which a thread must release the GIL. With Python's default of 5 ms, 13 to 100 threads that ran a Python
# loop did 2 to 6 % less work per CPU second than one thread. With 0.1 s, they did at most 1 % less (medians on a busy
# 2-CPU machine).
SWITCH_S = 0.1
EXIT_S = 10.0  # maximum wait for an exit code, which the fork server reports late if the CPUs are busy
READY, GO = "ready", "go"
FAILING = threading.Lock()  # held by the first thread that reports a failure, and never released
Turn = tuple[threading.Semaphore, threading.Semaphore]  # of a user, and of the next one


class UserFailedError(Exception):
    """A process that simulates users can't go on; the text says why."""


class UserProcess(NamedTuple):
    """A process with some of the users, and the pipe to it."""

    process: ForkServerProcess
    pipe: Connection


def main(task: str, users: int, processes: int, check_interval_s: float, in_turn: bool) -> None:
    """Start all processes, and let all users begin at the same time; in turn: one user of each process at a time."""
    context = _forkserver()
    report = json_lines()
    user_processes = [
        *(_started(context, own_users, task, 0.0, in_turn) for own_users in spread(users, processes)),
        _started(context, [CHECK_USER], task, check_interval_s),
    ]
    try:
        waiting = len(user_processes)
        while waiting:
            waiting -= _receive_messages(user_processes)
        report({"go_s": time.monotonic()})
        for user_process in user_processes:
            user_process.pipe.send(GO)
        while True:
            _receive_messages(user_processes)
    except UserFailedError as error:
        report({"error": str(error)})
        for user_process in user_processes:
            user_process.process.kill()  # SIGTERM is ignored
        sys.exit(1)


def spread(users: int, processes: int) -> list[list[int]]:
    """Return a list of user numbers for each process, distributed as evenly as possible."""
    return [list(range(users))[first::processes] for first in range(min(users, processes))]


def _forkserver() -> ForkServerContext:
    """Start the fork server early, so that it imports its modules before the import of the task changes sys.path."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["common.task", "common.workers"])
    first = context.Process(target=int)
    first.start()
    first.join()
    return context


def _started(
    context: ForkServerContext, users: Sequence[int], task: str, pause_s: float, in_turn: bool = False
) -> UserProcess:
    ours, theirs = context.Pipe()
    process = context.Process(target=_compute, args=(users, task, pause_s, theirs, in_turn), daemon=True)
    process.start()
    theirs.close()
    return UserProcess(process, ours)


def _receive_messages(user_processes: Sequence[UserProcess]) -> int:
    """Wait for messages and return how many processes have become ready; raise UserFailedError if a process fails."""
    wait([end for user_process in user_processes for end in (user_process.pipe, user_process.process.sentinel)])
    ready = 0
    for user_process in user_processes:
        try:
            message = user_process.pipe.recv() if user_process.pipe.poll() else ""
        except EOFError:
            user_process.process.join(EXIT_S)
            raise UserFailedError(_exit_text(user_process.process.exitcode)) from None
        if message == READY:
            ready += 1
        elif message:
            raise UserFailedError(message)
        elif user_process.process.exitcode is not None:
            raise UserFailedError(_exit_text(user_process.process.exitcode))
    return ready


def _exit_text(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"a process that simulates users was terminated by {signal.Signals(-exitcode).name}"
    return f"a process that simulates users ended with exit code {exitcode}"


def _compute(users: Sequence[int], task: str, pause_s: float, pipe: Connection, in_turn: bool) -> None:
    """Import and warm up the task, report READY, and start the users of this process on GO."""
    _follow_parent()
    report = json_lines()
    sys.setswitchinterval(SWITCH_S)
    go = Future[float]()  # time at which all users begin, even if some threads are scheduled later
    try:
        _perform(task)
        turns = [threading.Semaphore(number == 0) for number in range(len(users))] if in_turn else []
        for number, user in enumerate(users):
            # Each user waits for the own turn and then gives it to the next user.
            turn = (turns[number], turns[(number + 1) % len(users)]) if turns else None
            threading.Thread(target=_user, args=(user, task, pause_s, go, pipe, turn, report), daemon=True).start()
    except BaseException as error:  # the task may raise anything
        _fail(pipe, error)
    pipe.send(READY)
    pipe.recv()
    go.set_result(time.monotonic())
    threading.Event().wait()  # the users run until the process is killed


def _follow_parent() -> None:
    """End this process when its parent ends, also by a signal: a watching thread might have to wait for the GIL."""
    exit_with_server()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        # When the other end of this pipe is closed, the kernel sends SIGIO, which ends the process; see fcntl(2).
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(parent.sentinel, fcntl.F_GETFL))


def _fail(pipe: Connection, error: BaseException) -> NoReturn:
    """Report the error, and end the process without waiting for other threads."""
    FAILING.acquire()  # never released, so that only the first error is reported
    pipe.send(_reason(error))
    os._exit(1)


def _user(
    user: int,
    task: str,
    pause_s: float,
    go: Future[float],
    pipe: Connection,
    turn: Turn | None,
    report: Callable[[object], None],
) -> None:
    """Perform the task repeatedly, without a pause or, if `pause_s` is set, every `pause_s` seconds."""
    asked_s = began_s = go.result()
    try:
        for number in itertools.count():
            if pause_s:
                time.sleep(max(0.0, began_s + number * pause_s - time.monotonic()))
                asked_s = time.monotonic()
            if turn:
                turn[0].acquire()
            run = _perform(task)
            if turn:
                turn[1].release()
            # Timing begins when the user asks for the task, because users also wait for other threads of their process.
            report([user, asked_s, run.finished_s, len(run.answer.encode())])
            asked_s = run.finished_s
    except BaseException as error:
        _fail(pipe, error)


def _perform(task: str) -> TaskRun:
    """Perform the task. If the task has forked, end the child process, which also returns from `perform`."""
    own_pid = os.getpid()
    run = perform(task)
    if os.getpid() != own_pid:
        os._exit(0)
    return run


def _reason(error: BaseException) -> str:
    if isinstance(error, TaskError):
        return f"the task raised {error}"
    return str(error) if isinstance(error, UnknownTaskError) else one_line(error)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
