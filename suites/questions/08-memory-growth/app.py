"""Three endpoints with a leak: each request stores 20 KB that is never freed."""

import asyncio
from functools import cache

from fastapi import FastAPI

app = FastAPI()
history: list[bytearray] = []
events: asyncio.Queue[bytearray] = asyncio.Queue()


class Report:
    def __init__(self) -> None:
        self.rows = bytearray(20_000)

    @cache  # noqa: B019 - keeps every report, because self is part of the key
    def size(self) -> int:
        return len(self.rows)


@app.get("/list")
async def remember() -> int:
    history.append(bytearray(20_000))  # nothing ever removes it
    return 20_000


@app.get("/cache")
async def measure() -> int:
    return Report().size()


@app.get("/queue")
async def announce() -> int:
    events.put_nowait(bytearray(20_000))  # nothing reads from the queue
    return 20_000


@app.get("/health")
async def health() -> str:
    return "ok"
