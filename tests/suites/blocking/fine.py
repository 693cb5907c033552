"""An application without a fault."""

import asyncio

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
async def report() -> str:
    await asyncio.sleep(0.02)
    return "done"
