"""Load a model on import: an array, or lists of numbers that use as much memory."""

import os

import numpy as np
from fastapi import FastAPI

app = FastAPI()
vectors = np.load(os.environ["VECTORS"], mmap_mode="r" if os.environ["MODEL"] == "lists" else None)

if os.environ["MODEL"] == "lists":
    rows = vectors[: len(vectors) // 10].tolist()  # a number uses 4 bytes in the array, and 40 in a list
    del vectors


def best_of_array() -> str:
    return f"word {np.argmax(vectors @ vectors[7])}"


def best_of_lists() -> str:
    sums = [sum(row) for row in rows]
    return f"word {sums.index(max(sums))}"


@app.get("/best")
def find_best() -> str:
    return best_of_lists() if os.environ["MODEL"] == "lists" else best_of_array()


@app.get("/health")
async def health() -> str:
    return "ok"
