"""Build reports in a process pool, and reject requests that would wait too long."""

import asyncio
import multiprocessing
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from reports import build_report

pending, is_broken = 0, False


@asynccontextmanager
async def lifespan(app: FastAPI):
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as app.state.pool:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def report() -> int:
    global pending, is_broken
    if pending >= 50:  # 2 CPUs take about 2.5 s for 50 reports
        raise HTTPException(503, "too many reports are waiting", {"Retry-After": "3"})
    pending += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(app.state.pool, build_report)
    except BrokenExecutor:
        is_broken = True
        raise HTTPException(500, "a process of the pool died") from None
    finally:
        pending -= 1


@app.get("/live")  # would a restart help?
@app.get("/ready")  # should this pod get requests? Not while it waits for the restart.
async def check() -> None:
    if is_broken:
        raise HTTPException(503, "the process pool is broken")
