"""Build a report in parallel, and answer other requests meanwhile."""

import asyncio
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI

app = FastAPI()
pool = ThreadPoolExecutor(int(os.environ["THREADS"]))


def part(number: int) -> str:
    return hashlib.pbkdf2_hmac("sha256", b"report", bytes([number]), 60_000).hex()  # releases the GIL


@app.get("/report")
async def report() -> list[str]:
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(pool, part, number) for number in range(16)))


@app.get("/health")
async def health() -> str:
    return "ok"
