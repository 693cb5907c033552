"""A slow call made while holding a lock that all threads need."""

import threading
import time

from flask import Flask

app = Flask(__name__)
lock = threading.Lock()


def call_printer() -> str:
    time.sleep(0.02)
    return "printed"


@app.get("/report")
def report() -> str:
    with lock:
        return call_printer()
