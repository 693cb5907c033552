"""Use `await` with async clients, `def` handlers for blocking calls, and a process pool for CPU-bound work."""

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI

app = FastAPI()
pool = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))


@app.get("/wait")
async def call_service() -> str:  # I/O-bound, with an async client: async def
    await asyncio.sleep(0.05)  # stands in for a request with httpx.AsyncClient
    return "done"


@app.get("/wait-in-thread")
def call_service_with_blocking_client() -> str:  # I/O-bound, with a blocking client: def
    time.sleep(0.05)  # stands in for requests.get
    return "done"


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms


@app.get("/compute")
async def report() -> int:  # CPU-bound: process pool
    return await asyncio.get_running_loop().run_in_executor(pool, build_report)


@app.get("/health")
async def health() -> str:
    return "ok"
