"""Build the report of recipe.py without a pool, and with a new pool for each request."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI
from reports import build_report

app = FastAPI()
SIZE = 250_000


@app.get("/async-def")
async def in_the_event_loop() -> int:
    return build_report(SIZE)


@app.get("/def")
def in_a_thread() -> int:
    return build_report(SIZE)


@app.get("/pool-per-request")
def in_a_new_pool() -> int:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(build_report, SIZE).result()


@app.get("/health")
async def health() -> str:
    return "ok"
