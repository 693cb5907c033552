"""Search a model file that all processes map into memory: the kernel keeps one copy of its pages."""

import os

import numpy as np
from fastapi import FastAPI

app = FastAPI()
vectors = np.load(os.environ.get("VECTORS", "vectors.npy"), mmap_mode="r")  # written once with np.save


@app.get("/best")
def find_best() -> str:
    return f"word {np.argmax(vectors @ vectors[7])}"  # reads the whole model


@app.get("/health")
async def health() -> str:
    return "ok"
