"""Compute in sub-interpreters, and pass bytes, which need no pickling."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import InterpreterPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from work import brighten

WORKERS = os.cpu_count()  # in a container with a CPU limit, use the limit
IMAGES = {megabytes: bytes(range(250)) * int(megabytes * 4000) for megabytes in (0.001, 1, 10)}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with InterpreterPoolExecutor(WORKERS) as app.state.pool:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/images")
async def brighter_image(megabytes: float, request: Request) -> dict[str, int]:
    loop = asyncio.get_running_loop()
    image = await loop.run_in_executor(request.app.state.pool, brighten, IMAGES[megabytes])
    return {"bytes": len(image), "last": image[-1]}


@app.get("/health")
async def health() -> str:
    return "ok"
