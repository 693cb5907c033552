"""Run the jobs of recipe.py in `def` or `async def` handlers, depending on the environment variable HANDLERS."""

import os

from fastapi import FastAPI
from recipe import build_report, call_service_with_blocking_client

app = FastAPI()


async def blocking_wait() -> str:
    return call_service_with_blocking_client()


async def blocking_report() -> int:
    return build_report()


handlers = {"def": (call_service_with_blocking_client, build_report), "async def": (blocking_wait, blocking_report)}
wait, compute = handlers[os.environ["HANDLERS"]]
app.get("/wait")(wait)
app.get("/compute")(compute)


@app.get("/health")
async def health() -> str:
    return "ok"
