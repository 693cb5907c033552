"""FastAPI with a process pool: a process puts the events of a stream into a queue, and the event loop sends them."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from queue import Queue

from events import blocking_events
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

context = multiprocessing.get_context("forkserver")
readers = ThreadPoolExecutor(200)  # one for each open stream; `asyncio.to_thread` has only a few threads


@asynccontextmanager
async def with_pool(app: FastAPI) -> AsyncIterator[None]:
    with context.Manager() as app.state.manager, ProcessPoolExecutor(mp_context=context) as app.state.pool:
        yield


app = FastAPI(lifespan=with_pool)


@app.get("/health")
async def health() -> str:
    return "ok"


def produce(kind: str, queue: "Queue[str | None]") -> None:
    for event in blocking_events(kind):
        queue.put(event)
    queue.put(None)


async def events(kind: str) -> AsyncIterator[str]:
    loop, queue = asyncio.get_running_loop(), app.state.manager.Queue()
    app.state.pool.submit(produce, kind, queue)
    while (event := await loop.run_in_executor(readers, queue.get)) is not None:
        yield event


@app.get("/{kind}")
async def stream(kind: str) -> StreamingResponse:
    return StreamingResponse(events(kind), media_type="text/event-stream")
