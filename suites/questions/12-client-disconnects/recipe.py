"""Build reports in a process pool, and skip each report whose client disconnects while the request waits."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from fastapi import FastAPI, Request, Response

app = FastAPI()
processes = 2  # os.cpu_count() may be too high in a container, and then no report is skipped
pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
free = asyncio.Semaphore(processes)  # a report waits here until a process is free


def build_report() -> int:
    return sum(number * number % 7 for number in range(5_000_000))  # about 200 ms of CPU time


async def disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def build_in_turn(disconnected: asyncio.Task[None]) -> int | None:
    async with free:
        if disconnected.done():
            return None
        return await asyncio.get_running_loop().run_in_executor(pool, build_report)


@app.get("/report", response_model=int)
async def report(request: Request) -> int | Response:
    disconnected = asyncio.create_task(disconnect(request))
    try:  # shield: if this handler is cancelled, the semaphore is still held while the process is busy
        result = await asyncio.shield(build_in_turn(disconnected))
    finally:
        disconnected.cancel()
    return Response(status_code=499) if result is None else result  # the client has disconnected and never gets the 499


@app.get("/health")
async def health() -> str:
    return "ok"
