"""FastAPI with `async def` around a task that never awaits: the event loop is blocked until the task is done."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from common.task import perform

app = FastAPI()


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.get("/{task}", response_class=PlainTextResponse)
async def work(task: str) -> str:
    return perform(task).answer
