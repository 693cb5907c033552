"""A service that responds immediately, and computes primes in the background for one request at a time."""

from concurrent.futures import ProcessPoolExecutor

from fastapi import BackgroundTasks, FastAPI

from common.task import is_prime

app = FastAPI()
pool = ProcessPoolExecutor(1)
counts = {"pending": 0}


def count_primes() -> int:
    return sum(map(is_prime, range(2, 38_000)))


def compute() -> None:
    pool.submit(count_primes).result()
    counts["pending"] -= 1


@app.get("/report")
async def report(tasks: BackgroundTasks) -> dict[str, str]:
    counts["pending"] += 1
    tasks.add_task(compute)
    return {"status": "accepted"}


@app.get("/metrics")
async def metrics() -> dict[str, int]:
    return counts


@app.get("/health")
async def health() -> str:
    return "ok"
