"""A service with a slow route: a report that computes, and a health check."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
async def report() -> dict[str, int]:
    return {"sum": sum(number * number for number in range(600_000))}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}
