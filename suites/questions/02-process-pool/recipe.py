"""Build reports in a process pool that starts and stops with the application."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from reports import build_report

WORKERS = os.cpu_count() or 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, ProcessPoolExecutor]]:
    with ProcessPoolExecutor(
        max_workers=WORKERS,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),  # Ctrl-C must stop the server first, and then its workers
    ) as pool:
        list(pool.map(abs, range(WORKERS)))  # start the workers now, not during the first requests
        yield {"pool": pool}


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def report(request: Request, size: int = 250_000) -> int:
    return await asyncio.get_running_loop().run_in_executor(request.state.pool, build_report, size)


@app.get("/health")
async def health() -> str:
    return "ok"
