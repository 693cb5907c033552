"""Start a process pool with the start method in the environment variable METHOD, while another thread holds a lock."""

import asyncio
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

import numpy as np
from fastapi import FastAPI

WORKERS = 4
prices, lock = np.ones(250_000), threading.Lock()


def send_metrics():
    while True:
        with lock:
            time.sleep(0.1)


def report() -> float:
    with lock:  # a process that was forked while the thread held the lock waits here forever
        return sum(price * price for price in prices)


@asynccontextmanager
async def lifespan(app: FastAPI):
    context = multiprocessing.get_context(os.environ["METHOD"])
    threading.Thread(target=send_metrics, daemon=True).start()
    with ProcessPoolExecutor(WORKERS, context) as app.state.pool:
        await asyncio.gather(*(get_report() for _ in range(WORKERS)))
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/report")
async def get_report() -> float:
    return await asyncio.get_running_loop().run_in_executor(app.state.pool, report)


@app.get("/health")
async def health() -> str:
    return "ok"
