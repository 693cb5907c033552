import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from jobs import build_report, send_email, start_worker
from limited import LimitedJobs

WORKERS = 2  # set this to the number of CPUs
reports = LimitedJobs(8 * WORKERS)
emails = LimitedJobs(20)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"), start_worker) as app.state.pool:
        yield
        await asyncio.gather(reports.finish(), emails.finish())


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def start_report() -> None:
    await reports.start(lambda: asyncio.get_running_loop().run_in_executor(app.state.pool, build_report))


@app.get("/email")
async def start_email() -> None:
    await emails.start(send_email)


@app.get("/live")  # a restart replaces a broken pool
async def check() -> None:
    if reports.is_broken:
        raise HTTPException(503, "the process pool is broken")
