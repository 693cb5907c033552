"""Compute in handler threads, and report in the health check whether the GIL is enabled."""

import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from fastapi import FastAPI, Response


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    limiter = anyio.to_thread.current_default_thread_limiter()  # 40 threads by default
    limiter.total_tokens = os.process_cpu_count() or 1  # in a container with a CPU limit, set PYTHON_CPU_COUNT
    yield


app = FastAPI(lifespan=lifespan)
lock = threading.Lock()
reports = 0


@app.get("/report")
def report() -> int:
    global reports
    with lock:  # without a GIL, unlocked updates are often lost
        reports += 1
    return sum(number * number % 7 for number in range(200_000))  # about 8 ms of CPU time


@app.get("/health")
async def health(response: Response) -> dict[str, bool]:
    gil = sys._is_gil_enabled()
    response.headers["X-GIL"] = "on" if gil else "off"
    return {"gil": gil}
