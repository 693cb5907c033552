"""A stream of 50 events from Flask: each stream occupies a thread of gunicorn until its end."""

import time
from collections.abc import Iterator

from flask import Flask, Response

app = Flask(__name__)


def events() -> Iterator[str]:
    for number in range(50):
        total = sum(step * step % 7 for step in range(number, number + 40_000))  # about 1.7 ms of CPU time
        time.sleep(0.02)
        yield f"data: {number} {total}\n\n"


@app.get("/answer")
def answer() -> Response:
    return Response(events(), mimetype="text/event-stream")


@app.get("/health")
def health() -> str:
    return "ok"
