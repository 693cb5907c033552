"""A response of 5 MB, serialized on the event loop."""

from fastapi import FastAPI
from fastapi.responses import JSONResponse

app = FastAPI()
rows = [{"id": number, "name": f"customer {number}", "paid": number % 3 == 0} for number in range(100_000)]


@app.get("/report")
async def report() -> JSONResponse:
    return JSONResponse(rows)


@app.get("/health")
async def health() -> str:
    return "ok"
