"""A log file on a slow disk, simulated by a pipe whose reader takes 10 ms for each line."""

import logging
import os
import threading
import time

from fastapi import FastAPI

LINE = "x" * 60_000
app = FastAPI()
log = logging.getLogger("orders")
reading, writing = os.pipe()
log.addHandler(logging.StreamHandler(os.fdopen(writing, "w")))


def read_slowly() -> None:
    while os.read(reading, 65_536):
        time.sleep(0.01)


threading.Thread(target=read_slowly, daemon=True).start()


@app.get("/report")
async def report() -> str:
    log.error("%s", LINE)
    return "ok"
