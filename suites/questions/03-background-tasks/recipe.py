"""Build reports in a process pool, and limit how many of them may wait."""

import asyncio
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI, HTTPException

app = FastAPI()
pool = ProcessPoolExecutor()
free = asyncio.Semaphore(8)  # how many reports may be pending
pending: set[asyncio.Future[int]] = set()


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of computing


def finish(job: asyncio.Future[int]) -> None:
    pending.discard(job)
    free.release()


@app.get("/background/report")
async def start_report() -> str:
    try:
        await asyncio.wait_for(free.acquire(), timeout=5)
    except TimeoutError:  # before Python 3.11: asyncio.TimeoutError
        raise HTTPException(503, "too many reports are waiting", {"Retry-After": "5"}) from None
    try:
        job = asyncio.get_running_loop().run_in_executor(pool, build_report)
    except BaseException:  # such as BrokenProcessPool
        free.release()
        raise
    pending.add(job)
    job.add_done_callback(finish)
    return "accepted"


@app.get("/pending")
async def jobs() -> dict[str, int]:
    return {"pending": len(pending)}
