"""A service with the same report at five routes: 10 ms of waiting for a database, then about 20 ms of computing."""

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI

app = FastAPI()
pool = ProcessPoolExecutor()


def report() -> dict[str, int]:
    time.sleep(0.01)
    return totals()


def totals() -> dict[str, int]:
    return {"total": sum(number * number % 7 for number in range(250_000))}


@app.get("/report/blocking")
async def blocking() -> dict[str, int]:
    return report()


@app.get("/report/awaiting")
async def awaiting() -> dict[str, int]:
    await asyncio.sleep(0.01)
    return totals()


@app.get("/report/def")
def in_a_thread_of_fastapi() -> dict[str, int]:
    return report()


@app.get("/report/to_thread")
async def in_a_thread() -> dict[str, int]:
    return await asyncio.to_thread(report)


@app.get("/report/process_pool")
async def in_a_process() -> dict[str, int]:
    return await asyncio.get_running_loop().run_in_executor(pool, report)


@app.get("/health")
async def health() -> str:
    return "ok"
