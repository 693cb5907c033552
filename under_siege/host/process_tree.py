"""Find the children and descendants of a process.

On Linux, this module reads /proc/PID/task/TID/children (proc(5)), which is much faster than scanning all processes of
the machine. On other systems, it uses psutil, whose import takes longer than all other imports of the supervisor.
"""

import os

PROC = "/proc"
# The kernel has these files if it was built with CONFIG_PROC_CHILDREN.
HAS_CHILDREN_FILES = os.access(f"{PROC}/self/task/{os.getpid()}/children", os.R_OK)

if not HAS_CHILDREN_FILES:
    import psutil


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, or an empty list if the process has exited."""
    if not HAS_CHILDREN_FILES:
        return _psutil_children(pid, recursive=False)
    try:
        threads = os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208 (the supervisor does not import pathlib)
    except OSError:
        return []
    return [int(child) for thread in threads for child in read_proc(f"{pid}/task/{thread}/children").split()]


def descendants(pid: int) -> list[int]:
    """Return the process ids of all descendants of a process.

    Read the tree twice: a process that exits during the first pass can hide a sibling (proc(5)), and its children move
    to another parent.
    """
    if not HAS_CHILDREN_FILES:
        return _psutil_children(pid, recursive=True)
    pids: dict[int, None] = {}
    for _ in range(2):
        seen, todo = {pid}, [pid]
        while todo:
            unseen = [child for child in children(todo.pop()) if child not in seen]
            seen.update(unseen)
            todo += unseen
            pids.update(dict.fromkeys(unseen))
    return list(pids)


def _psutil_children(pid: int, *, recursive: bool) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=recursive)]
    except psutil.Error:
        return []


def read_proc(path: str) -> bytes:
    """Return the contents of a /proc file, or empty bytes if the process has exited or belongs to another user."""
    try:
        descriptor = os.open(f"{PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    chunks = []
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return b"".join(chunks)
