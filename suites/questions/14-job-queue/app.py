"""Build reports in threads of the web server, or in a process pool."""

import asyncio
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI

with_threads, with_pool = FastAPI(), FastAPI()
pool = ProcessPoolExecutor()


def build_report(ms: int) -> int:
    return sum(number * number % 7 for number in range(20_000 * ms))  # about `ms` milliseconds of CPU time


@with_threads.get("/report/{ms}")
def in_thread(ms: int) -> int:
    return build_report(ms)


@with_pool.get("/report/{ms}")
async def in_pool(ms: int) -> int:
    return await asyncio.get_running_loop().run_in_executor(pool, build_report, ms)


@with_threads.get("/health")
@with_pool.get("/health")
async def health() -> str:
    return "ok"
