"""Read /proc (proc(5)): the children and descendants of a process, its state, and its environment.

The supervisor also runs these functions. They import only `os`, so that it starts quickly, and read
/proc/PID/task/TID/children, which is much faster than scanning all processes of the machine.
"""

import os

PROC = "/proc"


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, or an empty list if the process has exited."""
    return [int(child) for thread in threads(pid) for child in read_proc(f"{pid}/task/{thread}/children").split()]


def threads(pid: int) -> list[str]:
    """Return the ids of a process's threads, or an empty list if the process has exited."""
    try:
        return os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208 (importing pathlib is slow)
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Return the process ids of all descendants of a process.

    Read the tree twice: a process that exits during the first pass can hide a sibling, and its children move to another
    parent.
    """
    pids: dict[int, None] = {}
    for _ in range(2):
        seen, todo = {pid}, [pid]
        while todo:
            unseen = [child for child in children(todo.pop()) if child not in seen]
            seen.update(unseen)
            todo += unseen
            pids.update(dict.fromkeys(unseen))
    return list(pids)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie, which only its parent can remove."""
    return stat(pid)[:1] not in ([], [b"Z"], [b"X"])


def exit_status(pid: int) -> int | None:
    """Return the exit status of a zombie, which is negative after a signal, or None if the process is running."""
    fields = stat(pid)
    if fields[:1] != [b"Z"] or int(fields[17]) > 1:  # only its main thread has ended
        return None
    return os.waitstatus_to_exitcode(int(fields[-1]))


def stat(pid: int) -> list[bytes]:
    """Return the fields of the process's status from the third on, or an empty list if the process has exited."""
    return read_proc(f"{pid}/stat").rpartition(b")")[2].split()


def catches(pid: int, number: int) -> bool:
    """Return whether the process has a handler for this signal, or waits for it, instead of ending or ignoring it."""
    status = read_proc(f"{pid}/status")
    masks = (status.partition(name)[2].split(maxsplit=1)[:1] for name in (b"\nSigBlk:", b"\nSigCgt:"))
    return any(int(mask, 16) >> (number - 1) & 1 for found in masks for mask in found)


def pids_with_variable(name: str, value: str) -> list[int]:
    """Return the ids of all processes that started with this value of the variable and have a readable environment."""
    wanted = f"{name}={value}".encode()
    pids = [int(entry) for entry in os.listdir(PROC) if entry.isdecimal()]  # noqa: PTH208
    return [pid for pid in pids if wanted in read_proc(f"{pid}/environ").split(b"\0")]


def inherited(pid: int, name: str) -> str | None:
    """Return the value of an environment variable at the start of the process, or None if it is unset or unreadable."""
    start = f"{name}=".encode()
    for entry in read_proc(f"{pid}/environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="surrogateescape")
    return None


def is_resource_tracker(pid: int) -> bool:
    """Return whether the process is a Python resource tracker, which exits after the processes that it serves."""
    return b"multiprocessing.resource_tracker" in read_proc(f"{pid}/cmdline")


def read_proc(path: str) -> bytes:
    """Return the contents of a /proc file, or empty bytes if the process has exited or belongs to another user."""
    try:
        with open(f"{PROC}/{path}", "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
