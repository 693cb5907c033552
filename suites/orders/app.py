"""A shop: a POST accepts an order, computes its price, and returns a new id and the time."""

import time
import uuid
from datetime import UTC, datetime

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Order(BaseModel):
    customer: str
    items: list[int]


@app.post("/orders", status_code=201)
def order(order: Order) -> dict[str, object]:
    price = sum(item * number for item in order.items for number in range(100_000))
    time.sleep(0.01)  # stands in for a database query
    return {"id": uuid.uuid4(), "created_at": datetime.now(UTC), "customer": order.customer, "price": price}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}
