"""A service that responds immediately, and computes primes in background tasks, which run in threads."""

from fastapi import BackgroundTasks, FastAPI

from common.task import perform

app = FastAPI()


@app.get("/report")
async def report(tasks: BackgroundTasks) -> dict[str, str]:
    tasks.add_task(perform, "primes")
    return {"status": "accepted"}


@app.get("/health")
async def health() -> str:
    return "ok"
