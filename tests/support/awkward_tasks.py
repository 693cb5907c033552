"""Tasks that are difficult to run or measure."""

import asyncio
import functools
import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent import futures

LOCK = threading.Lock()
counter = 0


def holds_the_gil_in_c():
    return sum(range(3_000_000))


def depth(left):
    return 0 if left == 0 else 1 + depth(left - 1)


def recurses_too_deep():
    return recurses_too_deep()


def large_answer():
    return "x" * 20_000_000


def counts_its_runs():
    global counter
    counter += 1
    return counter


recurses_and_is_not_picklable = lambda: f"{depth(900)} {LOCK.locked()}"  # noqa: E731


async def awaits():
    """Await three times: once only to yield, and twice to wait."""
    await asyncio.sleep(0)
    await asyncio.gather(asyncio.sleep(0.02), asyncio.sleep(0.02))
    await asyncio.sleep(0.03)
    return "awaited"


async def awaits_nothing():
    return "at once" * len([number for number in range(100_000) if number < 1])


@functools.cache
def caches_its_answer(times):
    return hashlib.pbkdf2_hmac("sha256", b"a", b"b", 30_000 * times).hex()


def caches_by_hand_and_uses_memory():
    global counter
    counter = counter or sum(range(3_000_000)) + len(b"x" * 60_000_000)
    return counter


def computes_in_own_threads():
    with futures.ThreadPoolExecutor(2) as pool:
        return "".join(pool.map(lambda salt: hashlib.pbkdf2_hmac("sha256", b"a", salt, 60_000).hex(), [b"1", b"2"]))


def never_ends():
    while True:
        time.sleep(60)


def prints_forks_and_leaves_processes():
    print("said something")
    print("and complained", file=sys.stderr)
    child = os.fork()
    if child == 0:
        return "from the child"
    os.waitpid(child, 0)
    subprocess.Popen(["sleep", "30"])
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    return "left"


def exits_hard():
    os._exit(3)


def only_once():
    global counter
    counter += 1
    if counter > 1:
        raise RuntimeError("once is enough")
    return 1


def waits_without_yielding():
    time.sleep(0.05)
    return "waited"
