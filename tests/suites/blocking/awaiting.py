"""Correct asynchronous code: awaited requests to a slow service."""

import subprocess
import sys
from pathlib import Path

import aiohttp
from fastapi import FastAPI

service = subprocess.Popen(
    [sys.executable, Path(__file__).with_name("slow_service.py")], stdout=subprocess.PIPE, text=True
)
assert service.stdout is not None
URL = service.stdout.readline().strip()
app = FastAPI()


@app.get("/report")
async def report() -> str:
    async with aiohttp.ClientSession() as http:
        for _ in range(8):
            response = await http.request("GET", URL)
            await response.read()
    return "done"
