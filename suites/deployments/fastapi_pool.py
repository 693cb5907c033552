"""FastAPI with a process pool: the task runs in another process, and the loop awaits its result."""

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from common.task import perform


@asynccontextmanager
async def with_pool(app: FastAPI) -> AsyncIterator[None]:
    processes = int(os.environ["PROCESSES"])
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("forkserver")) as app.state.pool:
        yield


app = FastAPI(lifespan=with_pool)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.get("/{task}", response_class=PlainTextResponse)
async def work(task: str, request: Request) -> str:
    pool = request.app.state.pool
    return (await asyncio.get_running_loop().run_in_executor(pool, perform, task)).answer
