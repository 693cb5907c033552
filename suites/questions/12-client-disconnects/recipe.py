"""Build reports in a process pool, and skip those whose client disconnected while they waited."""

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI, Request, Response

app = FastAPI()
processes = os.cpu_count() or 1
pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
free = asyncio.Semaphore(processes)  # a report waits here until a process is free


def build_report() -> int:
    return sum(number * number % 7 for number in range(5_000_000))  # about 200 ms of computing


async def disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@app.get("/report", response_model=int)
async def report(request: Request) -> int | Response:
    disconnected = asyncio.create_task(disconnect(request))
    try:
        async with free:
            if disconnected.done():
                return Response(status_code=499)  # nobody reads this answer
            return await asyncio.get_running_loop().run_in_executor(pool, build_report)
    finally:
        disconnected.cancel()


@app.get("/health")
async def health() -> str:
    return "ok"
