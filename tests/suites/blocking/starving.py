"""More concurrent slow calls than AnyIO's pool has threads."""

import time

from fastapi import FastAPI

app = FastAPI()


def query_database() -> str:
    time.sleep(0.4)
    return "rows"


@app.get("/report")
def report() -> str:
    return query_database()
