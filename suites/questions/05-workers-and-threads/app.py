"""Serve pages that compute for about 12 ms, wait for 100 ms, or compute for about 2.5 ms and wait for 40 ms."""

import time

from flask import Flask

app = Flask(__name__)


def compute(numbers: int) -> int:
    return sum(number * number % 7 for number in range(numbers))


@app.get("/compute")
def report() -> str:
    return str(compute(250_000))  # about 12 ms


@app.get("/wait")
def price() -> str:
    time.sleep(0.1)  # stands in for another service or a database
    return "7"


@app.get("/mixed")
def page() -> str:
    time.sleep(0.04)
    return str(compute(50_000))  # about 2.5 ms


@app.get("/health")
def health() -> str:
    return "ok"
