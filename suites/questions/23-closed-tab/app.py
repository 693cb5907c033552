"""A stream of 50 events, each with about 4 ms of CPU time and a pause of 10 ms, from four kinds of generators."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


def make_event(number: int) -> str:
    return f"data: {sum(step * step % 7 for step in range(number, number + 100_000))}\n\n"  # about 4 ms of CPU time


def with_def() -> Iterator[str]:
    for number in range(50):
        yield make_event(number)
        time.sleep(0.01)


async def that_blocks() -> AsyncIterator[str]:
    for event in with_def():
        yield event


async def that_awaits() -> AsyncIterator[str]:
    for number in range(50):
        yield make_event(number)
        await asyncio.sleep(0.01)


async def with_a_thread() -> AsyncIterator[str]:
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def produce() -> None:
        for event in with_def():
            loop.call_soon_threadsafe(queue.put_nowait, event)
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=produce, daemon=True).start()
    while (event := await queue.get()) is not None:
        yield event


@app.get("/{kind}/answer")
async def answer(kind: str) -> StreamingResponse:
    kinds = {"def": with_def, "blocks": that_blocks, "awaits": that_awaits, "thread": with_a_thread}
    return StreamingResponse(kinds[kind](), media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    return "ok"
