"""Keep a limited history, and tell which lines of code allocated the memory that is still in use."""

import tracemalloc
from collections import deque

from fastapi import FastAPI

app = FastAPI()
history: deque[bytearray] = deque(maxlen=100)


@app.get("/list")
async def remember() -> int:
    history.append(bytearray(20_000))
    return 20_000


@app.get("/debug/memory")  # protect this path, or listen on another port
def memory() -> list[str]:
    if not tracemalloc.is_tracing():
        tracemalloc.start(5)  # slows the service down until it is restarted
        return ["Tracing starts now: send a thousand requests, then call this again."]
    snapshot = tracemalloc.take_snapshot()
    return [str(line) for line in snapshot.statistics("lineno")[:10]]


@app.get("/health")
async def health() -> str:
    return "ok"
