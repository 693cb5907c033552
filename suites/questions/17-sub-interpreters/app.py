"""Run the service of recipe.py with the executor named by POOL. If AS_LIST is set, pass each image in a list."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent import futures
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from recipe import IMAGES
from work import brighten, brighten_all


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with getattr(futures, os.environ["POOL"])(os.cpu_count()) as app.state.pool:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/images")
async def brighter_image(megabytes: float, request: Request) -> dict[str, int]:
    loop, pool = asyncio.get_running_loop(), request.app.state.pool
    if "AS_LIST" in os.environ:
        (image,) = await loop.run_in_executor(pool, brighten_all, [IMAGES[megabytes]])
    else:
        image = await loop.run_in_executor(pool, brighten, IMAGES[megabytes])
    return {"bytes": len(image), "last": image[-1]}


@app.get("/health")
async def health() -> str:
    return "ok"
