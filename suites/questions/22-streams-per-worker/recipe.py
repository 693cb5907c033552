import asyncio
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

app, streams, MOST_STREAMS = FastAPI(), set[object](), 100


async def events() -> AsyncIterator[str]:
    for number in range(50):
        total = sum(step * step % 7 for step in range(number, number + 40_000))  # about 1.7 ms of CPU time
        await asyncio.sleep(0.02)
        yield f"data: {number} {total}\n\n"


async def counted(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    token = object()
    streams.add(token)
    try:
        async for event in stream:
            yield event
    finally:  # at the end of the stream, and if the client disconnects
        streams.discard(token)


@app.get("/answer")
async def answer() -> StreamingResponse:
    if len(streams) >= MOST_STREAMS:  # measured: with more streams, the gaps are too long
        raise HTTPException(503, "too many streams", {"Retry-After": "1"})
    return StreamingResponse(counted(events()), media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    return "ok"
