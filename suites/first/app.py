"""A service with a long task: FastAPI, a report that takes its time, and a health check."""

from fastapi import FastAPI

app = FastAPI()


@app.get("/report")
def report(customer: str) -> dict[str, object]:
    return {"customer": customer, "sum": sum(number * number for number in range(400_000))}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}
