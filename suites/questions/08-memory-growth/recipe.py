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
        tracemalloc.start()  # slows the service down until it is restarted
        return ["Tracing starts now: send a thousand requests, then call this again."]
    traced, _ = tracemalloc.get_traced_memory()
    lines = tracemalloc.take_snapshot().statistics("lineno")[:10]
    return [f"{traced} bytes in all", *map(str, lines)]


@app.get("/health")
async def health() -> str:
    return "ok"
