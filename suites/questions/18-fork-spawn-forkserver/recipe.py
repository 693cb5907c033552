"""Start a process pool from a fork server, which has no other threads and imports this module once."""

import asyncio
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI

prices, lock = np.ones(250_000), threading.Lock()  # each process has its own lock


def send_metrics():
    while True:
        with lock:
            time.sleep(0.1)  # stands in for sending metrics


def report() -> float:  # runs in a process of the pool
    with lock:  # stands in for updating a counter of reports
        return sum(price * price for price in prices)


@asynccontextmanager
async def lifespan(app: FastAPI):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    threading.Thread(target=send_metrics, daemon=True).start()  # start threads here, not on import
    with ProcessPoolExecutor(4, context) as app.state.pool:
        await asyncio.gather(*(get_report() for _ in range(4)))  # start all processes now
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def get_report() -> float:
    return await asyncio.get_running_loop().run_in_executor(app.state.pool, report)


@app.get("/health")
async def health() -> str:
    return "ok"
