"""A report that takes about 90 ms of CPU time, and a health check in the same process."""

import os

from fastapi import FastAPI

app = FastAPI()


def build_report() -> int:
    return sum(number * number % 7 for number in range(2_000_000))  # about 90 ms of CPU time


@app.get("/def/report")
def in_a_thread() -> int:
    return build_report()


@app.get("/async-def/report")
async def on_the_event_loop() -> int:
    return build_report()


def live() -> str:
    return "ok"


async def async_live() -> str:
    return "ok"


app.get("/live")(async_live if "ASYNC_LIVE" in os.environ else live)
