"""Build reports or send emails after the response, in background tasks or with a limit on pending jobs."""

import asyncio
import time

from fastapi import BackgroundTasks, FastAPI, HTTPException
from recipe import app as recipe
from recipe import pending as pending_reports

app = FastAPI()
pending = 0
free = asyncio.Semaphore(20)  # at most 20 pending emails
sending: set[asyncio.Task[None]] = set()


def build_report() -> None:
    sum(number * number % 7 for number in range(250_000))  # about 12 ms of CPU time
    done()


def send_mail() -> None:
    time.sleep(0.2)
    done()


async def send_mail_on_the_loop() -> None:
    send_mail()


async def send_mail_with_async_client() -> None:
    await asyncio.sleep(0.2)


def done() -> None:
    global pending
    pending -= 1


def finish(job: asyncio.Task[None]) -> None:
    sending.discard(job)
    free.release()
    done()


@app.get("/background/limited-mail")
async def start_mail() -> str:
    global pending
    try:
        await asyncio.wait_for(free.acquire(), timeout=5)
    except TimeoutError:
        raise HTTPException(503, "too many mails are waiting", {"Retry-After": "5"}) from None
    pending += 1
    job = asyncio.create_task(send_mail_with_async_client())
    sending.add(job)
    job.add_done_callback(finish)
    return "accepted"


@app.get("/background/{job}")
async def start(job: str, tasks: BackgroundTasks) -> str:
    global pending
    pending += 1
    tasks.add_task({"report": build_report, "mail": send_mail, "async-mail": send_mail_on_the_loop}[job])
    return "accepted"


@app.get("/pending")
async def jobs() -> dict[str, int]:
    return {"pending": pending}


@recipe.get("/pending")
async def jobs_of_the_recipe() -> dict[str, int]:
    return {"pending": len(pending_reports)}
