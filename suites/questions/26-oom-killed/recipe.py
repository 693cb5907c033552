"""Load 60 MB of data when the module is imported: with `preload_app`, before gunicorn forks the workers."""

from fastapi import FastAPI

app = FastAPI()
lookup_table = b"x" * 60_000_000  # stands for a model, a dictionary or a cache


@app.get("/report")
async def report() -> int:
    return sum(lookup_table[:100_000])


@app.get("/health")
async def health() -> str:
    return "ok"
