"""Multiply matrices with one BLAS thread per worker."""

import numpy as np
from fastapi import FastAPI
from threadpoolctl import threadpool_info, threadpool_limits

threadpool_limits(limits=1)  # call this after all imports: it limits only libraries that are loaded

app = FastAPI()
matrix = np.eye(200) + 1 / 200


@app.get("/report")
def build_report() -> float:
    product = matrix
    for _ in range(20):
        product = product @ matrix / 2
    return round(float(product.sum()), 6)


@app.get("/threads")
def native_threads() -> dict[str, int]:  # only libraries that are loaded
    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


@app.get("/health")
async def health() -> str:
    return "ok"
