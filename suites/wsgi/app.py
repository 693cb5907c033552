"""The JSON endpoint on Bottle: it serializes the same data for every request."""

import json
from pathlib import Path

from bottle import Bottle

ORDERS = json.loads(Path(__file__).with_name("answer.json").read_text())

app = Bottle()


@app.get("/api")
def api():
    return ORDERS


@app.get("/ping")
def ping():
    return "pong"
