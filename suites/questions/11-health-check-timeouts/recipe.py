"""Compute in a process pool, and let each probe ask its own question."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from fastapi import FastAPI, HTTPException

app = FastAPI()
pool = ProcessPoolExecutor()
pending, is_broken = 0, False


def build_report() -> int:
    return sum(number * number % 7 for number in range(2_000_000))  # about 80 ms of computing


@app.get("/report")
async def report() -> int:
    global pending, is_broken
    pending += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, build_report)
    except BrokenProcessPool:
        is_broken = True
        raise HTTPException(500, "a process of the pool died") from None
    finally:
        pending -= 1


@app.get("/live")  # would a restart help?
async def live() -> None:
    if is_broken:
        raise HTTPException(500, "the process pool is broken")


@app.get("/ready")  # should this pod get more requests now?
async def ready() -> None:
    if pending >= 50:
        raise HTTPException(503, "too many reports are waiting")
