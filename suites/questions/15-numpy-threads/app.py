"""Multiply matrices with the default number of BLAS threads."""

import numpy as np
from fastapi import FastAPI

app = FastAPI()
matrix = np.eye(200) + 1 / 200


@app.get("/report")
def build_report() -> float:
    product = matrix
    for _ in range(20):
        product = product @ matrix / 2
    return round(float(product.sum()), 6)


@app.get("/health")
async def health() -> str:
    return "ok"
