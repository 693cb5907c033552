import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as app.state.pool:
        yield


app = FastAPI(lifespan=lifespan)


def prepare(prompt: str) -> int:
    return sum(number * number % 7 for number in range(2_000_000)) + len(prompt)  # about 100 ms of CPU time


async def tokens() -> AsyncIterator[str]:
    await asyncio.get_running_loop().run_in_executor(app.state.pool, prepare, "Hello")
    for number in range(50):
        await asyncio.sleep(0.02)  # stands in for the next token of a model
        yield f"data: {number}\n\n"


@app.get("/answer")
async def answer() -> StreamingResponse:
    return StreamingResponse(tokens(), media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    return "ok"
