import asyncio
import logging
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from multiprocessing import get_context

from fastapi import FastAPI
from tasks import build_report, start_worker

pools: dict[str, ProcessPoolExecutor] = {}
one_at_a_time = asyncio.Lock()


@asynccontextmanager
async def lifespan(app: FastAPI):
    yield
    for pool in pools.values():
        pool.shutdown()


app = FastAPI(lifespan=lifespan)


async def run(name: str, workers: int) -> int:
    pool = pools[name] = pools.get(name) or ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, build_report)
    except BrokenProcessPool:
        if pools.get(name) is pool:  # many tasks may fail, but only the first removes the pool
            logging.error("the pool for %s is broken", name)
            del pools[name]
        raise


@app.get("/report")
async def report() -> int:
    with suppress(BrokenProcessPool):  # this task killed its worker, or another task did
        return await run("all tasks", workers=2)
    async with one_at_a_time:  # if a task breaks this pool, too, the response is 500
        return await run("second tries", workers=1)
