"""A computation in request handlers, which run in eight threads."""

from flask import Flask

app = Flask(__name__)


@app.get("/report")
def report() -> str:
    total = 0
    for number in range(200_000):
        total += number * number % 7
    return str(total)
