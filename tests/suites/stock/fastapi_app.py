"""The strategy of 11_fastapi, from FastAPI's documentation; uvicorn runs it."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from primes import primes

app = FastAPI()


@app.get("/", response_class=PlainTextResponse)
def main() -> str:
    return primes()


@app.get("/ping", response_class=PlainTextResponse)
async def ping() -> str:
    return "pong"
