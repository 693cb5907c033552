"""Find the descendants of a process, and processes that inherited an environment variable.

Linux has a file that lists the children of each process (proc(5)). Reading the files of one family is much faster than
looking at every process of the machine. psutil is not used: the supervisor is started often, and importing psutil would
take longer than all its other imports.
"""

import os

PROC = "/proc"
IS_TOLD = os.access(f"{PROC}/self/task/{os.getpid()}/children", os.R_OK)  # not by every Linux: CONFIG_PROC_CHILDREN

if not IS_TOLD:
    import psutil


def children(pid: int) -> list[int]:
    """The numbers of those of all its threads; none if it is gone."""
    if not IS_TOLD:
        return _of_psutil(pid, recursive=False)
    try:
        threads = os.listdir(f"{PROC}/{pid}/task")  # noqa: PTH208 (pathlib is imported nowhere else in a keeper)
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"{pid}/task/{thread}/children").split()]


def descendants(pid: int) -> list[int]:
    """The numbers of its children, theirs, and so on.

    All are looked for twice. Beside a child that ends while they are read another one may be missed (proc(5)), and
    those of a parent that ends belong to somebody who was asked before: the second look finds them there.
    """
    if not IS_TOLD:
        return _of_psutil(pid, recursive=True)
    found: dict[int, None] = {}  # in the order in which they were found
    for _ in range(2):
        seen, todo = {pid}, [pid]
        while todo:
            news = [child for child in children(todo.pop()) if child not in seen]
            seen.update(news)
            todo += news
            found.update(dict.fromkeys(news))
    return list(found)


def _of_psutil(pid: int, *, recursive: bool) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=recursive)]
    except psutil.Error:
        return []


def who_has(name: str, value: str) -> list[int]:
    """The numbers of all processes that began with this in their environment, as far as we may see that."""
    if not IS_TOLD:
        return [pid for pid in psutil.pids() if inherited(pid, name) == value]
    wanted = f"{name}={value}".encode()
    numbers = [word for word in os.listdir(PROC) if word.isdecimal()]  # noqa: PTH208 (as above)
    return [int(word) for word in numbers if wanted in _read(f"{word}/environ").split(b"\0")]


def inherited(pid: int, name: str) -> str | None:
    """What the process has under that name in the environment that it began with; None if we can't see it."""
    if not IS_TOLD:
        try:
            return psutil.Process(pid).environ().get(name)
        except (psutil.Error, OSError):
            return None  # gone, a zombie, or someone else's
    start = f"{name}=".encode()
    for entry in _read(f"{pid}/environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="surrogateescape")
    return None


def works(pid: int) -> bool:
    """Whether it is still there and no zombie, which only its parent can remove."""
    if not IS_TOLD:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False
    return _read(f"{pid}/stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def is_tracker(pid: int) -> bool:
    """Whether it is Python's resource tracker: it ends by itself when all are gone whose semaphores it removes then."""
    if IS_TOLD:
        return b"multiprocessing.resource_tracker" in _read(f"{pid}/cmdline")
    try:
        return any("multiprocessing.resource_tracker" in word for word in psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return False


def _read(path: str) -> bytes:
    """What stands there below /proc; nothing if the process is gone, or someone else's."""
    try:
        descriptor = os.open(f"{PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    chunks = []
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:  # it has ended meanwhile
        return b""
    finally:
        os.close(descriptor)
    return b"".join(chunks)
