"""FastAPI with an `async def` generator that never awaits: each stream blocks the event loop until its end."""

import time
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
        time.sleep(WAIT_S[kind])  # noqa: ASYNC251 (the mistake that this server shows)
        yield event


@app.get("/{kind}")
async def stream(kind: str) -> StreamingResponse:
    return StreamingResponse(events(kind), media_type="text/event-stream")
