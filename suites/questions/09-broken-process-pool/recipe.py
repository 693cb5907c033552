"""Replace a process pool if one of its workers dies, and try the failed tasks again, one at a time."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from fastapi import FastAPI
from tasks import build_report

app, one_at_a_time = FastAPI(), asyncio.Lock()
pools: dict[str, ProcessPoolExecutor] = {}
broken: list[str] = []


async def run(name: str, workers: int) -> int:
    if name not in pools:
        pools[name] = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    pool = pools[name]
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, build_report)
    except BrokenProcessPool:
        if pools.get(name) is pool:  # all tasks in the pool fail, but it is replaced only once
            del pools[name]
            broken.append(name)
        raise


@app.get("/report")
async def report() -> int:
    try:
        return await run("all tasks", workers=2)
    except BrokenProcessPool:  # this task killed its worker, or another task did
        async with one_at_a_time:  # if it fails again, it is the cause, and the answer is 500
            return await run("second tries", workers=1)


@app.get("/health")
async def health() -> dict[str, int]:
    return {"broken pools": len(broken)}
