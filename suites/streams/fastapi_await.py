"""FastAPI with an `async def` generator that awaits: streams take turns on the event loop while others wait."""

import asyncio
from collections.abc import AsyncIterator

from events import EVENTS, WAIT_S, make_event
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/health")
async def health() -> str:
    return "ok"


async def events(kind: str) -> AsyncIterator[str]:
    for number in range(EVENTS):
        event = make_event(kind, number)
        await asyncio.sleep(WAIT_S[kind])
        yield event


@app.get("/{kind}")
async def stream(kind: str) -> StreamingResponse:
    return StreamingResponse(events(kind), media_type="text/event-stream")
