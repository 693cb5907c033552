"""Stream events from a thread that stops when the client disconnects."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


def make_event(number: int) -> str:
    return f"data: {sum(step * step % 7 for step in range(number, number + 100_000))}\n\n"  # about 4 ms of CPU time


async def events() -> AsyncIterator[str]:
    loop, queue, must_stop = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

    def produce() -> None:
        for number in range(50):
            if must_stop.is_set():
                return
            loop.call_soon_threadsafe(queue.put_nowait, make_event(number))
            time.sleep(0.01)
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=produce, daemon=True).start()
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:  # runs at the end of the stream, and when Starlette cancels it because the client has disconnected
        must_stop.set()


@app.get("/answer")
async def answer() -> StreamingResponse:
    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    return "ok"
