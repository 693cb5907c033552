import asyncio
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

free = asyncio.Semaphore(8)  # at most 8 pending reports
pending: set[asyncio.Task[int]] = set()


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of CPU time


@asynccontextmanager
async def lifespan(app: FastAPI):
    with ProcessPoolExecutor() as app.state.pool:  # on shutdown, this waits for pending reports
        yield


app = FastAPI(lifespan=lifespan)


async def build_in_pool() -> int:
    try:
        return await asyncio.get_running_loop().run_in_executor(app.state.pool, build_report)
    finally:
        free.release()


@app.get("/background/report")
async def start_report() -> str:
    try:
        await asyncio.wait_for(free.acquire(), timeout=5)
    except TimeoutError:  # before Python 3.11: asyncio.TimeoutError
        raise HTTPException(503, "too many reports are waiting", {"Retry-After": "5"}) from None
    job = asyncio.create_task(build_in_pool())
    pending.add(job)
    job.add_done_callback(pending.discard)
    return "accepted"
