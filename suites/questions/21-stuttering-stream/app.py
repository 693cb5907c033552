"""A stream of tokens whose prompt is prepared on the event loop or in a thread."""

import asyncio
import os
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


def prepare(prompt: str) -> int:
    return sum(number * number % 7 for number in range(2_000_000)) + len(prompt)  # about 100 ms of CPU time


async def tokens() -> AsyncIterator[str]:
    if os.environ["PREPARES_ON"] == "loop":
        prepare("Hello")
    else:
        await asyncio.to_thread(prepare, "Hello")
    for number in range(50):
        await asyncio.sleep(0.02)
        yield f"data: {number}\n\n"


@app.get("/answer")
async def answer() -> StreamingResponse:
    return StreamingResponse(tokens(), media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    return "ok"
