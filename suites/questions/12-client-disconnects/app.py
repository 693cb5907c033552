"""A report that takes about 200 ms of CPU time, in three kinds of endpoints that ignore disconnects."""

import asyncio
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI

app = FastAPI()
pool = ProcessPoolExecutor()


def build_report() -> int:
    return sum(number * number % 7 for number in range(5_000_000))  # about 200 ms of CPU time


@app.get("/def/report")
def in_a_thread() -> int:
    return build_report()


@app.get("/async-def/report")
async def on_the_event_loop() -> int:
    return build_report()


@app.get("/pool/report")
async def in_a_process() -> int:
    return await asyncio.get_running_loop().run_in_executor(pool, build_report)


@app.get("/health")
async def health() -> str:
    return "ok"
