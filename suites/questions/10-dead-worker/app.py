"""A CPU-bound report, and a health check."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
def report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of CPU time


@app.get("/health")
async def health() -> str:
    return "ok"
