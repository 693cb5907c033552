"""Build reports in threads."""

from fastapi import FastAPI
from reports import build_report

app = FastAPI()


@app.get("/report")
def report() -> int:
    return build_report()


@app.get("/health")
async def health() -> str:
    return "ok"
