"""A background task that blocks the event loop."""

import time

from fastapi import BackgroundTasks, FastAPI

app = FastAPI()


async def send_mail() -> None:
    time.sleep(0.03)  # noqa: ASYNC251


@app.get("/report")
async def report(tasks: BackgroundTasks) -> str:
    tasks.add_task(send_mail)
    return "accepted"
