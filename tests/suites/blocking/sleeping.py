"""`time.sleep` in a coroutine."""

import time

from fastapi import FastAPI

app = FastAPI()


def fetch_exchange_rate() -> float:
    time.sleep(0.02)
    return 1.1


@app.get("/report")
async def report() -> float:
    return fetch_exchange_rate()
