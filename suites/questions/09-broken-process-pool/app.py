"""A process pool that is never replaced, a Pebble pool that replaces each dead worker, and the recipe."""

import asyncio
from concurrent.futures import ProcessPoolExecutor

import pebble
from fastapi import FastAPI
from recipe import app as replaced
from tasks import build_report

app = FastAPI()
pool = ProcessPoolExecutor(2)
pebble_pool = pebble.ProcessPool(2)


@app.get("/report")
async def report() -> int:
    return await asyncio.get_running_loop().run_in_executor(pool, build_report)


@app.get("/pebble/report")
async def report_with_pebble() -> int:
    return await asyncio.wrap_future(pebble_pool.schedule(build_report))


@replaced.get("/health")
@app.get("/health")
async def health() -> str:
    return "ok"
