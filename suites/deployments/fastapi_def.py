"""FastAPI with a plain `def`: the task runs in a thread of AnyIO's pool, and the event loop stays free."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from common.task import perform

app = FastAPI()


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.get("/{task}", response_class=PlainTextResponse)
def work(task: str) -> str:
    return perform(task).answer
