"""Load 60 MB of data in the first request that needs it, so each worker has its own copy."""

from functools import cache

from fastapi import FastAPI

app = FastAPI()


@cache
def lookup_table() -> bytes:
    return b"x" * 60_000_000  # stands for a model, a dictionary or a cache


@app.get("/report")
async def report() -> int:
    return sum(lookup_table()[:100_000])


@app.get("/health")
async def health() -> str:
    return "ok"
