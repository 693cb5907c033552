"""Build reports in threads, and refuse requests that would wait too long."""

from collections.abc import AsyncIterator

from fastapi import Depends, FastAPI, HTTPException
from reports import build_report

MOST_PENDING = 19  # measured throughput × longest acceptable wait: 65/s × 0.3 s

app = FastAPI()
pending = 0


async def limit_pending() -> AsyncIterator[None]:
    """Refuse a request in the event loop, before it waits for a thread, if too many requests are pending."""
    global pending
    if pending >= MOST_PENDING:
        raise HTTPException(503, "too many reports are pending", headers={"Retry-After": "1"})
    pending += 1
    try:
        yield
    finally:
        pending -= 1


@app.get("/report", dependencies=[Depends(limit_pending)])
def report() -> int:
    return build_report()


@app.get("/health")
async def health() -> str:
    return "ok"
