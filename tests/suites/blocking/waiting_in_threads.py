"""A plain `def` that waits for a slow service in AnyIO's threads."""

import subprocess
import sys
from pathlib import Path

import requests
from fastapi import FastAPI

service = subprocess.Popen(
    [sys.executable, Path(__file__).with_name("slow_service.py")], stdout=subprocess.PIPE, text=True
)
assert service.stdout is not None
URL = service.stdout.readline().strip()
app = FastAPI()


@app.get("/report")
def report() -> str:
    for _ in range(4):
        requests.get(URL, timeout=5)
    return "done"
