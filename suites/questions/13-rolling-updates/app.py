"""An I/O-bound report, and a health check that fails while the server drains."""

import asyncio

from fastapi import FastAPI, Response

app = FastAPI()
app.state.is_draining = False


@app.get("/report")
async def report(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "report"


@app.get("/health")
async def health(response: Response) -> str:
    if app.state.is_draining:
        response.status_code = 503
    return "draining" if app.state.is_draining else "ok"
