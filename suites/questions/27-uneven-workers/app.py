"""A service whose report computes for about 10 ms."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
async def report() -> int:
    return sum(number * number % 7 for number in range(200_000))


@app.get("/health")
async def health() -> str:
    return "ok"
