"""Limit the size of a list, and report which lines allocated the additional memory."""

import tracemalloc
from collections import deque

from fastapi import FastAPI

app = FastAPI()
history: deque[bytearray] = deque(maxlen=100)
snapshots: list[tracemalloc.Snapshot] = []


@app.get("/list")
async def remember() -> int:
    history.append(bytearray(20_000))
    return 20_000


@app.get("/debug/memory")  # restrict access to this path, or serve it on another port
def memory() -> list[str]:
    if not snapshots:
        tracemalloc.start()  # slows the service down and uses memory until a restart
        snapshots.append(tracemalloc.take_snapshot())
        return ["Tracing starts now: send a thousand requests, then call this again."]
    lines = tracemalloc.take_snapshot().compare_to(snapshots[0], "lineno")[:10]
    return [f"{tracemalloc.get_traced_memory()[0]} bytes in all", *map(str, lines)]


@app.get("/health")
async def health() -> str:
    return "ok"
