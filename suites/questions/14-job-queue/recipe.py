"""Build reports in Celery workers: a job survives a restart of the web server and a crash of its worker process."""

import os

from celery import Celery
from celery.result import AsyncResult
from fastapi import FastAPI

redis = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
queue = Celery("reports", broker=redis, backend=redis)
queue.conf.update(
    task_acks_late=True,  # the broker keeps each job until the job is done
    task_reject_on_worker_lost=True,  # if the worker dies, the broker redelivers the job, without a limit
    worker_prefetch_multiplier=1,  # reserve at most one job per worker process
    result_expires=3600,  # seconds until Redis deletes a result
)
app = FastAPI()


@queue.task
def build_report(ms: int) -> int:
    return sum(number * number % 7 for number in range(20_000 * ms))  # about `ms` milliseconds of CPU time


@app.post("/jobs/{ms}", status_code=202)
def start(ms: int) -> dict[str, str]:
    return {"id": build_report.delay(ms).id}


@app.get("/jobs/{job_id}")
def find(job_id: str) -> dict[str, object]:
    job = AsyncResult(job_id, app=queue)
    return {"state": job.state, "report": job.result if job.successful() else None}


@app.get("/report/{ms}")
def start_and_wait(ms: int) -> int:
    return build_report.delay(ms).get(timeout=30)


@app.get("/health")
async def health() -> str:
    return "ok"
