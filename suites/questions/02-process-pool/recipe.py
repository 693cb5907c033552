"""Build reports in a process pool that starts and stops with the application."""

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from reports import build_report, start_worker

WORKERS = os.cpu_count() or 1  # in a container with a CPU limit, set the number yourself
SIZE = 250_000


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, ProcessPoolExecutor]]:
    with ProcessPoolExecutor(
        max_workers=WORKERS,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=start_worker,
    ) as pool:
        list(pool.map(build_report, [0] * WORKERS))  # start the workers now, not during the first requests
        yield {"pool": pool}


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def report(request: Request) -> int:
    return await asyncio.get_running_loop().run_in_executor(request.state.pool, build_report, SIZE)


@app.get("/health")
async def health() -> str:
    return "ok"
