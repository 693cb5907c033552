"""Work in a background task of FastAPI: a report that computes, and a mail that waits."""

import time

from fastapi import BackgroundTasks, FastAPI

app = FastAPI()
pending = 0


def build_report() -> None:
    sum(number * number % 7 for number in range(250_000))  # about 12 ms of computing
    done()


def send_mail() -> None:
    time.sleep(0.2)
    done()


async def send_mail_on_the_loop() -> None:
    send_mail()


def done() -> None:
    global pending
    pending -= 1


@app.get("/background/{job}")
async def start(job: str, tasks: BackgroundTasks) -> str:
    global pending
    pending += 1
    tasks.add_task({"report": build_report, "mail": send_mail, "async-mail": send_mail_on_the_loop}[job])
    return "accepted"


@app.get("/pending")
async def jobs() -> dict[str, int]:
    return {"pending": pending}
