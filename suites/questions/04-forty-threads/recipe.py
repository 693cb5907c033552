"""Use 200 threads, and limit sessions so that no thread waits for a database connection."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, FastAPI
from sqlalchemy import QueuePool, create_engine, text
from sqlalchemy.orm import Session

shared = {"check_same_thread": False}  # SQLite stands in for your database
engine = create_engine("sqlite://", connect_args=shared, poolclass=QueuePool, pool_size=15, max_overflow=0)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = 200
    yield


def get_session() -> Iterator[Session]:
    with Session(engine) as session:
        yield session


app = FastAPI(lifespan=lifespan)
Database = Annotated[Session, Depends(get_session, max_concurrency=15)]  # equals pool_size


@app.get("/orders")
def orders(session: Database) -> int:
    count = session.scalar(text("SELECT 7"))
    time.sleep(0.25)  # a slow query
    return count


@app.get("/health")
async def health() -> str:  # needs no thread
    return "ok"


@app.get("/price")
def price() -> int:
    time.sleep(0.25)  # stands in for a request to another service
    return 7
