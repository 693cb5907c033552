"""Serve `def` endpoints that wait for a service or a database, with a `def` or `async def` health check."""

import os
import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, FastAPI
from sqlalchemy import QueuePool, create_engine, text
from sqlalchemy.orm import Session

app = FastAPI()
shared = {"check_same_thread": False}
engine = create_engine("sqlite://", connect_args=shared, poolclass=QueuePool, pool_size=15, max_overflow=0)


def get_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


@app.get("/price")
def price() -> int:
    time.sleep(0.25)  # stands in for a request to another service
    return 7


@app.get("/orders")
def orders(session: Annotated[Session, Depends(get_session)]) -> int:
    count = session.scalar(text("SELECT 7"))
    time.sleep(0.25)  # a slow query; the session holds its connection
    return count


def health() -> str:
    return "ok"


async def async_health() -> str:
    return "ok"


app.get("/health")(async_health if "ASYNC_HEALTH" in os.environ else health)
