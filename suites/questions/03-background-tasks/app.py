"""Run the jobs of the recipe as background tasks: `def` functions in threads, `async def` functions on the loop."""

import time

from fastapi import BackgroundTasks, FastAPI
from jobs import build_report
from recipe import app as limited
from recipe import emails, reports

in_threads, on_loop = FastAPI(), FastAPI()
pending = 0


def report() -> None:
    global pending
    build_report()
    pending -= 1


def email() -> None:
    global pending
    time.sleep(0.2)
    pending -= 1


async def report_on_loop() -> None:
    report()


async def email_on_loop() -> None:
    email()


@in_threads.get("/{job}")
async def start_in_thread(job: str, tasks: BackgroundTasks) -> None:
    global pending
    pending += 1
    tasks.add_task({"report": report, "email": email}[job])


@on_loop.get("/{job}")
async def start_on_loop(job: str, tasks: BackgroundTasks) -> None:
    global pending
    pending += 1
    tasks.add_task({"report": report_on_loop, "email": email_on_loop}[job])


@in_threads.get("/jobs/pending")
@on_loop.get("/jobs/pending")
async def count() -> dict[str, int]:
    return {"pending": pending}


@limited.get("/jobs/pending")
async def count_limited() -> dict[str, int]:
    return {"pending": len(reports.pending) + len(emails.pending)}
