"""Build the reports of recipe.py with Flask."""

import sys
import threading

from flask import Flask, Response, jsonify

app = Flask(__name__)
lock = threading.Lock()
reports = 0


@app.get("/report")
def report() -> Response:
    global reports
    with lock:
        reports += 1
    return jsonify(sum(number * number % 7 for number in range(200_000)))


@app.get("/health")
def health() -> Response:
    gil = sys._is_gil_enabled()
    return Response("ok", headers={"X-GIL": "on" if gil else "off"})
