"""The strategy of 8_prefork, from Flask's documentation; gunicorn runs it."""

from flask import Flask
from primes import primes

app = Flask(__name__)


@app.get("/")
def main() -> str:
    return primes()


@app.get("/ping")
def ping() -> str:
    return "pong"
