"""A service that takes half a second to start, and whose report computes for about 10 ms."""

import time

from fastapi import FastAPI

time.sleep(0.5)  # a model is loaded: this worker serves no request meanwhile
app = FastAPI()


@app.get("/report")
async def report() -> int:
    return sum(number * number % 7 for number in range(200_000))


@app.get("/health")
async def health() -> str:
    return "ok"
