"""Serve a report that takes about 10 ms of CPU time."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
async def report() -> int:
    return sum(number * number % 7 for number in range(125_000))


@app.get("/health")
async def health() -> str:
    return "ok"
