"""Build reports in a process pool, and refuse requests that would wait too long."""

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI, HTTPException
from reports import build_report

WORKERS = os.cpu_count() or 1
MOST_PENDING = 16 * WORKERS  # at 12 ms per report, a request waits at most about 200 ms

app = FastAPI()
pool = ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn"))
pending = 0


@app.get("/report")
async def report() -> int:
    global pending
    if pending >= MOST_PENDING:
        raise HTTPException(503, "too many reports are pending", headers={"Retry-After": "1"})
    pending += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, build_report)
    finally:
        pending -= 1


@app.get("/health")
async def health() -> str:
    return "ok"
