"""FastAPI with a thread for each stream: the thread puts events into a queue, and the event loop sends them."""

import asyncio
import threading
from collections.abc import AsyncIterator

from events import blocking_events
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/health")
async def health() -> str:
    return "ok"


async def events(kind: str) -> AsyncIterator[str]:
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def produce() -> None:
        for event in blocking_events(kind):
            loop.call_soon_threadsafe(queue.put_nowait, event)
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=produce, daemon=True).start()
    while (event := await queue.get()) is not None:
        yield event


@app.get("/{kind}")
async def stream(kind: str) -> StreamingResponse:
    return StreamingResponse(events(kind), media_type="text/event-stream")
